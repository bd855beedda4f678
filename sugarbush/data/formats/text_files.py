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

from sugarbush.data.formats.names import COMPRESSIONS
from sugarbush.data.remote import File
from sugarbush.errors import InputError

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
# In these encodings, the byte of a line end is never a part of another character.
_BYTEWISE = {"utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", "cp1252"}
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


def can_be_divided(path: File, encoding: str | None) -> bool:
    """Return whether `lines_from` can start inside a file: the file is not compressed, and its
    encoding has one byte per line end. Raises OSError."""
    if path.suffix.lower() in COMPRESSIONS:
        return False
    with open_bytes(path) as file:
        return codecs.lookup(encoding_of(file.read(4), encoding)).name in _BYTEWISE


class LinesFrom:
    """The lines of a file that `can_be_divided`, from the byte `start`. Raises InputError and
    OSError. `start` and `end` are the first byte of the last line, and the byte after it.

    The lines are those of `lines_of`. With `skip_first`, the rest of the line of byte `start` - 1
    is skipped, because another reader reads this line.
    """

    def __init__(
        self,
        path: File,
        setting: str,
        encoding: str | None = None,
        *,
        start: int = 0,
        skip_first: bool = False,
        newline: str = "",
    ) -> None:
        self.start = self.end = start
        self._lines = self._read(path, setting, encoding, skip_first, newline.encode())

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def _read(
        self, path: File, setting: str, encoding: str | None, skip_first: bool, newline: bytes
    ) -> Iterator[str]:
        with reading_text(path, setting, encoding), open_bytes(path) as file:
            mark = file.read(4)
            codec = encoding_of(mark, encoding)
            if codec == _UTF8:
                codec = "utf-8"
                if not self.end and mark.startswith(codecs.BOM_UTF8):
                    self.end = len(codecs.BOM_UTF8)
            self.end -= skip_first
            file.seek(self.end)
            lines = _byte_lines(file, newline)
            if skip_first:
                self.end += len(next(lines, b""))
            for line in lines:
                self.start, self.end = self.end, self.end + len(line)
                yield line.decode(codec)


def _byte_lines(file: IO[bytes], newline: bytes) -> Iterator[bytes]:
    """Yield lines with their ends. Without `newline`, every usual line end ends a line."""
    rest = b""
    while block := file.read(max(_BLOCK_BYTES, len(rest))):
        if newline:
            *lines, rest = (rest + block).split(newline)
            yield from (line + newline for line in lines)
        else:
            # The last line stays, because its end may be the first half of a longer one.
            *lines, rest = (rest + block).splitlines(keepends=True)
            yield from lines
    if rest:
        yield rest


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
