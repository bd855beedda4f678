"""Reads the user's files as rows. Errors name file, row and setting, never a value.

A corpus is a csv, jsonl or parquet file, or a folder of such files. A folder is read in the order
of the file names. A csv or jsonl file may be compressed (`.gz`, `.zst`). A `Source` is a path or a
URL. Rows are read in batches, so memory does not grow with the number of rows.

The number of a row is the number of its record. In a csv file, the header is row 1, as in a
spreadsheet, so the first record is row 2. A text of several lines is one row, and an empty line
counts. The number of a jsonl row is its line. The rows of a parquet file and of a frame are counted
from 1.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import hashlib
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sugarbush.data.remote import RemotePath, Source, source_of
from sugarbush.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_TO_UTF8 = "Save the file as UTF-8, or convert it: iconv -f CP1252 -t UTF-8 OLD > NEW"
_DELIMITERS = ",;\t|"  # the first one wins a tie
_FORMATS = ".csv, .jsonl or .parquet, or a folder of them"
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_FIELD_LIMIT = 2**30
_COLUMN_NAME = re.compile(r"(?=.*[^\W\d_])(?!__)\w[\w .()/-]{0,63}")
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]{0,31}")  # a cell with a text does not match
_MOST_COLUMNS = 20
# The argument of the Python API that sets a setting.
_ARGUMENTS = {
    "prepare.text_column": "text",
    "prepare.id_column": "record_id",
    "prepare.user_column": "user",
}
_BATCH_ROWS = 2**14
_BLOCK_BYTES = 2**20


class Row(NamedTuple):
    """One record and its number. A row with a `problem` has no fields."""

    number: int
    fields: dict[str, Any]
    problem: str = ""


def read_rows(
    path: Source, *, setting: str, wanted: Mapping[str, str], all_columns: bool = False
) -> tuple[Row, ...]:
    """Read all rows of `path`, as `row_batches` does."""
    batches = row_batches(path, setting=setting, wanted=wanted, all_columns=all_columns)
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
) -> Iterator[tuple[Source, list[Row]]]:
    """Yield the rows of a file, or of all files of a folder, as batches with their file.

    `wanted` maps each required column to the setting that names the column. `all_columns` reads the
    other columns too. With `broken`, a csv row with a wrong number of cells is a row with a
    problem. Raises InputError that names the file, the row or byte, and `setting`.
    """
    empty = True
    for file in part_files(path, setting=setting):
        parquet = partial(_parquet, all_columns=all_columns)
        csv_ = partial(_csv, broken=broken)
        reader = _of_format(file, setting, csv_=csv_, jsonl=_jsonl, parquet=parquet)
        rows = iter(reader(file, setting, wanted))
        with file.reading() if isinstance(file, RemotePath) else _opening(file, setting):
            while batch := list(islice(rows, _BATCH_ROWS)):
                empty = False
                yield file, batch
    if empty:
        raise InputError(f"{path}: has no rows (setting {setting})")


@contextmanager
def _opening(path: Source, setting: str) -> Iterator[None]:
    """Convert an error of opening a local file to an InputError that names `setting`."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: not found (setting {setting})") from None
    except (PermissionError, IsADirectoryError) as error:
        raise InputError(f"{path}: {error.strerror} (setting {setting})") from None


def part_files(path: Source, *, setting: str) -> list[Source]:
    """List the files of a corpus by name. Raises InputError for an empty folder."""
    if not path.is_dir():
        return [path]
    files = [f for f in path.iterdir() if not f.name.startswith((".", "_"))]
    if not files:
        raise InputError(f"{path}: the folder has no file (setting {setting})")
    return sorted(files, key=str)


def _of_format(
    path: Source, setting: str, *, csv_: Reader, jsonl: Reader, parquet: Reader
) -> Reader:
    name = path.name.lower()
    readers = {".csv": csv_, ".jsonl": jsonl, ".ndjson": jsonl}
    named = {kind + more: r for kind, r in readers.items() for more in ("", *_COMPRESSIONS)}
    for ending, reader in {**named, ".parquet": parquet}.items():
        if name.endswith(ending):
            return reader
    raise InputError(f"{path}: expected {_FORMATS} (setting {setting})")


Reader = Callable[..., Any]


def column_names(path: Source, *, required: Mapping[str, str], setting: str) -> tuple[str, ...]:
    """Return the column names of a private file. The result and errors show no value.

    The names are the header of a csv file, the keys of the first jsonl object, or the schema of a
    parquet file. In a csv file without a header, the first line is a private record. Therefore the
    names must include all `required` columns. Names that look like data are omitted. `required`
    maps a column to the setting that names the column. Raises InputError that names the file and
    `setting`.
    """
    path = part_files(path, setting=setting)[0]
    header = partial(_csv_header, required=required)
    reader = _of_format(path, setting, csv_=header, jsonl=_first_keys, parquet=_parquet_names)
    try:
        names = reader(path)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "not found" if missing else error.strerror or "cannot be decompressed"
        raise InputError(f"{path}: {reason} (setting {setting})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8. {_TO_UTF8} (setting {setting})") from None
    except (ValueError, RecursionError, csv.Error, pa.ArrowException):
        raise InputError(
            f"{path}: its column names cannot be read as {path.suffix} (setting {setting})"
        ) from None
    if not names:
        raise InputError(f"{path}: has no rows (setting {setting})")
    _require(path, required, names)
    return tuple(dict.fromkeys(name for name in names if _COLUMN_NAME.fullmatch(name)))


def reads_keys(path: Source) -> bool:
    """Return whether the records of a file, or of the first file of a folder, have keys."""
    name = part_files(path, setting="--from")[0].name.lower()
    for compression in _COMPRESSIONS:
        name = name.removesuffix(compression)
    return name.endswith((".jsonl", ".ndjson"))


def digest_of_files(base: Path, names: Sequence[str], *, setting: str) -> bytes:
    """Compute SHA-256 over the contents of the files `names`, in order.

    A remote file contributes `RemotePath.listed` instead of its content. Raises InputError that
    names file and setting.
    """
    whole = hashlib.sha256()
    sources = (source_of(base, name, setting=setting) for name in names)
    files = (part_files(source, setting=setting) for source in sources)
    for path in (path for parts in files for path in parts):
        if isinstance(path, RemotePath):
            whole.update(path.listed())
        else:
            with _opening(path, setting), path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.digest()


def _csv_header(path: Source, *, required: Collection[str]) -> Sequence[str]:
    with _open(path) as file:
        return next(_cells(file, required), [])


def _cells(lines: Iterator[str], required: Collection[str]) -> Iterator[list[str]]:
    """Yield the cells of each row. The delimiter gives the first line the most `required` columns,
    and then the most cells.

    Spreadsheets write semicolons where the decimal sign is a comma.

    >>> list(_cells(iter(["no;text\\n", "1;good, but late\\n"]), {"text"}))
    [['no', 'text'], ['1', 'good, but late']]
    """
    csv.field_size_limit(_FIELD_LIMIT)
    first = next(lines, "")

    def fit(delimiter: str) -> tuple[int, int]:
        cells = next(csv.reader([first], delimiter=delimiter), [])
        return len(set(required) & set(cells)), len(cells)

    delimiter = max(_DELIMITERS, key=fit)
    yield from csv.reader(chain([first] if first else [], lines), delimiter=delimiter, strict=True)


def _first_keys(path: Source) -> Sequence[str]:
    with _open(path, newline="\n") as file:
        first = next((line for line in file if line.strip()), "{}")
    fields = json.loads(first)
    if not isinstance(fields, dict):
        raise ValueError("the first line is not a JSON object")
    return list(fields)


def _parquet_names(path: Source) -> Sequence[str]:
    with path.open("rb") as file:
        names: list[str] = pq.read_schema(file).names
    return names


def rows_of_frame(
    frame: pd.DataFrame, *, wanted: Mapping[str, str], name: str = "the frame"
) -> tuple[Row, ...]:
    """Return the rows of a frame, counted from 1. Raises InputError if a column is missing.

    The message names the argument of the Python API.
    """
    for column, asked_by in wanted.items():
        require_column(frame, column, asked_by=_ARGUMENTS.get(asked_by, asked_by), name=name)
    records = frame.to_dict("records")
    return tuple(
        Row(number=number, fields={str(name): value for name, value in fields.items()})
        for number, fields in enumerate(records, start=1)
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


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, or a missing number or date of pandas."""
    if value is None or isinstance(value, str):
        return value is None
    import pandas as pd  # a slow import, which texts do not need

    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def _require(path: Source, required: Mapping[str, str], present: Iterable[str]) -> None:
    """Raise InputError if a column is missing.

    The message does not list the existing columns. The first line of a csv file without a header
    is a private record.
    """
    have = set(present)
    for column, asked_by in required.items():
        if column not in have:
            raise InputError(f"{path}: has no column '{column}', which {asked_by} names")


def _open_bytes(path: Source) -> IO[bytes]:
    file, kind = path.open("rb"), _COMPRESSIONS.get(path.suffix.lower())
    return file if kind is None else pa.CompressedInputStream(file, kind)


def _open(path: Source, newline: str = "") -> IO[str]:
    return io.TextIOWrapper(_open_bytes(path), encoding="utf-8-sig", newline=newline)


def _lines(path: Source, setting: str, newline: str = "") -> Iterator[str]:
    try:
        with _open(path, newline) as file:
            yield from file
    except UnicodeDecodeError:
        raise _not_utf8(path, setting) from None
    except (pa.ArrowException, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{path}: cannot be decompressed (setting {setting})") from None


def _not_utf8(path: Source, setting: str) -> InputError:
    """Return an error that names the first line and byte that are not UTF-8."""
    line, offset, left = 1, 0, b""
    with _open_bytes(path) as file:
        while True:
            block = file.read(_BLOCK_BYTES)
            data = left + block
            try:
                _, used = codecs.utf_8_decode(data, "strict", not block)
            except UnicodeDecodeError as error:
                line += data.count(b"\n", 0, error.start)
                return InputError(
                    f"{path}, line {line}: is not UTF-8 at byte {offset + error.start}. "
                    f"{_TO_UTF8} (setting {setting})"
                )
            line, offset, left = line + data.count(b"\n", 0, used), offset + used, data[used:]


def _csv(
    path: Source, setting: str, required: Mapping[str, str], *, broken: bool = False
) -> Iterator[Row]:
    lines = _cells(_lines(path, setting), required)
    number = 1
    try:
        header = next(lines, None)
        if header is None:
            return
        _require(path, required, header)
        if any(header.count(name) > 1 for name in required):
            raise InputError(f"{path}, row 1: names a column twice (setting {setting})")
        for number, cells in enumerate(lines, start=2):  # the header is row 1
            if not cells:
                continue
            if len(cells) == len(header):
                yield Row(number, dict(zip(header, cells, strict=True)))
                continue
            problem = (
                f"has {len(cells)} cells, but the header (row 1) has {len(header)}. A cell with a "
                "delimiter or a line break needs quotes"
            )
            if not broken:
                raise InputError(f"{path}, row {number}: {problem} (setting {setting})")
            yield Row(number, {}, problem)
    except csv.Error:
        raise InputError(
            f"{path}, row {number + 1}: is not csv. Look for an open quote (setting {setting})"
        ) from None


def _jsonl(path: Source, setting: str, required: Mapping[str, str]) -> Iterator[Row]:
    seen: set[str] = set()
    number = 0
    for number, line in enumerate(_lines(path, setting, newline="\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}, row {number}: is not JSON (setting {setting})") from None
        if not isinstance(fields, dict):
            raise InputError(f"{path}, row {number}: is not a JSON object (setting {setting})")
        seen.update(fields)
        yield Row(number, fields)
    if seen:
        _require(path, required, seen)


def _parquet(
    path: Source, setting: str, required: Mapping[str, str], *, all_columns: bool
) -> Iterator[Row]:
    with path.open("rb") as file:
        try:
            names = pq.read_schema(file).names
            _require(path, required, names)
            if any(names.count(name) > 1 for name in required):
                raise InputError(f"{path}: names a column twice (setting {setting})")
            table = pq.ParquetFile(file, pre_buffer=False)  # True keeps all rows in memory
        except (pa.ArrowException, OSError):
            raise InputError(f"{path}: is not a parquet file (setting {setting})") from None
        yield from _parquet_rows(path, table, setting, None if all_columns else list(required))


def _parquet_rows(
    path: Source, table: pq.ParquetFile, setting: str, columns: list[str] | None
) -> Iterator[Row]:
    number = 0
    try:
        for batch in table.iter_batches(_BATCH_ROWS, columns=columns):
            names = batch.schema.names
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                yield Row(number, dict(zip(names, values, strict=True)))
    except (pa.ArrowException, OSError):
        raise InputError(f"{path}: is not a parquet file (setting {setting})") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{path}, after row {number}: a text is not UTF-8 (setting {setting})"
        ) from None
    except (ValueError, OverflowError):  # a date before year 1, for example
        raise InputError(
            f"{path}, after row {number}: a value cannot be read. Save the column as text "
            f"(setting {setting})"
        ) from None
