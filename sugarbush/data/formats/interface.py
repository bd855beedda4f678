"""The interface of an input format, and the search for the format of a source.

A format is a class that an entry point of the group `sugarbush.formats` registers, once for each
suffix or URL scheme (docs/how-to/add-a-format.md).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from sugarbush.data.formats.header_rows import Cells
from sugarbush.data.formats.names import scheme_of, suffix_of, suffixes
from sugarbush.data.formats.rows import (
    WHOLE,
    Reading,
    RecordList,
    Row,
    Scan,
    Span,
    require_columns,
)
from sugarbush.data.formats.text_files import can_be_divided, lines_of, shown_encoding
from sugarbush.data.remote import Database, File, RemotePath, Source
from sugarbush.errors import InputError, ParamsError
from sugarbush.extras import require_extra
from sugarbush.registry import FORMATS, load_plugin, package_of

_PLAIN_TEXTS = (
    '. Write plain texts as JSON lines, such as {"text": "My lamp is broken."}. In Python: '
    'pandas.DataFrame({"text": texts}).to_json("texts.jsonl", orient="records", lines=True)'
)
_PLUG_INS = (
    ". Save the file in one of these formats. Plug-ins read others: docs/how-to/add-a-format.md "
    "has examples, such as .eml, .vtt and .srt"
)
S = TypeVar("S", bound=Source)


class Format(ABC, Generic[S]):
    """Reads the column names and the rows of one kind of source.

    Guarantee to keep: no row decides how another row is read, and no error shows a value.
    """

    extra: ClassVar[str | None] = None
    """The extra of Sugarbush with the packages that the format needs."""
    has_keys: ClassVar[bool] = False
    """Whether each record names its own fields. Then the reader checks that some record has each
    wanted column. Otherwise `rows` checks it with `require_columns`."""
    header_is_row_1: ClassVar[bool] = False
    """Whether the rows above the first record count, as in a spreadsheet: it is row 2."""
    is_text: ClassVar[bool] = False
    """Whether a file may be compressed, and has an encoding."""
    has_conversations: ClassVar[bool] = True
    """Whether a column may contain the turns of a conversation."""

    @abstractmethod
    def names(self, source: S, reading: Reading) -> Sequence[str]:
        """Return the column names, and nothing of a record: a header, the keys of the first record,
        or the names in the file's metadata. The reader shows no message of an error."""

    @abstractmethod
    def rows(self, source: S, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the rows of the source, or of one of its `spans`, as a stream.

        Raises InputError that names source, row and `reading.setting`.
        """

    def first_rows(self, source: S, reading: Reading, most: int) -> Sequence[Cells]:
        """Return the cells of the first rows, header rows too, or nothing for records with keys."""
        return ()

    def record_lists(self, source: S, reading: Reading) -> Sequence[RecordList]:
        """Return the lists of objects in a source that is one object."""
        return ()

    def require_packages(self, name: str) -> None:
        """Raise ParamsError if a package that reads the source `name` is missing. Nothing is
        opened."""
        if self.extra is not None:
            require_extra(self.extra)

    def spans(self, source: S, reading: Reading) -> list[Span]:
        """Divide a file into spans. They depend on the file alone."""
        return [WHOLE]

    def can_be_scanned(self, source: S, reading: Reading) -> bool:
        """Return whether `scan` can divide the file at bytes."""
        return False

    def scan(self, source: S, reading: Reading, start: int, stop: int, *, exact: bool) -> Scan:
        """Find the rows that begin between two bytes. If `exact` is false, `start` is any byte."""
        raise NotImplementedError

    def require_columns(self, source: S, required: Mapping[str, str], names: Iterable[str]) -> None:
        """Raise InputError if a required column is not among the `names` of the source."""
        require_columns(source, required, names)

    def types(self, source: S) -> Mapping[str, pa.DataType]:
        """Return the types of the columns, or nothing if the source has none."""
        return {}

    def encoding(self, source: S, encoding: str | None) -> str | None:
        """Return the encoding of the source, as a user writes it, or None if it has none."""
        return None

    def encoding_of_header(self, source: S) -> str | None:
        """Return the value of prepare.encoding for a header that is not UTF-8, or None."""
        return None

    def digest(self, source: S, reading: Reading) -> Iterator[bytes]:
        """Yield bytes that differ whenever the rows of the source differ."""
        assert not isinstance(source, Database)
        yield digest_of_file(source)


class TextFormat(Format[File]):
    """A format of text files. They may be compressed (`.gz`, `.zst`) and have any encoding."""

    is_text: ClassVar[bool] = True

    def lines(self, file: File, reading: Reading) -> Iterator[str]:
        """Yield the lines of a file with their ends. Raises InputError and OSError."""
        return lines_of(file, reading.setting, reading.options.encoding)

    def encoding(self, source: File, encoding: str | None) -> str | None:
        return shown_encoding(source, encoding)


class DividedTextFormat(TextFormat):
    """A format of text files that `scan` divides at bytes."""

    def can_be_scanned(self, source: File, reading: Reading) -> bool:
        return can_be_divided(source, reading.options.encoding)


def digest_of_file(file: File) -> bytes:
    """Compute SHA-256 of a file's content, or of `RemotePath.listed`. Raises OSError."""
    if isinstance(file, RemotePath):
        return file.listed()
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


def find_format(name: str) -> Format[Any] | None:
    """Return the format of a file's name or URL, or None. Raises ParamsError for a plug-in that
    cannot be imported.

    >>> type(find_format("letters.tsv.gz")).__name__, find_format("letters.xlsx.gz")
    ('Csv', None)
    """
    key = scheme_of(name) or suffix_of(name)
    if key is None:
        return None
    form = _load(key)
    is_compressed = key.startswith(".") and not name.lower().endswith(key)
    return None if is_compressed and not form.is_text else form


def format_of(source: Source, setting: str) -> Format[Any]:
    """Return the format of a source. Raises InputError that lists the formats."""
    if (form := find_format(source.name)) is not None:
        return form
    advice = _PLAIN_TEXTS if source.name.lower().endswith(".txt") else _PLUG_INS
    raise InputError(f"{source}: expected {_known()} (setting {setting}){advice}")


def package_of_format(source: Source) -> str | None:
    """Return name and version of the package with the format of a source, or None for Sugarbush
    and for a source without a format."""
    key = scheme_of(source.name) or suffix_of(source.name)
    return None if key is None else package_of(FORMATS, key)


def _load(key: str) -> Format[Any]:
    found = load_plugin(FORMATS, key)
    if not (isinstance(found, type) and issubclass(found, Format)):
        raise ParamsError(f"the format '{key}' of {found.__module__} is no subclass of Format")
    return found()


def _known() -> str:
    """Return one suffix of each format of files, as a part of a sentence."""
    first: dict[type, str] = {}
    for suffix in suffixes():
        first.setdefault(type(_load(suffix)), suffix)
    *others, last = first.values()
    return f"{', '.join(others)} or {last}, or a folder of them"
