"""Reads the user's data as rows. Errors name file, row and setting, never a value.

A corpus is a file, a folder of files, a dataset folder or a database. A folder is read in the order
of the file names. A csv or json file may be compressed (`.gz`, `.zst`). A `Source` is a path or a
URL. Rows are read in batches, so memory does not grow with the number of rows.

The number of a row is the number of its record. In a csv or xlsx file, header rows count, as in a
spreadsheet: after one header row, the first record is row 2. A text of several lines is one row,
and an empty line counts. The number of a row of JSON lines is its line. All other rows are counted
from 1.
"""

from __future__ import annotations

import difflib
import hashlib
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from sugarbush.data.cells import cells_of, is_missing
from sugarbush.data.formats.folders import files_of
from sugarbush.data.formats.header_rows import FIRST_ROWS, require_one_header_row
from sugarbush.data.formats.interface import (
    digest_of_file,
    find_format,
    format_of,
    package_of_format,
)
from sugarbush.data.formats.rows import (
    BATCH_ROWS,
    NO_OPTIONS,
    WHOLE,
    Reading,
    ReadOptions,
    Row,
    Scan,
    Span,
    require_columns,
)
from sugarbush.data.formats.text_files import not_utf8
from sugarbush.data.remote import (
    Database,
    File,
    FileState,
    Source,
    opening,
    size_of,
    source_of,
    state_of,
)
from sugarbush.data.threads import conversations, message_columns, reading_of_messages
from sugarbush.errors import InputError, UsageError
from sugarbush.privacy.shards import MapShards

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FileShard",
    "Row",
    "changed_while_read",
    "column_names",
    "conversation_column",
    "digest_of_files",
    "digest_of_source",
    "encoding_of_header",
    "encoding_of_source",
    "file_shards",
    "is_missing",
    "shard_batches",
    "read_rows",
    "reads_keys",
    "require_column",
    "path_of_records",
    "row_batches",
    "rows_of_frame",
    "stream_rows",
]

_COLUMN_NAME = re.compile(r"(?=.*[^\W\d_])(?!__)\w[\w .()/#%$€£&-]{0,63}")
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]{0,31}")  # a cell with a text does not match
_PATH = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_MOST_COLUMNS = 20
_MOST_SHOWN_LISTS = 5
_SPAN_BYTES = 2**25  # of csv and json lines: a public constant, so workers do not change the shards
# The names of a column with conversations in most public datasets, with the keys of a turn
_CONVERSATIONS = {"messages": ("role", "content"), "conversations": ("from", "value")}
_USUAL_TEXTS = {"text", *_CONVERSATIONS}
# The argument of the Python API that sets a setting.
_ARGUMENTS = {
    "prepare.text_column": "text",
    "prepare.id_column": "record_id",
    "prepare.user_column": "user",
}


def read_rows(
    path: Source,
    *,
    setting: str,
    wanted: Mapping[str, str],
    all_columns: bool = False,
    options: ReadOptions = NO_OPTIONS,
) -> tuple[Row, ...]:
    """Read all rows of `path`, as `row_batches` does."""
    batches = row_batches(
        path, setting=setting, wanted=wanted, all_columns=all_columns, options=options
    )
    return tuple(row for _, rows in batches for row in rows)


def stream_rows(path: Source, *, setting: str, wanted: Mapping[str, str]) -> Iterator[Row]:
    """Yield all rows of `path`, as `row_batches` does, with one batch in memory."""
    for _, rows in row_batches(path, setting=setting, wanted=wanted):
        yield from rows


def row_batches(
    path: Source,
    *,
    setting: str,
    wanted: Mapping[str, str],
    all_columns: bool = False,
    broken: bool = False,
    options: ReadOptions = NO_OPTIONS,
) -> Iterator[tuple[Source, list[Row]]]:
    """Yield the rows of a source as batches with their file.

    `wanted` maps each required column to the setting that names the column. A column inside a
    record of json, parquet, Arrow or a database has a dotted path. `all_columns` reads the other
    columns too. With `broken`, a csv row with a wrong number of cells is a row with a problem.
    Raises InputError that names the file, the row or byte, and `setting`.
    """
    reading = Reading(setting, wanted, all_columns, broken, options)
    empty = True
    for file in _files(path, reading):
        for batch in shard_batches(FileShard(file), reading):
            empty = False
            yield file, batch
    if empty:
        raise InputError(f"{path}: has no rows (setting {setting})")


def _files(path: Source, reading: Reading) -> list[Source]:
    """Return the files of a corpus. If rows are messages, a thread may be in several files, so the
    corpus is read as one."""
    return [path] if reading.options.thread else files_of(path, setting=reading.setting)


class FileShard(NamedTuple):
    """A source, or a span of a file. `state` is the state of the file when it was divided."""

    file: Source
    span: Span = WHOLE
    state: FileState = None

    @property
    def has_keys(self) -> bool:
        """Whether the shard is a span in which each record names its own fields. Then no single
        span says whether the file has a column."""
        return self.span != WHOLE and format_of(self.file, "").has_keys

    def require_unchanged(self) -> None:
        """Raise InputError if the file is no longer in `state`."""
        try:
            changed = self.state is not None and state_of(self.file) != self.state
        except OSError:  # such as a deleted file
            changed = True
        if changed:
            raise changed_while_read(self.file)


def file_shards(path: Source, *, reading: Reading, map_shards: MapShards) -> list[FileShard]:
    """Divide a corpus into shards that `shard_batches` reads, in order. Together they have the rows
    of `row_batches`.

    A file has the spans of its format, such as the row groups of a parquet file. A text file that
    its format can scan is divided at rows near multiples of `_SPAN_BYTES`. The shards depend only
    on the files, and not on the number of processes. Each shard has the state of its file before
    the division. If rows are messages, there is one shard.
    """
    if reading.options.thread is not None:
        return [FileShard(path)]
    shards: list[list[FileShard]] = []
    ranges: list[_Range] = []
    for file in files_of(path, setting=reading.setting):
        with opening(file, reading.setting):
            whole, form = FileShard(file, state=state_of(file)), format_of(file, reading.setting)
            shards.append([whole._replace(span=span) for span in form.spans(file, reading)])
            if not isinstance(file, Database) and form.can_be_scanned(file, reading):
                starts = range(0, size_of(file), _SPAN_BYTES)
                if len(starts) > 1:
                    place = len(shards) - 1
                    ranges += [_Range(place, file, start, exact=not start) for start in starts]
    for place, spans in _spans(ranges, reading, map_shards).items():
        shards[place] = [shards[place][0]._replace(span=span) for span in spans]
    return [shard for of_file in shards for shard in of_file]


class _Range(NamedTuple):
    """`_SPAN_BYTES` bytes of the file with the index `place`. If `exact`, a row starts at
    `start`."""

    place: int
    file: File
    start: int
    exact: bool


def _spans(
    ranges: Sequence[_Range], reading: Reading, map_shards: MapShards
) -> dict[int, list[Span]]:
    """Find the rows of each range. The first row of a range is a guess, until the range before ends
    there. If a guess is wrong, the range is scanned again from the end of the range before.
    """
    stops = [each.start + _SPAN_BYTES for each in ranges]
    scans: dict[int, Scan] = {}
    waiting = dict(enumerate(ranges))

    def scan(number: int) -> dict[int, Scan]:
        each = waiting[number]
        form = format_of(each.file, reading.setting)
        with opening(each.file, reading.setting):
            found = form.scan(each.file, reading, each.start, stops[number], exact=each.exact)
        return {number: found}

    while waiting:
        scans |= map_shards(scan, list(waiting), operator.or_)
        waiting = {}
        for number, each in enumerate(ranges[1:], start=1):
            before = scans[number - 1]
            if (
                each.place == ranges[number - 1].place
                and before.end is not None
                and before.end != scans[number].start
            ):
                waiting[number] = each._replace(start=before.end, exact=True)
    spans: dict[int, list[Span]] = {}
    rows = 0
    for number, each in enumerate(ranges):
        found = scans[number]
        of_file = spans.setdefault(each.place, [])
        rows = rows if of_file else 0
        if of_file and of_file[-1].stop is None:
            continue  # the row that cannot be read ends the file
        if found.rows or found.end is None:
            of_file.append(Span(found.start, found.end, rows))
            rows += found.rows
    return {place: of_file or [WHOLE] for place, of_file in spans.items()}


def shard_batches(shard: FileShard, reading: Reading) -> Iterator[list[Row]]:
    """Yield the rows of a shard, as `row_batches` does. If the shard `has_keys`, the caller checks
    that some record of the file has each column.

    Raises InputError if the file changes after its division. Otherwise a record that moves to
    another shard would be read twice. If rows are messages, the rows of a thread are one.
    """
    if reading.options.thread is not None:
        messages = reading_of_messages(reading)
        rows = conversations(
            _rows_of(shard.file, messages), reading.options.thread, source=shard.file
        )
        while batch := list(islice(rows, BATCH_ROWS)):
            yield batch
        return
    with opening(shard.file, reading.setting):
        shard.require_unchanged()
        rows = _rows(shard.file, reading, shard.span)
        try:
            while batch := list(islice(rows, BATCH_ROWS)):
                yield batch
        except Exception:
            shard.require_unchanged()  # a changed file explains the error
            raise
        shard.require_unchanged()


def _rows_of(path: Source, reading: Reading) -> Iterator[Row]:
    for file in files_of(path, setting=reading.setting):
        with opening(file, reading.setting):
            shard = FileShard(file, state=state_of(file))
        for batch in shard_batches(shard, reading):
            yield from batch


def changed_while_read(source: object) -> InputError:
    """Return the error of a source that is no longer the one that was divided or read before."""
    return InputError(
        f"{source}: changed while it was read. Wait until the file is complete, then run again "
        "(setting prepare.file)"
    )


def _rows(source: Source, reading: Reading, span: Span) -> Iterator[Row]:
    """Yield the rows of a source or of a span. If each record names its own fields, check that some
    record of the whole source has each wanted column."""
    form, package = format_of(source, reading.setting), package_of_format(source)
    _require_options(source, reading)
    rows = form.rows(source, reading, span)
    if package is not None:
        rows = _rows_of_plugin(rows, source, reading.setting, package)
    if not form.has_keys or span != WHOLE:
        yield from rows
        return
    missing, empty = set(reading.wanted), True
    for row in rows:
        missing.difference_update(row.fields)
        empty = False
        yield row
    if not empty:
        require_columns(source, reading.wanted, reading.wanted.keys() - missing)


def _rows_of_plugin(
    rows: Iterator[Row], source: Source, setting: str, package: str
) -> Iterator[Row]:
    """Yield the rows. An error of the plug-in becomes an InputError without the message of the
    plug-in, which may quote a value."""
    number = 0
    try:
        for row in rows:
            number = row.number
            yield row
    except (UsageError, OSError):
        raise
    except Exception as error:
        raise InputError(
            f"{source}, after row {number}: cannot be read ({type(error).__name__} in {package}) "
            f"(setting {setting})"
        ) from None


def column_names(
    path: Source,
    *,
    required: Mapping[str, str],
    setting: str,
    options: ReadOptions = NO_OPTIONS,
) -> tuple[str, ...]:
    """Return the column names of a private source. The result and errors show no value.

    The names are a header, the keys of the first json object, or the columns of a table. In a file
    without a header, the first line is a private record. Therefore the names must include all
    `required` columns. Names that look like data are omitted. `required` maps a column to the
    setting that names the column. Raises InputError that names the file and `setting`, and
    HeaderRowsError if the file shows several header rows and no option says their number. If rows
    are messages, the columns of the turns are left out.
    """
    turns: set[str] = set()
    if (thread := options.thread) is not None:
        required = message_columns(required, thread)
        turns = {thread.thread, thread.speaker, thread.text, thread.time or thread.text}
    path = files_of(path, setting=setting)[0]
    form, reading = format_of(path, setting), Reading(setting, required, options=options)
    try:
        _require_options(path, reading)
        if options.header_rows is None:
            first = form.first_rows(path, reading, FIRST_ROWS)
            option = reading.option("header_rows")
            require_one_header_row(path, first, required, setting=setting, option=option)
        names = form.names(path, reading)
    except UsageError:
        raise
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "not found" if missing else error.strerror or "cannot be decompressed"
        raise InputError(f"{path}: {reason} (setting {setting})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8. {not_utf8(setting)} (setting {setting})") from None
    except Exception:
        kind = f" as {path.suffix}" if path.suffix else ""
        raise InputError(
            f"{path}: its column names cannot be read{kind} (setting {setting})"
        ) from None
    if not names:
        raise InputError(f"{path}: has no rows (setting {setting})")
    form.require_columns(path, required, names)
    shown = (name for name in names if _COLUMN_NAME.fullmatch(name) and name not in turns)
    return tuple(dict.fromkeys(shown))


def _require_options(source: Source, reading: Reading) -> None:
    """Raise InputError for an option that the format of the source does not have."""
    form = format_of(source, reading.setting)
    if reading.options.header_rows is not None and not form.header_is_row_1:
        raise InputError(
            f"{source}: only csv and xlsx files have header rows. Leave out "
            f"{reading.option('header_rows')} (setting {reading.setting})"
        )


def path_of_records(
    path: Source, *, needed: Collection[str], setting: str, options: ReadOptions
) -> str | None:
    """Return the path of the only list of objects in a JSON file that is one object, or None.

    The names of the objects decide, and no value. An object with the `needed` columns is a record
    and has no such list. Of several lists, it is the only one with the `needed` columns. Without
    `needed` columns, a record has one of the usual names of texts. Raises InputError if there are
    several, or if the path looks like data. The message names the paths, unless there are many:
    then the names are probably keys, such as names of people.
    """
    file = files_of(path, setting=setting)[0]
    form, reading = format_of(file, setting), Reading(setting, {}, options=options)
    try:
        lists = form.record_lists(file, reading)
        names = form.names(file, reading) if lists else ()
    except UsageError:
        raise
    except Exception:
        return None  # `column_names` says what is wrong

    def fits(have: Collection[str]) -> bool:
        return set(needed) <= set(have) if needed else bool(_USUAL_TEXTS & set(have))

    if not lists or fits(names):
        return None
    fitting = [each for each in lists if fits(each.names)] or lists
    shown = [each.path for each in fitting if _PATH.fullmatch(each.path)]
    if len(fitting) == 1 and shown:
        return shown[0]
    few = len(fitting) <= _MOST_SHOWN_LISTS
    count = f"{len(fitting)} lists" if len(fitting) > 1 else "one list, with an unusual name,"
    named = f": {', '.join(shown)}" if shown and few else ""
    raise InputError(
        f"{file}: {count} may be the records{named}. Name the list of the records with "
        f"{reading.records_option} (setting {setting})"
    )


def conversation_column(
    path: Source, *, setting: str, named: str | None = None, options: ReadOptions = NO_OPTIONS
) -> tuple[str, tuple[str, str]] | None:
    """Return the column with conversations, and the keys of its turns, or None.

    `named` is the column that the user names; None means any column.

    The types of a parquet or Arrow file decide. In other files, only the names `messages` and
    `conversations` do, and never a value. A file with a column `text` has no such column.
    """
    file = files_of(path, setting=setting)[0]
    form = format_of(file, setting)
    if not form.has_conversations:
        return None
    try:
        names = form.names(file, Reading(setting, {}, options=options))
        types = form.types(file)
    except UsageError:
        raise
    except Exception:
        return None  # `column_names` says what is wrong
    if named is None and "text" in names:
        return None
    for name, type_ in types.items():
        if named not in (None, name):
            continue
        if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
            for keys in _CONVERSATIONS.values():
                if set(keys) <= {field.name for field in type_.value_type}:
                    return name, keys
    usual = (n for n in _CONVERSATIONS if n in names and named in (None, n) and not types)
    return next(((name, _CONVERSATIONS[name]) for name in usual), None)


def encoding_of_source(path: Source, *, setting: str, options: ReadOptions) -> str | None:
    """Return the encoding of a text file, or of the first file of a folder.

    Returns None for every other source. The byte order mark and the setting decide, and no record.
    """
    file = files_of(path, setting=setting)[0]
    with opening(file, setting):
        return format_of(file, setting).encoding(file, options.encoding)


def encoding_of_header(path: Source, *, setting: str) -> str | None:
    """Return the value of prepare.encoding for a csv file with a header that is not UTF-8.

    Returns None for every other source. No record decides.
    """
    file = files_of(path, setting=setting)[0]
    with opening(file, setting):
        return format_of(file, setting).encoding_of_header(file)


def reads_keys(path: Source) -> bool:
    """Return whether the records of a source, or of the first file of a folder, have keys."""
    file = files_of(path, setting="--from")[0]
    return format_of(file, "--from").has_keys


def digest_of_files(base: Path, names: Sequence[str], *, setting: str) -> bytes:
    """Compute SHA-256 over the contents of the files `names`, in order.

    A remote file contributes `RemotePath.listed` instead of its content. Raises InputError that
    names file and setting.
    """
    sources = [source_of(base, name, setting=setting) for name in names]
    for source in sources:
        if isinstance(source, Database):
            raise InputError(f"{source}: expected a file, not a database (setting {setting})")
    return _digest(sources, Reading(setting, {}))


def digest_of_source(
    source: Source, *, setting: str, wanted: Mapping[str, str], options: ReadOptions
) -> bytes:
    """Compute the digest of a file or folder as `digest_of_files` does, or the digest of the
    wanted columns of a database."""
    reading = Reading(setting, wanted, options=options)
    if options.thread and isinstance(source, Database):
        reading = reading_of_messages(reading)
    return _digest([source], reading)


def _digest(sources: Iterable[Source], reading: Reading) -> bytes:
    """Compute the digest of sources, and of the packages of formats that are plug-ins: another
    version may read other rows."""
    whole = hashlib.sha256()
    for source in sources:
        for file in files_of(source, setting=reading.setting):
            whole.update((package_of_format(file) or "").encode())
            with opening(file, reading.setting):
                for piece in _pieces(file, reading):
                    whole.update(piece)
    return whole.digest()


def _pieces(file: Source, reading: Reading) -> Iterator[bytes]:
    form = find_format(file.name)
    if form is None:  # a file with settings, for example
        assert not isinstance(file, Database)
        return iter((digest_of_file(file),))
    return form.digest(file, reading)


def rows_of_frame(
    frame: pd.DataFrame, *, wanted: Mapping[str, str], name: str = "the frame"
) -> tuple[Row, ...]:
    """Return the rows of a frame, counted from 1. Raises InputError if a column is missing.

    The message names the argument of the Python API.
    """
    for column, asked_by in wanted.items():
        require_column(frame, column, asked_by=_ARGUMENTS.get(asked_by, asked_by), name=name)
    names = list(map(str, frame.columns))
    columns = [cells_of(frame.iloc[:, place]) for place in range(len(names))]
    rows = zip(*columns, strict=True) if columns else [()] * len(frame)
    return tuple(
        Row(number=number, fields=dict(zip(names, cells, strict=True)))
        for number, cells in enumerate(rows, start=1)
    )


def require_column(
    frame: pd.DataFrame, column: str, *, asked_by: str, name: str = "the frame"
) -> None:
    """Raise InputError if the frame has no such column. The message proposes another column.

    The message lists the columns only if all of them look like names. The columns of a frame from a
    csv file without a header are the cells of a private record.
    """
    have = [str(each) for each in frame.columns]
    if have.count(column) > 1:
        raise InputError(f"{asked_by}: {name} has several columns '{column}'. Rename one of them")
    if column in have:
        return
    listed = ""
    if have and all(map(_PLAIN_NAME.fullmatch, have)):
        close = difflib.get_close_matches(column, have, n=1)
        listed = f"; did you mean '{close[0]}'?" if close else "."
        listed += f" The columns are {', '.join(have[:_MOST_COLUMNS])}"
        listed += ", ..." if len(have) > _MOST_COLUMNS else ""
    raise InputError(f"{asked_by}: {name} has no column '{column}'{listed}")
