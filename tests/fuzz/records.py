"""Files and frames of records, through everything that `prepare` does with them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from sugarbush.attributes.extract import extract_codes
from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.data.private_store import TRAIN, digest_of_frame, records_of
from sugarbush.data.reading import Row, column_names, read_rows, rows_of_frame
from sugarbush.data.records import donated_records, usable, wanted_columns
from sugarbush.data.schema import Attribute, Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.split import ContributionBounder, Splitter, private_frame, unmatched_values
from sugarbush.privacy import fingerprint as fingerprints
from sugarbush.privacy.fingerprint import FingerprintBuilder
from tests.fuzz.damage import (
    CANARY,
    bytes_like,
    fields_like,
    more_damaged,
    odd_value,
    scalars,
    with_damage,
)

KEY = bytes(32)
SCHEMA = Schema(
    subject="letters",
    attributes=(
        Attribute(name="stars", column="stars", bins=(2, 4)),
        Attribute(name="item", column="item", values=("lamp", "chair")),
        Attribute(name="topic", values=("refund",), keywords={"refund": ("money back", "refund")}),
    ),
)
SETTINGS = tuple(
    PrepareSettings.model_validate(
        {
            "min_records": 2,
            "max_characters": 50_000,
            "bad_rows": bad,
            "id_column": i,
            "user_column": user,
        }
    )
    for bad in ("refuse", "drop")
    for i in (None, "id")
    for user in (None, "user")
)
ROWS = tuple(
    {
        "text": f"Letter {i}: money back, {CANARY}{i}.",
        "stars": i,
        "item": "lamp",
        "id": f"{CANARY}{i}",
        "user": f"u{i % 3}",
    }
    for i in range(5)
)
settings = st.sampled_from(SETTINGS)


def _csv() -> bytes:
    lines = [",".join(ROWS[0]), *(",".join(f'"{value}"' for value in row.values()) for row in ROWS)]
    return "\r\n".join(lines).encode()


def _json(rows: Any) -> bytes:
    return json.dumps(list(rows)).encode()


def _jsonl(rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def prepare(rows: tuple[Row, ...], params: PrepareSettings) -> None:
    """Everything that stages do with the rows of a private file, and of a file of donated ones."""
    records, _ = usable(rows, params, SCHEMA, source="rows", setting="prepare.file")
    bound = None if params.user_column is None else ContributionBounder(records=1, key=KEY)
    fingerprint, chosen, public = FingerprintBuilder(key=KEY), None, ["a public text"]
    if bound is not None:
        bound.add(Splitter(params, public=public).kept(records))
        chosen = bound.chosen()[0]
    splitter = Splitter(params, public=public, bound=chosen, fingerprint=fingerprint)
    splits = splitter.split(records, source="rows")
    unmatched_values((record.raw for record in splits[TRAIN]), SCHEMA)
    with mock.patch.object(fingerprints, "SAMPLE", 16):  # 1,024 hashes take most of the time
        tally = splitter.totals.tally(params, source="rows", bounded=bound is not None)
        shown = json.dumps([fingerprint.values(), tally])
    assert CANARY not in shown
    both = [record for split in splits.values() for record in split]
    frame = private_frame(both, SCHEMA, key=KEY, by_user=bound is not None)
    stored = io.BytesIO()
    frame.to_parquet(stored, index=False)
    read = records_of(pd.read_parquet(stored))
    extract_codes(
        SCHEMA,
        read.texts,
        read.columns,
        embed=_no_embedding,
        readers={},
        params=ExtractMetadataSettings(),
    )
    digest_of_frame(frame, key=KEY)
    donated_records(rows, params, SCHEMA, source="rows").to_parquet(io.BytesIO(), index=False)


def _no_embedding(texts: Any) -> Any:
    raise AssertionError(texts)


def _read(content: bytes, params: PrepareSettings, name: str, folder: Path) -> None:
    path = folder / name
    path.write_bytes(content)
    wanted = wanted_columns(params, SCHEMA, private=True)
    try:
        column_names(path, required=wanted, setting="prepare.file")
    finally:
        prepare(read_rows(path, setting="prepare.file", wanted=wanted), params)


def read_csv(case: tuple[bytes, PrepareSettings], folder: Path) -> None:
    _read(*case, "rows.csv", folder)


def read_jsonl(case: tuple[bytes, PrepareSettings], folder: Path) -> None:
    _read(*case, "rows.jsonl", folder)


def read_json(case: tuple[bytes, PrepareSettings], folder: Path) -> None:
    _read(*case, "rows.json", folder)


def read_arrow(case: tuple[bytes, PrepareSettings], folder: Path) -> None:
    _read(*case, "rows.arrow", folder)


def read_xlsx(case: tuple[bytes, PrepareSettings], folder: Path) -> None:
    _read(*case, "rows.xlsx", folder)


def read_parquet(case: tuple[bytes, PrepareSettings], folder: Path) -> None:
    _read(*case, "rows.parquet", folder)


File = tuple[bytes, PrepareSettings]


def more_damaged_csv(case: File, rng: Random) -> File:
    content = case[0] if rng.random() < 0.3 else _csv()
    return more_damaged(content, rng), rng.choice(SETTINGS)


def more_damaged_jsonl(case: File, rng: Random) -> File:
    content = more_damaged(case[0], rng) if rng.random() < 0.3 else _jsonl(odd_rows(rng, odd_value))
    return content, rng.choice(SETTINGS)


def more_damaged_json(case: File, rng: Random) -> File:
    content = more_damaged(case[0], rng) if rng.random() < 0.3 else _json(odd_rows(rng, odd_value))
    return content, rng.choice(SETTINGS)


def more_damaged_arrow(case: File, rng: Random) -> File:
    content = _arrow(_odd_types(rng))
    if rng.random() < 0.5:
        content = more_damaged(rng.choice((case[0], content)), rng)
    return content, rng.choice(SETTINGS)


def more_damaged_xlsx(case: File, rng: Random) -> File:
    """The zip file has a checksum for each part, so the part inside is damaged."""
    if rng.random() < 0.2:
        return more_damaged(case[0], rng), rng.choice(SETTINGS)
    parts = _xlsx_parts()
    name = rng.choice(sorted(parts))
    parts[name] = more_damaged(parts[name], rng)
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as file:
        for part, content in parts.items():
            file.writestr(part, content)
    return stored.getvalue(), rng.choice(SETTINGS)


def _odd_types(rng: Random) -> dict[str, pa.DataType | None]:
    names = rng.sample(sorted(ROWS[0]), rng.randint(1, 3))
    return {name: rng.choice((None, *_TYPES)) for name in names}


def more_damaged_parquet(case: File, rng: Random) -> File:
    if rng.random() < 0.5:
        return more_damaged(case[0], rng), rng.choice(SETTINGS)
    return _parquet(_odd_types(rng)), rng.choice(SETTINGS)


def odd_rows(rng: Random, odd: Callable[[Random], Any]) -> list[Any]:
    """Good rows, of which one or two are damaged."""
    rows: list[Any] = list(ROWS[: rng.randint(2, len(ROWS))])
    for _ in range(rng.randint(1, 2)):
        place = rng.randrange(len(rows))
        rows[place] = with_damage(rows[place], rng, odd)
    return rows


Frame = tuple[list[dict[str, Any]], PrepareSettings]


def read_frame(case: Frame, folder: Path) -> None:
    rows, params = case
    columns = dict.fromkeys(name for row in rows for name in row)
    # pandas 3 keeps names as UTF-8, so an index of objects holds the others
    named = pd.Index(list(columns), dtype=object)
    frame = pd.DataFrame([[row.get(name) for name in columns] for row in rows], dtype=object)
    frame.columns = named
    prepare(rows_of_frame(frame, wanted=wanted_columns(params, SCHEMA, private=True)), params)


csv_files = st.tuples(
    bytes_like(_csv(), _csv().decode().encode("utf-16"), b"text,stars,item,id,user\n", most=2),
    settings,
)
_rows = st.lists(st.one_of(*map(fields_like, ROWS)), min_size=1, max_size=5).map(_jsonl)
json_files = st.tuples(
    st.lists(st.one_of(*map(fields_like, ROWS)), min_size=1, max_size=5).map(_json)
    | bytes_like(_json(ROWS), _json(ROWS).decode().encode("utf-16")),
    settings,
)
jsonl_files = st.tuples(st.one_of(_rows, _rows, bytes_like(_jsonl(ROWS))), settings)

_ODD: tuple[Any, ...] = (
    None, pd.NA, pd.NaT, float("nan"), np.nan, np.float32(1.5), np.int64(3), np.bool_(True),
    datetime(2020, 1, 1),
    pd.Timestamp("2020-01-01", tz="UTC"), date(2020, 1, 1), time(1), timedelta(1),
    pd.Period("2020"), Decimal("NaN"),
    b"\xff", {1}, (1, 2), [CANARY], {"a": CANARY}, np.array([1, 2]), object, 1 + 2j,
    pd.Interval(0, 1),
)  # fmt: skip
_cells = st.one_of(st.sampled_from(_ODD), scalars)
frames = st.tuples(
    st.lists(st.one_of(*(fields_like(row, _cells) for row in ROWS)), min_size=1, max_size=5),
    settings,
)


def more_damaged_frame(case: Frame, rng: Random) -> Frame:
    rows = [row if isinstance(row, dict) else {"text": row} for row in odd_rows(rng, _odd_cell)]
    return rows, rng.choice(SETTINGS)


def _odd_cell(rng: Random) -> Any:
    return rng.choice(_ODD) if rng.random() < 0.5 else odd_value(rng)


_TYPES = (
    pa.string(), pa.large_string(), pa.int64(), pa.uint8(), pa.float32(), pa.bool_(), pa.date32(),
    pa.timestamp("ns", "UTC"),
    pa.duration("s"), pa.decimal128(9, 2), pa.binary(), pa.list_(pa.string()),
    pa.struct([("a", pa.int32())]), pa.null(),
    pa.dictionary(pa.int8(), pa.string()), pa.time64("ns"), pa.map_(pa.string(), pa.int8()),
)  # fmt: skip
_CELLS = {
    pa.int64(): 2**62, pa.uint8(): 7, pa.float32(): float("nan"), pa.bool_(): True,
    pa.date32(): date(1, 1, 1),
    pa.timestamp("ns", "UTC"): 2**62, pa.duration("s"): 2**62, pa.decimal128(9, 2): Decimal("1.25"),
    pa.binary(): b"\xff\x00",
    pa.list_(pa.string()): [CANARY], pa.struct([("a", pa.int32())]): {"a": 1}, pa.null(): None,
    pa.time64("ns"): 5,
    pa.map_(pa.string(), pa.int8()): [("a", 1)],
}  # fmt: skip
_NOT_UTF8 = pa.Array.from_buffers(
    pa.string(),
    5,
    [None, pa.py_buffer(np.arange(6, dtype=np.int32).tobytes()), pa.py_buffer(b"\xffabcd")],
)


def _column(name: str, kind: pa.DataType | None) -> pa.Array:
    if kind is None:
        return _NOT_UTF8
    own = [str(row[name]) for row in ROWS]
    return pa.array([_CELLS[kind]] * 4 + [None] if kind in _CELLS else own, type=kind)


def _parquet(types: dict[str, pa.DataType | None]) -> bytes:
    stored = io.BytesIO()
    pq.write_table(
        pa.table({name: _column(name, types.get(name, pa.string())) for name in ROWS[0]}), stored
    )
    return stored.getvalue()


_tables = st.dictionaries(
    st.sampled_from(sorted(ROWS[0])), st.one_of(st.none(), st.sampled_from(_TYPES)), max_size=3
).map(_parquet)
parquet_files = st.tuples(st.one_of(_tables, bytes_like(_parquet({}), most=3)), settings)


def _arrow(types: dict[str, pa.DataType | None]) -> bytes:
    stored = io.BytesIO()
    table = pa.table({name: _column(name, types.get(name, pa.string())) for name in ROWS[0]})
    with pa.ipc.new_stream(stored, table.schema) as stream:
        stream.write_table(table)
    return stored.getvalue()


@cache
def _xlsx_bytes() -> bytes:
    from openpyxl import Workbook

    workbook, stored = Workbook(), io.BytesIO()
    workbook.active.append(list(ROWS[0]))
    for row in ROWS:
        workbook.active.append(list(row.values()))
    workbook.active.append([date(2026, 1, 2), 1.5, True, "=A1", "#N/A"])
    workbook.save(stored)
    return stored.getvalue()


def _xlsx_parts() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(_xlsx_bytes())) as file:
        return {name: file.read(name) for name in file.namelist()}


arrow_files = st.tuples(bytes_like(_arrow({}), most=3), settings)
xlsx_files = st.tuples(st.deferred(lambda: bytes_like(_xlsx_bytes(), most=3)), settings)
