"""The user's file as rows: csv, jsonl or parquet. Errors name file and row, never a value."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sugarbush.errors import InputError

_FORMATS = ".csv, .jsonl or .parquet"
_FIELD_LIMIT = 2**27


@dataclass(frozen=True, kw_only=True)
class Row:
    """One record with its number as an editor shows it: the line, or the row of a table from 1."""

    number: int
    fields: dict[str, Any]


def read_rows(path: Path, *, setting: str, wanted: tuple[str, ...]) -> tuple[Row, ...]:
    """Every row of `path`, with the columns `wanted`.

    Raises InputError naming the file, the row or byte, and `setting`.
    """
    if not path.is_file():
        raise InputError(f"{path}: not found (setting {setting})")
    readers = {".csv": _csv, ".jsonl": _jsonl, ".ndjson": _jsonl, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: expected {_FORMATS} (setting {setting})")
    try:
        rows = tuple(reader(path, setting, wanted))
    except PermissionError:
        raise InputError(f"{path}: may not be read (setting {setting})") from None
    if not rows:
        raise InputError(f"{path}: holds no row (setting {setting})")
    return rows


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


def _require(path: Path, setting: str, wanted: tuple[str, ...], present: object) -> None:
    have = set(present)  # type: ignore[call-overload]
    if missing := [name for name in wanted if name not in have]:
        raise InputError(
            f"{path}: has no column {', '.join(map(repr, missing))} (setting {setting})"
        )


def _csv(path: Path, setting: str, wanted: tuple[str, ...]) -> Iterator[Row]:
    csv.field_size_limit(_FIELD_LIMIT)
    lines = csv.reader(_decoded(path, setting).splitlines(keepends=True), strict=True)
    try:
        header = next(lines, [])
        _require(path, setting, wanted, header)
        if len(set(header)) != len(header):
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


def _jsonl(path: Path, setting: str, wanted: tuple[str, ...]) -> Iterator[Row]:
    for number, line in enumerate(_decoded(path, setting).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError:
            raise InputError(f"{path}, row {number}: is not JSON (setting {setting})") from None
        if not isinstance(fields, dict):
            raise InputError(f"{path}, row {number}: is no JSON object (setting {setting})")
        missing = [name for name in wanted if name not in fields]
        if missing and number == 1:
            _require(path, setting, wanted, fields)
        yield Row(number=number, fields=fields)


def _parquet(path: Path, setting: str, wanted: tuple[str, ...]) -> Iterator[Row]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError):
        raise InputError(f"{path}: is not a parquet file (setting {setting})") from None
    _require(path, setting, wanted, table.column_names)
    for number, fields in enumerate(table.select(list(wanted)).to_pylist(), start=1):
        yield Row(number=number, fields=fields)


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing."""
    return value is None or (isinstance(value, float) and pd.isna(value))
