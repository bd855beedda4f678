"""The user's file as rows: csv, jsonl or parquet. Errors name file, row and setting, never a value.

Row numbers are those that an editor shows. In csv it is the line on which the row ends (the header
is line 1), in jsonl the line; rows of a parquet file are counted from 1.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sugarbush.errors import InputError
from sugarbush.paths import find_input

_FORMATS = ".csv, .jsonl or .parquet"
_FIELD_LIMIT = 2**30
_COLUMN_NAME = re.compile(r"(?=.*[^\W\d_])(?!__)\w[\w .()/-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One record and its number."""

    number: int
    fields: dict[str, Any]


def read_rows(
    path: Path, *, setting: str, wanted: Mapping[str, str], all_columns: bool = False
) -> tuple[Row, ...]:
    """Every row of `path`.

    `wanted` maps each required column to the setting that names it. Other columns are read if
    `all_columns`, and else may be skipped.

    Raises InputError naming the file, the row or byte, and `setting`.
    """
    parquet = partial(_parquet, all_columns=all_columns)
    readers: dict[str, Callable[..., Iterator[Row]]] = {
        ".csv": _csv,
        ".jsonl": _jsonl,
        ".ndjson": _jsonl,
        ".parquet": parquet,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: expected {_FORMATS} (setting {setting})")
    try:
        rows = tuple(reader(path, setting, wanted))
    except FileNotFoundError:
        raise InputError(f"{path}: not found (setting {setting})") from None
    except (PermissionError, IsADirectoryError) as error:
        raise InputError(f"{path}: {error.strerror} (setting {setting})") from None
    if not rows:
        raise InputError(f"{path}: has no row (setting {setting})")
    return rows


def column_names(path: Path, *, required: Mapping[str, str], setting: str) -> tuple[str, ...]:
    """The column names of a private file; never a value, also not in an error.

    Reads the header of a csv file, the keys of the first object of a jsonl file, or the schema of a
    parquet file. A csv file without a header has its first record in place of the names. So every
    `required` column, mapped to the setting that names it, must be among the names. Names that look
    like data are omitted. Raises InputError naming the file and `setting`.
    """
    readers = {
        ".csv": _csv_header,
        ".jsonl": _first_keys,
        ".ndjson": _first_keys,
        ".parquet": _parquet_names,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: expected {_FORMATS} (setting {setting})")
    try:
        names = reader(path)
    except OSError as error:
        reason = "not found" if isinstance(error, FileNotFoundError) else error.strerror
        raise InputError(f"{path}: {reason} (setting {setting})") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{path}: is not UTF-8. Save the file as UTF-8 (setting {setting})"
        ) from None
    except (ValueError, RecursionError, csv.Error, pa.ArrowException):
        raise InputError(
            f"{path}: its column names cannot be read as {path.suffix} (setting {setting})"
        ) from None
    if not names:
        raise InputError(f"{path}: has no row (setting {setting})")
    _require(path, required, names)
    return tuple(dict.fromkeys(name for name in names if _COLUMN_NAME.fullmatch(name)))


def digest_of_files(base: Path, names: Sequence[str], *, setting: str) -> bytes:
    """SHA-256 over the contents of `names`, in order. Raises InputError naming file and setting."""
    whole = hashlib.sha256()
    for name in names:
        path = find_input(base, name)
        try:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except FileNotFoundError:
            raise InputError(f"{path}: not found (setting {setting})") from None
        except (PermissionError, IsADirectoryError) as error:
            raise InputError(f"{path}: {error.strerror} (setting {setting})") from None
    return whole.digest()


def _csv_header(path: Path) -> Sequence[str]:
    csv.field_size_limit(_FIELD_LIMIT)
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file, strict=True), [])


def _first_keys(path: Path) -> Sequence[str]:
    with path.open(encoding="utf-8-sig") as file:
        first = next((line for line in file if line.strip()), "{}")
    fields = json.loads(first)
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    return list(fields)


def _parquet_names(path: Path) -> Sequence[str]:
    with path.open("rb") as file:
        names: list[str] = pq.read_schema(file).names
    return names


def rows_of_frame(frame: pd.DataFrame, *, wanted: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows of a frame, counted from 1. Raises InputError for a column that is missing."""
    _require(Path("the frame"), wanted, map(str, frame.columns))
    records = frame.to_dict("records")
    return tuple(
        Row(number=number, fields={str(name): value for name, value in fields.items()})
        for number, fields in enumerate(records, start=1)
    )


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, or a missing number or date of pandas."""
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def _require(path: Path, wanted: Mapping[str, str], present: Iterable[str]) -> None:
    """Names the missing column but not the existing ones: in a csv file without a header these are
    the first record."""
    have = set(present)
    for column, asked_by in wanted.items():
        if column not in have:
            raise InputError(f"{path}: has no column '{column}' (asked for by {asked_by})")


def _decoded(path: Path, setting: str) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, row {line}: is not UTF-8 at byte {error.start}. Save the file as UTF-8 "
            f"(setting {setting})"
        ) from None


def _csv(path: Path, setting: str, wanted: Mapping[str, str]) -> Iterator[Row]:
    csv.field_size_limit(_FIELD_LIMIT)
    lines = csv.reader(io.StringIO(_decoded(path, setting), newline=""), strict=True)
    try:
        header = next(lines, None)
        if header is None:
            return
        if len(header) == 1 < len(wanted):
            raise InputError(
                f"{path}, row 1: has one cell, and {len(wanted)} columns are asked for. Save the "
                f"file with commas between its cells (setting {setting})"
            )
        _require(path, wanted, header)
        if any(header.count(name) > 1 for name in wanted):
            raise InputError(f"{path}, row 1: names a column twice (setting {setting})")
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{path}, row {lines.line_num}: has {len(cells)} cells where the header has "
                    f"{len(header)} (setting {setting})"
                )
            yield Row(number=lines.line_num, fields=dict(zip(header, cells, strict=True)))
    except csv.Error:
        raise InputError(
            f"{path}, row {lines.line_num}: is not csv; look for an open quote (setting {setting})"
        ) from None


def _jsonl(path: Path, setting: str, wanted: Mapping[str, str]) -> Iterator[Row]:
    seen: set[str] = set()
    number = 0
    for number, line in enumerate(_decoded(path, setting).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}, row {number}: is not JSON (setting {setting})") from None
        if not isinstance(fields, dict):
            raise InputError(f"{path}, row {number}: is not a JSON object (setting {setting})")
        seen.update(fields)
        yield Row(number=number, fields=fields)
    if seen:
        _require(path, wanted, seen)


def _parquet(
    path: Path, setting: str, wanted: Mapping[str, str], *, all_columns: bool
) -> Iterator[Row]:
    with path.open("rb") as file:
        try:
            names = pq.read_schema(file).names
            _require(path, wanted, names)
            if any(names.count(name) > 1 for name in wanted):
                raise InputError(f"{path}: names a column twice (setting {setting})")
            table = pq.read_table(file, columns=None if all_columns else list(wanted))
        except (pa.ArrowException, OSError):
            raise InputError(f"{path}: is not a parquet file (setting {setting})") from None
    number = 0
    try:
        for batch in table.to_batches():
            for fields in batch.to_pylist():
                number += 1
                yield Row(number=number, fields=fields)
    except UnicodeDecodeError:
        raise InputError(
            f"{path}, after row {number}: a text is not UTF-8 (setting {setting})"
        ) from None
    except (pa.ArrowException, ValueError, OverflowError):  # a date before year 1, for example
        raise InputError(
            f"{path}, after row {number}: a value cannot be read. Save the column as text "
            f"(setting {setting})"
        ) from None
