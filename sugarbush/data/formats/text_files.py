"""Opens text files of any encoding, also compressed. Errors name file and byte, never a value.

A byte order mark decides the encoding. A file without a mark has the encoding of the setting, which
is UTF-8 by default. The content never decides. If one record with a wrong byte could change the
encoding, it would change the text of every other record.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pyarrow as pa

from sugarbush.data.remote import File
from sugarbush.errors import InputError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
WESTERN = "cp1252"  # the encoding of Windows in Western Europe and America
_UTF8 = "utf-8-sig"
_MARKS = {
    codecs.BOM_UTF8: _UTF8,
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Decoders that count the mark as a character, for the position of a wrong byte.
_WITH_MARK = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_SET_ENCODING = (
    f"Set prepare.encoding to the encoding of the file, such as {WESTERN} (Windows, Western "
    "Europe), or save the file as UTF-8"
)
_CONVERT = "Save the file as UTF-8, or convert it: iconv -f CP1252 -t UTF-8 OLD > NEW"
_WITH_ENCODING = ("prepare.file", "--from")
_BLOCK_BYTES = 2**20
_HEADER_BYTES = 2**16


def encoding_of(start: bytes, encoding: str | None) -> str:
    """Return the encoding of a file with the first bytes `start`, if the setting is `encoding`.

    >>> encoding_of("été".encode("utf-16"), "cp1252"), encoding_of(b"text", "cp1252")
    ('utf-16', 'cp1252')
    """
    marks = (name for mark, name in _MARKS.items() if start.startswith(mark))
    return next(marks, encoding or _UTF8)


def shown_encoding(path: File, encoding: str | None) -> str:
    """Return the encoding of a file, as a user writes it. Raises OSError."""
    with open_bytes(path) as file:
        return _shown(encoding_of(file.read(4), encoding))


def _shown(name: str) -> str:
    return name.upper().removesuffix("-SIG") if name.startswith("utf") else name


def header_encoding(path: File) -> str | None:
    """Return `cp1252` if the first line of a csv file is not UTF-8, and None otherwise.

    No record decides, because the first line is the header. Raises OSError.
    """
    with open_bytes(path) as file:
        line = file.read(_HEADER_BYTES).partition(b"\n")[0]
    if any(map(line.startswith, _MARKS)):
        return None
    try:
        codecs.utf_8_decode(line, "strict", False)
    except UnicodeDecodeError:
        return WESTERN
    return None


def open_bytes(path: File) -> IO[bytes]:
    """Open a file, and decompress it if its name ends with `.gz` or `.zst`. Raises OSError."""
    file, kind = path.open("rb"), COMPRESSIONS.get(path.suffix.lower())
    return file if kind is None else pa.CompressedInputStream(file, kind)


def open_text(
    path: File, encoding: str | None = None, newline: str = "", errors: str = "strict"
) -> IO[str]:
    """Open a text file at the first character after the mark. Raises OSError."""
    file = open_bytes(path)
    chosen = encoding_of(file.read(4), encoding)
    if file.seekable():
        file.seek(0)
    else:
        file.close()
        file = open_bytes(path)
    return io.TextIOWrapper(file, chosen, errors=errors, newline=newline)


@contextmanager
def reading_text(path: File, setting: str, encoding: str | None = None) -> Iterator[None]:
    """Convert errors of decoding and decompressing a file to InputError, in a block."""
    try:
        yield
    except UnicodeDecodeError:
        raise _not_decodable(path, setting, encoding) from None
    except (pa.ArrowException, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{path}: cannot be decompressed (setting {setting})") from None


def lines_of(
    path: File, setting: str, encoding: str | None = None, newline: str = ""
) -> Iterator[str]:
    """Yield the lines of a text file with their ends. Raises InputError and OSError."""
    with reading_text(path, setting, encoding), open_text(path, encoding, newline) as file:
        yield from file


def not_utf8(setting: str) -> str:
    """Return what to do with a file that is not UTF-8."""
    return _SET_ENCODING if setting in _WITH_ENCODING else _CONVERT


def _not_decodable(path: File, setting: str, encoding: str | None) -> InputError:
    """Return an error that names the first line and byte that cannot be decoded."""
    with open_bytes(path) as file:
        block = file.read(_BLOCK_BYTES)
        name = encoding_of(block, encoding)
        mark = next((m for m in _WITH_MARK if block.startswith(m)), b"")
        decoder_name = _WITH_MARK.get(mark, "utf-8" if name == _UTF8 else name)
        decoder = codecs.getincrementaldecoder(decoder_name)()
        line, start = 1, 0
        while True:
            waiting = len(decoder.getstate()[0])
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                good = error.object[: error.start].decode(decoder_name, "ignore")
                return InputError(
                    f"{path}, line {line + good.count(chr(10))}: is not {_shown(name)} at byte "
                    f"{start - waiting + error.start}. {not_utf8(setting)} (setting {setting})"
                )
            line, start = line + text.count("\n"), start + len(block)
            if not block:
                return InputError(f"{path}: cannot be decoded (setting {setting})")
            block = file.read(_BLOCK_BYTES)
