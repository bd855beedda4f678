"""Tests that a frame of polars or pyarrow gives the records of the same frame of pandas."""

from __future__ import annotations

import importlib.util
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import sugarbush as sb
from sugarbush.arguments import pandas_frame
from sugarbush.data.private_store import HELDOUT, TRAIN

pytestmark = pytest.mark.usefixtures("quick_encoder")
KINDS = ["pyarrow", "polars"]
COLUMNS: dict[str, list[Any]] = {
    "id": [2**53 + i for i in range(199)] + [7],
    "message": [f"Order {i} arrived late" for i in range(200)],
    "stars": [None if i == 3 else i % 5 for i in range(200)],
    "day": [date(2026, 1, 1 + i % 28) for i in range(200)],
    "price": [Decimal(i) / 4 for i in range(200)],
}
SCHEMA = {
    "subject": "orders",
    "attributes": [
        {"name": "stars", "column": "stars", "bins": [2, 4]},
        {"name": "day", "column": "day", "values": ["2026-01-01", "2026-01-02"]},
        {"name": "price", "column": "price", "bins": [10, 20]},
    ],
}


def frame_of(kind: str, columns: dict[str, list[Any]]) -> Any:
    if kind == "pyarrow":
        return pa.table(columns)
    if importlib.util.find_spec("polars") is None:
        pytest.skip("polars is not installed")
    import polars

    return polars.DataFrame(columns)


def prepared(frame: Any, state: Path, schema: Any = None, **more: Any) -> dict[str, Any]:
    corpus = sb.prepare(
        frame,
        text="message",
        record_id="id",
        schema=schema or SCHEMA,
        privacy=sb.Privacy(dataset="orders"),
        state=state,
        **more,
    )
    parts = {part: corpus.real_texts(part) for part in (TRAIN, HELDOUT)}
    return {part: (list(real.texts), real.codes.tolist()) for part, real in parts.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_records_are_those_of_the_same_frame_of_pandas(tmp_path: Path, kind: str) -> None:
    expected = prepared(pd.DataFrame(COLUMNS, dtype=object), tmp_path)
    assert prepared(frame_of(kind, COLUMNS), tmp_path) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_category_is_none(kind: str) -> None:
    texts, numbers = ["x", None, "y"], [2**53 + 1, None, 1]
    columns: dict[str, Any] = {"text": pa.array(texts).dictionary_encode()}
    columns["number"] = pa.array(numbers).dictionary_encode()
    if kind == "polars":
        polars = pytest.importorskip("polars")
        columns = {"text": polars.Series(texts, dtype=polars.Categorical)}
        columns["enum"] = polars.Series(texts, dtype=polars.Enum(["x", "y"]))
    found = pandas_frame("frame", frame_of(kind, columns))
    for name in columns:
        assert found[name].tolist() == (numbers if name == "number" else texts)


@pytest.mark.parametrize("kind", KINDS)
def test_donated_frames_and_tables(tmp_path: Path, kind: str) -> None:
    donated = {name: cells[:20] for name, cells in COLUMNS.items()}
    parts = prepared(frame_of(kind, COLUMNS), tmp_path, donated=frame_of(kind, donated))
    assert sum(len(texts) for texts, _ in parts.values()) == 180, "donated records are not used"
    table = sb.dp_table(
        frame_of(kind, COLUMNS),
        schema={"subject": "orders", "attributes": SCHEMA["attributes"][:1]},
        privacy=sb.Privacy(epsilon=3, delta=1e-6, dataset="table"),
        state=tmp_path,
    )
    assert len(table.value) > 100


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_structs_have_dotted_names(kind: str) -> None:
    tickets = [{"body": "late", "by": {"name": "u1"}}, None]
    frame = pandas_frame("frame", frame_of(kind, {"ticket": tickets, "n": [2**60 + 1, None]}))
    assert list(frame.columns) == ["ticket.body", "ticket.by.name", "n"]
    assert frame["n"].tolist() == [2**60 + 1, None], "not rounded"
    assert frame["ticket.by.name"].tolist() == ["u1", None]


def test_missing_texts_are_none_in_columns_of_one_name_and_with_an_index() -> None:
    table = pa.Table.from_pandas(pd.DataFrame({"a": ["x", None]}, index=[5, 9]))
    assert pandas_frame("frame", table)["a"].to_dict() == {5: "x", 9: None}
    twice = pa.table([["x", None], [None, "y"]], names=["a", "a"])
    frame = pandas_frame("frame", twice)
    assert [frame.iloc[:, place].tolist() for place in (0, 1)] == [["x", None], [None, "y"]]


def test_other_objects_are_refused() -> None:
    class Lazy:
        def collect(self) -> None: ...

    for value, message in (([1], "got list"), (Lazy(), r"got Lazy\. Call its method collect")):
        with pytest.raises(sb.ParamsError, match=message):
            prepared(value, Path())


def test_texts_of_a_series_may_be_donated(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    donated = polars.Series(COLUMNS["message"][:10])
    topic = {"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}
    frame = pd.DataFrame(COLUMNS, dtype=object)
    parts = prepared(frame, tmp_path, {"subject": "orders", "attributes": [topic]}, donated=donated)
    assert sum(len(texts) for texts, _ in parts.values()) == 190
