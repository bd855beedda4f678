"""The rows that every format returns, and the values at dotted paths such as `ticket.body`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sugarbush.errors import InputError

if TYPE_CHECKING:
    from sugarbush.data.remote import Source

BATCH_ROWS = 2**14
ABSENT = object()


class Row(NamedTuple):
    """One record and its number. A row with a `problem` has no fields."""

    number: int
    fields: dict[str, Any]
    problem: str = ""


class RecordList(NamedTuple):
    """A list of objects inside a file: its dotted path, and the names in its first object."""

    path: str
    names: tuple[str, ...]


class ThreadColumns(NamedTuple):
    """The columns of rows that are messages: of the thread, the speaker and the text. Without
    `time`, the order of the rows is that of the messages. With `user`, a thread has one user."""

    thread: str
    speaker: str
    text: str
    time: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source, as the settings of `prepare` with these names say.

    `table` is a sheet, a table of a database, or the path of the list of records in a JSON file.

    With `rows_are_independent`, the user declares that no row depends on other rows.
    """

    encoding: str | None = None
    table: str | None = None
    header_rows: int | None = None
    thread: ThreadColumns | None = None
    rows_are_independent: bool = False


NO_OPTIONS = ReadOptions()


class Span(NamedTuple):
    """The rows of a file from `start` to `stop`, after `rows` other rows.

    The positions are bytes of a text file, or row groups of a parquet file. Without `stop`, the
    span ends with the file.
    """

    start: int = 0
    stop: int | None = None
    rows: int = 0


WHOLE = Span()


class Scan(NamedTuple):
    """The rows that begin between two bytes of a text file: the first byte of the first row, the
    byte after the last row, and the number of rows. Without `end`, a row cannot be read."""

    start: int
    end: int | None
    rows: int


@dataclass(frozen=True)
class Reading:
    """What a format needs to read the rows of a file.

    `wanted` maps each required column to the setting that names the column. `all_columns` reads the
    other columns too. With `broken`, a csv row with a wrong number of cells is a row with a
    problem. Errors name `setting`.
    """

    setting: str
    wanted: Mapping[str, str]
    all_columns: bool = False
    broken: bool = False
    options: ReadOptions = NO_OPTIONS

    @property
    def header_rows(self) -> int:
        """The number of rows above the first record."""
        return self.options.header_rows or 1

    @property
    def records_option(self) -> str:
        """The setting or the option of `init` that names the list of records in a JSON file."""
        return "--records" if self.setting == "--from" else "prepare.table"

    def option(self, name: str) -> str:
        """The setting or the option of `init` with this name, such as `table`."""
        if self.setting == "--from":
            return "--" + name.replace("_", "-")
        return f"prepare.{name}"


def require_columns(
    path: Source | str, required: Mapping[str, str], present: Iterable[str]
) -> None:
    """Raise InputError if a column is missing.

    The message does not list the existing columns. The first line of a csv file without a header
    is a private record.
    """
    have = set(present)
    for column, asked_by in required.items():
        if column not in have:
            raise InputError(f"{path}: has no column '{column}', which {asked_by} names")


def value_at(record: Mapping[str, Any], name: str) -> Any:
    """Return the value at a name or dotted path, or ABSENT. The name of a field may contain dots.

    >>> value_at({"ticket": {"body": "late"}}, "ticket.body")
    'late'
    >>> value_at({"ticket.body": "plain", "ticket": {"body": "nested"}}, "ticket.body")
    'plain'
    """
    if name in record:
        return record[name]
    head, dot, rest = name.partition(".")
    while dot:
        inner = record.get(head)
        if isinstance(inner, Mapping) and (value := value_at(inner, rest)) is not ABSENT:
            return value
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return ABSENT


def flattened(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested objects with their dotted paths. Lists remain values.

    >>> dict(flattened({"id": 1, "ticket": {"body": "late", "tags": ["a"]}}))
    {'id': 1, 'ticket.body': 'late', 'ticket.tags': ['a']}
    """
    for name, value in record.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def add_paths(record: dict[str, Any], reading: Reading) -> dict[str, Any]:
    """Add a field to the record for each wanted path. With `all_columns`, return a new record with
    every path as a field."""
    fields = dict(flattened(record)) if reading.all_columns else record
    for name in reading.wanted:
        if name not in fields and (value := value_at(record, name)) is not ABSENT:
            fields[name] = value
    return fields
