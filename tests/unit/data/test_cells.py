"""Tests of the one rule that turns a cell into text and finds its listed value."""

from __future__ import annotations

import enum
import sqlite3
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.data.cells import Listing, cells_of, text_of
from sugarbush.data.reading import read_rows, rows_of_frame
from sugarbush.data.records import Record, usable
from sugarbush.data.schema import Attribute, Schema, UnlistedColumn
from sugarbush.data.settings import PrepareSettings
from sugarbush.profiling.layout import value_of


class Colour(enum.Enum):
    RED = "red"


Named = enum.Enum("Named", "lamp chair")
Level = enum.IntEnum("Level", "low high")
TEXTS = st.one_of(
    st.text(max_size=12),
    st.from_regex(r"[+-]?0{0,2}[0-9]{1,4}(\.[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["1E3", "1e3", "1e-07", "True", "TRUE", "NaN", "lamp ", "Lamp", "a  b", "a b"]),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
)
CELLS = st.one_of(
    TEXTS, st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.dates(),
    st.decimals(allow_infinity=False, places=3), st.datetimes(timezones=st.sampled_from([UTC])),
    st.datetimes(), st.sampled_from([Colour.RED, Named.lamp, Level.high, b"lamp", pd.NA, pd.NaT]),
    st.floats(width=32).map(np.float32), st.integers(0, 99).map(np.int16),
)  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([5, 5.0, np.int8(5), np.float32(5), Decimal("5.00"), "5"], "5"),
        ([0.1, np.float32(0.1), np.float16(0.1), Decimal("0.10")], "0.1"),
        ([1e-07, np.float64(1e-7), "1e-07"], "1e-07"),
        ([True, np.bool_(True)], "true"),
        ([b"lamp", Named.lamp, np.str_("lamp"), bytearray(b"lamp")], "lamp"),
        ([Colour.RED, "red"], "red"),
        ([Level.high], "2"),
        ([date(2024, 5, 1), datetime(2024, 5, 1), np.datetime64("2024-05-01"),
          pd.Timestamp("2024-05-01")], "2024-05-01"),
        ([datetime(2024, 5, 1, 8, 30), pd.Timestamp("2024-05-01 08:30")], "2024-05-01 08:30:00"),
        ([None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), "", " \t"], None),
    ],
)  # fmt: skip
def test_a_cell_has_one_text_whatever_its_type(cells: list[Any], text: str | None) -> None:
    assert {text_of(cell) for cell in cells} == {text}


@pytest.mark.parametrize(
    "codes",
    [
        ["250.00", "250.0", "250", "V70"], ["1.10", "1.1", "1.9", "2"], ["007", "7", "07"],
        ["01234", "1234"], ["1E3", "1000", "2E5"], ["1e3", "1E3"], ["+1", "1", "-1"],
        ["1_000", "1000"], ["1,000", "1000", "1.000"], ["0x1F", "31"], ["0o17", "15"],
        ["-0", "0"], [".5", "0.5"], ["5.", "5"], ["1.0", "1.00"], ["Lamp", "lamp", "LAMP"],
        ["caf\u00e9", "cafe\u0301"], ["true", "True", "TRUE"], ["NA", "na", "N/A"],
        ["2024-05-01", "20240501", "2024-5-1"], ["12:30", "12:30:00"], ["\u0663", "3"],
    ],
)  # fmt: skip
def test_codes_keep_every_character(codes: list[str]) -> None:
    own = Attribute(name="code", column="code", values=tuple(codes))
    assert [own.code(code) for code in codes] == list(range(len(codes)))
    assert [own.raw(code) for code in codes] == codes
    assert [value_of(UnlistedColumn(name="c", column="c").raw(code)) for code in codes] == [
        code if code[:4] != "2024" or "-" not in code or len(code) < 10 else None for code in codes
    ]
    assert own.numbers is None


@pytest.mark.parametrize(
    ("listed", "cells"),
    [
        (["1.0", "4.0"], ["4.0", "4", 4, 4.0, "4.00", Decimal("4.0"), np.float32(4)]),
        (["9.90", "19.90"], ["19.90", "19.9", 19.9, Decimal("19.90"), np.float32(19.9)]),
        (["1", "4"], ["4", "4.0", 4.0, True + 3]),
        (["0.5", "0.0000001"], ["1e-07", 1e-7, "0.0000001"]),
        (["5.0", "unknown"], ["unknown", "Unknown ", "UNKNOWN"]),
        (["5.0", "4.0", "unknown"][:2], [4.0]),
        (["no", "2024-05-01"], ["2024-05-01", date(2024, 5, 1), "2024-05-01T00:00:00.000",
                                datetime(2024, 5, 1), "2024-05-01 00:00:00"]),
        (["no", "2024-05-01 08:30:00"], [datetime(2024, 5, 1, 8, 30), "2024-05-01T08:30"]),
        (["no", "2024-05-01T08:30:00Z"],
         [datetime(2024, 5, 1, 10, 30, tzinfo=timezone(timedelta(hours=2)))]),
        (["False", "True"], [True, "true", "TRUE", np.bool_(True)]),
        (["7", "x1", "5.0"][::2], [5, "5"]),
    ],
)  # fmt: skip
def test_numbers_times_and_booleans_match_by_value(listed: list[str], cells: list[Any]) -> None:
    own = Attribute(name="a", column="a", values=tuple(listed))
    assert {own.code(cell) for cell in cells} == {1}
    assert {own.raw(cell) for cell in cells} == {listed[1]}


@pytest.mark.parametrize(
    ("listed", "cell"),
    [
        (["250", "V70"], "250.0"), (["250.00", "V70"], "250"), (["7", "8"], "007"),
        (["1000", "2"], "1E3"), (["1", "2"], True), (["true", "false"], 1), (["1", "0"], "true"),
        (["1.10", "1.1"], "1.100"), (["02139", "90210"], 2139), (["5", "5.0"], "5.00"),
        (["2024-05-01"], "2024-05-01 08:30"), (["1000", "2"], "1,000"), (["12", "13"], "+12"),
    ],
)  # fmt: skip
def test_what_is_another_value_is_in_the_bucket(listed: list[str], cell: Any) -> None:
    own = Attribute(name="a", column="a", values=tuple(listed))
    assert own.code(cell) == own.code(own.raw(cell)) == len(listed)


def test_a_number_without_spelling_has_the_only_listed_value_of_its_size() -> None:
    mixed = Attribute(name="a", column="a", values=("5.0", "none"))
    assert mixed.code(5) == mixed.code(5.0) == 0
    assert Listing(("5.00", "5.000", "none")).place(5) is None


def test_equal_listed_values_are_refused_and_different_codes_are_not() -> None:
    assert Listing(("a b", "a  b", " a b")).repeated == ("a  b", " a b")
    assert Listing(("1.10", "1.1", "01")).repeated == ()


@given(st.lists(CELLS, max_size=8))
def test_a_profiled_value_matches_the_rows_on_which_it_was_measured(cells: list[Any]) -> None:
    """For every choice of the released values, also if others are rare."""
    column = UnlistedColumn(name="a", column="a")
    found = [value_of(column.raw(cell)) for cell in cells]
    released = list(dict.fromkeys(value for value in found if value is not None))
    for listed in (released, released[::2], released[:1]):
        if not listed:
            continue
        own = Attribute(name="a", column="a", values=tuple(listed), other="no such value")
        for cell, value in zip(cells, found, strict=True):
            if value in listed:
                assert own.values[own.code(cell)] == own.values[own.code(own.raw(cell))] == value


ATTRIBUTES = [
    {"values": ["5", "4.0", "lamp", "2024-05-01", "true"]},
    {"values": ["1", "2.5", "-3"]},
    {"values": ["1.0", "1.00", "1e-07"]},
    {"groups": {"low": ["1", "2"], "high": ["3.0", "Lamp"]}},
    {"bins": [0, 10]},
    {"bins": [0, 10], "decimal": ","},
    {"bins": [0, 10], "type": "number", "span": [-5, 20], "missing": ["-9", "Lamp"]},
    {"bins": [0, 10], "type": "integer", "span": [-5, 20], "decimal": ","},
    {"bins": [0, 10], "type": "number", "span": [-5, 20], "decimal": "."},
    {"bins": ["2000-01-01"], "span": ["1990-01-01", "2010-01-01"]},
    {"bins": ["2000-01-01"], "span": ["1990-01-01", "2010-01-01"], "format": "%d/%m/%Y"},
    {"bins": ["2000-01-01T00:00"], "span": ["1990-01-01T00:00", "2010-01-01T00:00"]},
]


@given(CELLS, st.sampled_from(ATTRIBUTES))
def test_a_stored_cell_has_the_code_of_the_cell(cell: Any, fields: dict[str, Any]) -> None:
    own = Attribute(**{"name": "a", "column": "a", **fields})
    stored = own.raw(cell)
    assert stored is None or type(stored) is str
    assert own.code(stored) == own.code(cell)
    assert own.raw(stored) == stored


FRAME = pd.DataFrame(
    {
        "text": [f"the lamp {i} is late" for i in range(60)],
        "stars": [1.0, 4.0, np.nan] * 20,
        "ok": [True, False] * 30,
        "price": [9.9, 19.9, 49.0] * 20,
        "tiny": [1e-7, 12345.5, 0.5] * 20,
        "whole": pd.Series([1, 2, None] * 20, dtype="Int64"),
        "single": pd.Series([0.1, 2.0, 19.9] * 20, dtype="float32"),
        "kind": pd.Series(["a", "b", None] * 20, dtype="category"),
        "day": pd.to_datetime(["2024-05-01", "2024-05-02"] * 30),
        "when": pd.to_datetime(["2024-05-01 00:00", "2024-05-02 08:30"] * 30),
        "code": ["E11", "250.00", "250.0"] * 20,
        "zip": ["01234", "007", "1E3"] * 20,
        "name": ["Lamp ", "", None] * 20,
    }
)
COLUMNS = [name for name in FRAME if name != "text"]


def write(frame: pd.DataFrame, path: Path) -> Path:
    ending = path.suffix
    if ending == ".csv":
        frame.to_csv(path, index=False)
    elif ending == ".jsonl":
        frame.to_json(path, orient="records", lines=True, date_format="iso", double_precision=15)
    elif ending == ".parquet":
        frame.to_parquet(path)
    elif ending == ".feather":
        frame.to_feather(path)
    else:
        frame.to_excel(path, index=False)
    return path


def records(rows: Any, schema: Schema) -> list[Record]:
    settings = PrepareSettings.model_validate({"file": "x.csv", "text_column": "text"})
    return list(usable(rows, settings, schema, source="x", setting="prepare.file")[0])


def schema_of_columns(**values: list[str]) -> Schema:
    return Schema.model_validate(
        {
            "subject": "x",
            "attributes": [
                {"name": name, "column": name, "values": values.get(name, ["v1", "v2"])}
                for name in COLUMNS
            ],
        }
    )


LISTED = {
    "stars": ["1", "4"], "ok": ["True", "False"], "price": ["9.90", "19.90", "49.00"],
    "single": ["0.1", "2", "19.9"], "code": ["E11", "250.00", "250.0"],
    "when": ["2024-05-01", "2024-05-02 08:30"], "day": ["2024-05-01", "2024-05-02"],
    "zip": ["01234", "007", "1E3"], "whole": ["1.0", "2.0"], "name": ["lamp"],
    "kind": ["a", "b"], "tiny": ["1e-07", "0.5", "12345.5"],
}  # fmt: skip


@pytest.mark.parametrize("values", [{}, LISTED], ids=["unlisted", "listed"])
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".feather", ".xlsx"])
def test_the_same_rows_in_every_format_give_the_same_records(
    tmp_path: Path, ending: str, values: dict[str, list[str]]
) -> None:
    schema, frame = schema_of_columns(**values), FRAME
    if ending in (".jsonl", ".xlsx"):  # pandas writes 0.1 in single precision as 0.10000000149
        frame = FRAME.assign(single=FRAME["single"].astype(str))
    wanted = dict.fromkeys(frame.columns, "setting")
    rows = read_rows(write(frame, tmp_path / f"a{ending}"), setting="prepare.file", wanted=wanted)
    own = records(rows_of_frame(FRAME, wanted={}), schema)
    found = records(rows, schema)
    assert [r.raw for r in found] == [r.raw for r in own]
    for place, attribute in enumerate(schema.attributes):
        codes = {attribute.code(record.raw[place]) for record in found}
        if values:
            assert codes >= set(range(len(attribute.values)))


def test_the_same_rows_in_a_database_and_in_arrow_give_the_same_records(tmp_path: Path) -> None:
    schema, frame = schema_of_columns(**LISTED), FRAME.assign(when=FRAME["when"].astype(str))
    table = pa.Table.from_pandas(frame)
    own = records(rows_of_frame(frame, wanted={}), schema)
    arrow = frame.convert_dtypes(dtype_backend="pyarrow")
    assert [r.raw for r in records(rows_of_frame(arrow, wanted={}), schema)] == [r.raw for r in own]
    assert cells_of(table["single"]) == cells_of(table["single"].combine_chunks())
    numbers = frame[["text", "stars", "price", "code", "zip"]]
    with sqlite3.connect(tmp_path / "a.db") as connection:
        numbers.to_sql("letters", connection, index=False)
    connection.close()
    from sugarbush.data.remote import source_of

    source = source_of(tmp_path, "sqlite:///a.db", setting="prepare.file")
    wanted = dict.fromkeys(numbers.columns, "setting")
    rows = read_rows(source, setting="prepare.file", wanted=wanted)
    places = [COLUMNS.index(name) for name in numbers.columns if name != "text"]

    def by_text(found: list[Record]) -> list[tuple[str, list[Any]]]:
        return sorted((r.text, [r.raw[place] for place in places]) for r in found)

    assert by_text(records(rows, schema)) == by_text(own)


def test_a_missing_field_is_no_text_of_a_user_or_a_value() -> None:
    """pandas 3 stores a missing text as NaN."""
    frame = pd.DataFrame({"text": ["a", "b"], "code": pd.Series(["x", float("nan")], dtype=object)})
    schema = Schema.model_validate(
        {"subject": "x", "attributes": [{"name": "code", "column": "code", "values": ["nan", "x"]}]}
    )
    assert [r.raw for r in records(rows_of_frame(frame, wanted={}), schema)] == [("x",), (None,)]
