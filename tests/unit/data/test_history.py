"""Tests of histories: which records are used, which rows are refused, and what is released."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sugarbush.attributes.draft import attributes_of_history, text_yaml
from sugarbush.attributes.reader import UNREAD, LabelReader
from sugarbush.attributes.released_values import released_values
from sugarbush.data.formats.rows import Row
from sugarbush.data.reading import rows_of_frame
from sugarbush.data.records import donated_records, usable, wanted_columns
from sugarbush.data.schema import Schema, parse_schema, schema_of
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.history import History
from sugarbush.errors import InputError, ParamsError, SchemaError
from sugarbush.evolution.initialisation import first_requests
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Targets
from sugarbush.generators.pool_files import PoolSource, load_pool
from sugarbush.profiling.layout import measures_of, sizes_group
from sugarbush.release.histories import records_as_lines, records_table
from sugarbush.run.usable_inputs import require_histories
from tests.settings import params

SECRET = "hunter2-sesame"
DECLARED = {"person": "who", "by": "day", "label": "ticket", "most": 3}


def schema(attributes: Any = (), **changes: Any) -> Schema:
    return schema_of(
        {
            "subject": "letters",
            "text": {"history": {**DECLARED, **changes}},
            "attributes": attributes
            or [
                {"name": "records", "column": "records", "values": ["1", "2", "3"]},
                {
                    "name": "gap",
                    "column": "gap_days",
                    "bins": [5, 20],
                    "type": "integer",
                    "span": [0, 100],
                },
            ],
        },
        source="the schema",
    )


def joined(*rows: tuple[Any, Any, Any], **changes: Any) -> list[Row]:
    history = schema(**changes).shape
    assert isinstance(history, History)
    cells = [dict(zip(("who", "day", "text"), row, strict=True)) for row in rows]
    return list(history.grouped(Row(n, own) for n, own in enumerate(cells, start=1)))


def test_records_are_in_the_order_of_dates_and_the_earliest_are_used() -> None:
    [row] = joined(
        ("a", "2024-03-01", "third"),
        ("a", "2024-01-01", "first"),
        ("a", "2024-09-01", "too late"),
        ("a", "2024-02-01", "second"),
    )
    assert row.fields["text"] == ["first", "second", "third"]
    assert (row.fields["records"], row.fields["gap_days"], row.number) == (3, 30, 2)


def test_equal_dates_keep_the_order_of_the_file_and_equal_records_stay() -> None:
    [row] = joined(*[("a", "2024-03-01", text) for text in ("b", "a", "a")])
    assert row.fields["text"] == ["b", "a", "a"]
    assert row.fields["gap_days"] == 0


def test_one_record_is_a_history_without_a_gap() -> None:
    [row] = joined(("a", "2024-03-01", "Hello."))
    assert (row.fields["records"], row.fields["gap_days"]) == (1, None)
    assert schema().shape.text_of(row.fields) == "Ticket: Hello."  # type: ignore[union-attr]


def test_all_spellings_of_a_person_are_one_person() -> None:
    rows = joined(
        ("Ana", "2024-03-01", "one"), (" ANA", "2024-03-02", "two"), (7, "2024-01-01", "x")
    )
    assert [row.fields["records"] for row in rows] == [2, 1]


@pytest.mark.parametrize(
    ("cell", "kind", "gap"),
    [
        (datetime(2024, 3, 1, 12), "datetime", 0.5),
        ("2024-03-01T12:00:00Z", "datetime", 0.5),
        (date(2024, 3, 3), "date", 2),
        ("03/04/2024", "date", None),  # two readings without `format`
    ],
)
def test_dates_are_read_as_attributes_read_them(cell: Any, kind: str, gap: float | None) -> None:
    start = "2024-03-01T00:00:00Z" if str(cell).endswith("Z") else "2024-03-01T00:00:00"
    rows = joined(("a", start[:10] if kind == "date" else start, "x"), ("a", cell, "y"), type=kind)
    assert rows[-1].fields.get("gap_days") == gap


def test_integers_give_an_order_and_no_gap() -> None:
    attributes = [{"name": "records", "column": "records", "values": ["1", "2"]}]
    [row] = joined(("a", 10, "b"), ("a", "9", "a"), type="integer", attributes=attributes)
    assert row.fields["text"] == ["a", "b"]
    assert row.fields["gap_days"] is None
    with pytest.raises(SchemaError, match="no dates"):
        schema(type="integer")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ((None, "2024-03-01", SECRET), "column 'who'"),
        (("a", None, SECRET), "column 'day' (text.history.by) has no value"),
        (("a", SECRET, "x"), "column 'day' is no date"),
        (("a", "2024-03-01", None), "has no text in column 'text'"),
        (("a", "2024-03-01", "  "), "the text is empty"),
        (("a", "2024-03-01", "x\ud800"), "half a character"),
    ],
)
def test_a_bad_record_is_named_by_its_row_and_takes_away_itself_alone(
    row: tuple[Any, Any, Any], problem: str
) -> None:
    rows = joined(("a", "2024-01-01", "fine"), row)
    [bad] = [each for each in rows if each.problem]
    assert problem in bad.problem and bad.number == 2 and SECRET not in bad.problem
    assert [each.fields["text"] for each in rows if not each.problem] == [["fine"]]
    settings = PrepareSettings(user_column="who")
    with pytest.raises(InputError, match="f, row 2: ") as refused:
        usable(rows, settings, schema(), source="f", setting="prepare.file")
    assert SECRET not in str(refused.value)


def test_no_file_needs_the_columns_that_are_computed() -> None:
    wanted = wanted_columns(PrepareSettings(user_column="who"), schema(), private=True)
    assert set(wanted) == {"who", "day", "text"}


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy__unit": "record", "prepare__user_column": None},
        {"privacy__unit": "user", "prepare__user_column": "else"},
        {"privacy__unit": "user", "prepare__user_column": "who", "privacy__records_per_user": 2},
    ],
)
def test_a_history_is_one_record_of_its_user(changes: dict[str, Any]) -> None:
    with pytest.raises(ParamsError, match=r"histor(y|ies)"):
        require_histories(params(**changes), schema())
    require_histories(params(privacy__unit="user", prepare__user_column="who"), schema())


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"by": "who"}, "different columns"),
        ({"by": "record"}, "Rename"),
        ({"type": "number"}, "date, datetime or integer"),
        ({"type": "integer", "format": "%Y"}, "format needs"),
        ({"records": [4]}, "above most"),
    ],
)
def test_wrong_declarations_are_refused(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema(**declared)


def test_an_attribute_has_no_name_of_a_released_column() -> None:
    with pytest.raises(SchemaError, match="'record' has the name"):
        schema([{"name": "record", "column": "x", "values": ["a"]}])


def test_a_draft_is_read_as_it_was_written(tmp_path: Path) -> None:
    form = TextForm(history={**DECLARED, "records": [1, 3], "format": "%d/%m/%Y"})  # type: ignore[arg-type]
    assert form.history is not None
    attribute = "attributes:\n- {name: a, values: [b], keywords: {b: [b]}}\n"
    content = f"subject: letters\n{text_yaml(form)}{attribute}"
    assert parse_schema(content, tmp_path / "schema.yaml").text == form
    assert [a.column for a in attributes_of_history(form.history)] == ["records", "gap_days"]
    assert form.without_lengths.model_dump()["history"]["records"] == ()


def test_the_cache_keys_of_other_shapes_have_no_history() -> None:
    assert "history" not in TextForm(fields=("subject", "body")).model_dump()


def test_numbered_labels_of_an_answer_are_repaired_and_too_many_records_are_not() -> None:
    shape = schema().shape
    assert shape is not None
    for answer in ("Ticket 1: a\nTicket 2: b", "```\n**Ticket 1:** a\n\n**Ticket 2:** b\n```"):
        assert shape.of_answer(answer) == "Ticket: a\nTicket: b"
    for answer in ("Ticket: a\n" * 4, "Ticket:\nTicket: b", "Hello."):
        with pytest.raises(ValueError, match=r"more than|empty record|does not begin"):
            shape.of_answer(answer)


def test_a_request_has_the_number_of_records_of_its_row_of_the_table() -> None:
    own = schema(words_per_record=[10], records=[1])
    targets = Targets(
        codes=np.array([[1, 0], [2, 1]]),
        labels=np.zeros(2, dtype=np.int64),
        values=np.array([[np.nan, 3.0], [np.nan, 7.0]]),
    )
    requests = first_requests(
        targets,
        schema=own,
        prompts=Prompts(content=PromptContent.METADATA, examples=0, candidates=0),
        length=FirstLength(),
        donated=None,
        seed=1,
        run_seed=1,
    )
    assert [dict(request.lengths)["records per history"] for request in requests] == [2, 3]
    assert [request.words for request in requests] == [22, 33]


@pytest.mark.parametrize("kind", [list, np.array])
def test_a_row_with_a_list_of_texts_is_a_history_already(kind: Any) -> None:
    """So released histories, and donated texts of the Python API, can be read again."""
    shape = schema().shape
    assert shape is not None
    own = shape.parse("Ticket: a\nTicket: b")["text"]
    frame = pd.DataFrame({"text": [kind(own), kind(["c"])], "who": None, "day": None})
    rows = rows_of_frame(frame, wanted=shape.columns)
    found = donated_records(rows, PrepareSettings(), schema(), source="donated")
    assert found["text"].tolist() == ["Ticket: a\nTicket: b", "Ticket: c"]
    assert found["raw_records"].tolist() == ["2", "1"]


def test_a_profile_measures_the_records_of_a_history_beside_the_number_of_records() -> None:
    shape = schema().shape
    assert shape is not None
    group = sizes_group(by_user=False, measures=measures_of(shape))
    names = [histogram.name for histogram in group.histograms]
    assert len(names) == len(set(names)) == 7
    assert shape.lengths("Ticket: a b\nTicket: c d")[shape.measures[0]] == 2


def test_a_pool_is_joined_as_the_private_file_is(tmp_path: Path) -> None:
    file = tmp_path / "pool.csv"
    pd.DataFrame(
        {
            "who": ["a", "b", "a"],
            "day": ["2024-02-01"] * 2 + ["2024-01-01"],
            "text": ["2", "x", "1"],
        }
    ).to_csv(file, index=False)
    source = PoolSource(file=str(file))
    own = schema()
    assert load_pool([source], base=tmp_path, shape=own.shape) == (
        "Ticket: 1\nTicket: 2",
        "Ticket: x",
    )


def test_a_gap_is_the_requested_one_else_drawn_from_the_counts_and_one_record_has_none() -> None:
    texts = ["Ticket: a"] * 2 + [f"Ticket: a\nTicket: {i}" for i in range(400)]
    requested = np.full((402, 2), UNREAD)
    requested[[0, 2], 1] = 2
    counts = {"gap": np.array([30.0, 10.0, -2.0, 70.0])}
    reader = LabelReader(
        schema=schema(),
        embed=lambda texts: np.ones((len(texts), 2), dtype=np.float32),
        counts=counts,
    )
    labels = reader.read(texts, requested)
    gaps = labels.codes[:, 1]
    assert gaps[:3].tolist() == [3, 3, 2]
    assert set(gaps[3:].tolist()) == {0, 1}
    assert 0.65 < np.mean(gaps[3:] == 0) < 0.85
    assert labels.codes[:3, 0].tolist() == [0, 0, 1]


@pytest.mark.parametrize("requests", [0, 1])
def test_a_first_date_that_nothing_reads_is_drawn_from_the_counts(requests: int) -> None:
    """Also if no prompt requested one. Otherwise a release would have dates by chance."""
    opened = {"name": "opened", "column": "day", "bins": ["2024-02-01"], "type": "date",
              "span": ["2024-01-01", "2024-12-31"]}  # fmt: skip
    reader = LabelReader(
        schema=schema([opened]),
        embed=lambda texts: np.ones((len(texts), 2), dtype=np.float32),
        counts={"opened": np.array([30.0, -9.0, 90.0])},
        examples=[f"Ticket: old {i}" for i in range(30)],
        codes=np.zeros((30, 1), dtype=np.int64),
    )
    requested = np.full((402, 1), UNREAD)
    requested[:requests] = 1
    labels = reader.read([f"Ticket: {i}" for i in range(402)], requested)
    dates = labels.codes[:, 0]
    assert dates[:requests].tolist() == [1] * requests
    assert set(dates[requests:].tolist()) == {0, 2}
    assert 0.65 < np.mean(dates[requests:] == 2) < 0.85  # dates outside all bins stay so
    assert labels.attributes[0].source == "drawn" and labels.attributes[0].requested == requests


def test_a_rule_changes_a_drawn_date_and_no_label_that_a_prompt_requested() -> None:
    days = {"name": "opened", "column": "day", "values": ["2024-01-01", "2024-02-01"]}
    rule = {"if": {"product": ["lamp"]}, "then": {"opened": ["2024-01-01"]}}
    product = {"name": "product", "column": "product", "values": ["lamp", "chair"]}
    ruled = schema_of(
        {
            "subject": "letters", "text": {"history": DECLARED}, "attributes": [product, days],
            "rules": [rule],
        },
        source="the schema",
    )  # fmt: skip
    counts = {"opened": np.array([100.0, 100.0, 0.0]), "product": np.array([200.0, 0.0, 0.0])}
    reader = LabelReader(
        schema=ruled,
        embed=lambda texts: np.ones((len(texts), 2), dtype=np.float32),
        counts=counts,
    )
    requested = np.full((200, 2), UNREAD)
    requested[:, 0] = 0
    labels = reader.read([f"Ticket: {i}" for i in range(200)], requested)
    assert (labels.codes == 0).all()


def test_the_first_date_is_read_like_the_requested_ones_without_counts() -> None:
    opened = {"name": "opened", "column": "day", "values": ["2024-01-01", "2024-02-01"]}
    reader = LabelReader(
        schema=schema([opened]),
        embed=lambda texts: np.ones((len(texts), 2), dtype=np.float32),
    )
    requested = np.full((40, 1), UNREAD)
    requested[:10] = 1
    labels = reader.read([f"Ticket: {i}" for i in range(40)], requested)
    assert (labels.codes >= 0).all() and labels.attributes[0].source == "request"


def test_the_number_of_records_in_a_release_is_that_of_the_text() -> None:
    """Also if the prompt requested another number of the same bin."""
    number = {"name": "n", "column": "records", "bins": [2], "type": "integer", "span": [1, 3]}
    texts = ["Ticket: a", "Ticket: a\nTicket: b", "Ticket: 2\nTicket: b\nTicket: c"]
    values, _ = released_values(
        schema([number]),
        texts,
        np.array([[0], [1], [1]]),
        requested=np.array([[1.0], [3.0], [2.0]]),
        ids=np.arange(3),
    )
    assert values[:, 0].tolist() == [1, 2, 3]


LINES = "".join(
    json.dumps(row) + "\n"
    for row in (
        {"id": 4, "text": ["a", "b", "c"], "gap": 10, "opened": "2024-02-27", "records": 3},
        {"id": 9, "text": ["d"], "gap": None, "opened": "2024-03-01", "records": 1},
        {"id": 2, "text": ["e", "f"], "gap": None, "opened": None, "records": 2},
    )
)
DATED = [
    *schema().model_dump(mode="json")["attributes"],
    {
        "name": "opened",
        "column": "day",
        "bins": [date(2024, 3, 1)],
        "span": [date(2024, 1, 1), date(2025, 1, 1)],
    },
]


def test_a_release_has_one_row_for_each_record_with_dates_of_the_mean_gap() -> None:
    own = schema(DATED)
    rows = [json.loads(line) for line in records_as_lines(LINES, own).splitlines()]
    assert [(row["person"], row["record"], row["text"]) for row in rows] == [
        (4, 1, "a"),
        (4, 2, "b"),
        (4, 3, "c"),
        (9, 1, "d"),
        (2, 1, "e"),
        (2, 2, "f"),
    ]
    assert [row["day"] for row in (rows[0], rows[2])] == ["2024-02-27", "2024-03-18"]
    assert rows[0]["day"] <= rows[1]["day"] <= rows[2]["day"]
    assert [row["days_since_first"] for row in rows[2:]] == [20, 0, 0, None]
    assert [row["day"] for row in rows[3:]] == ["2024-03-01", None, None]
    assert (
        records_as_lines(LINES, own).splitlines()[:3]
        == records_as_lines(LINES.split("\n")[0] + "\n", own).splitlines()
    )


def test_the_table_of_records_has_the_rows_of_the_lines_and_types() -> None:
    own = schema(DATED)
    table = records_table(LINES, own)
    rows = [json.loads(line) for line in records_as_lines(LINES, own).splitlines()]
    assert [column.name for column in table.columns] == list(rows[0])
    types = {column.name: column.type for column in table.columns}
    assert types["day"] == "date32" and types["text"] == "string" and types["gap"] == "int64"
    frame = json.loads(table.arrow.to_pandas().to_json(orient="records", date_format="iso"))
    assert [row["text"] for row in frame] == [row["text"] for row in rows]
    assert [row["gap"] for row in frame] == [row["gap"] for row in rows]


def test_without_attributes_for_dates_there_are_none() -> None:
    own = schema([{"name": "records", "column": "records", "values": ["1", "2", "3"]}])
    [row] = records_as_lines('{"id": 1, "text": ["a"], "records": 1}\n', own).splitlines()
    assert json.loads(row) == {"person": 1, "record": 1, "text": "a", "records": 1}
