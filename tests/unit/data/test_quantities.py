"""Tests of numbers and dates in bins: what a cell means, what is refused, what is drawn."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sugarbush.data.quantities import CellError, Kind, Quantity
from sugarbush.data.schema import Attribute, Schema, load_schema, schema_of
from sugarbush.errors import SchemaError
from tests.settings import ROOT

STARS = {"bins": [2, 4], "type": "integer", "span": [1, 5]}
PRICE = {"bins": [10, 20], "type": "number", "span": [0, 50]}
DAY = {"bins": ["2024-04-01", "2024-07-01"], "span": ["2024-01-01", "2024-12-31"]}
MOMENT = {
    "bins": ["2024-07-01T00:00:00Z"],
    "span": ["2024-01-01T00:00:00Z", "2024-12-31T00:00:00Z"],
}
NAIVE = {"bins": ["2024-07-01T00:00:00"], "span": ["2024-01-01T00:00:00", "2024-12-31T00:00:00"]}


def attribute(fields: dict[str, Any], **more: Any) -> Attribute:
    return Attribute(**{"name": "x", "column": "x", **fields, **more})


def value(fields: dict[str, Any], cell: object, **more: Any) -> Any:
    quantity = attribute(fields, **more).quantity
    assert quantity is not None
    number = quantity.number_of(cell)
    return None if number is None else quantity.value(number)


@pytest.mark.parametrize(
    "cell, expected",
    [
        ("12.5", 12.5), ("1e1", 10.0), (7, 7.0), (" 12 ", 12.0), ("$12.50", 12.5), ("12 €", 12.0),
        ("1,234.50", 1234.5), ("1.234,50", 1234.5), ("12,5", 12.5), ("-3", -3.0),
        ("0,125", 0.12), ("1,234,567", 1234567.0),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(cell: object, expected: float) -> None:
    assert value(PRICE, cell, decimals=2) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-05", "2024/03/05", "2024-3-5", "20240305", "5.3.2024", "05.03.2024",
        "5 March 2024", "March 5, 2024", "Mar 5 2024", "5-Mar-2024", "5th of March 2024",
        "5. März 2024", "5 de marzo de 2024", "2024-03-05 17:30", "2024-03-05T23:59:59Z",
        "20240305.0", "2024-03-05 5:30 pm", "2024-03-05T23:00:00-08:00",
    ],
)  # fmt: skip
def test_dates_as_people_write_them(text: str) -> None:
    assert value(DAY, text) == date(2024, 3, 5)


def test_day_and_month_are_told_apart_where_one_is_above_twelve() -> None:
    assert value(DAY, "25/12/2024") == value(DAY, "12/25/2024") == date(2024, 12, 25)
    assert value(DAY, "06/06/2024") == date(2024, 6, 6)
    assert value(DAY, "03/04/2024", format="%d/%m/%Y") == date(2024, 4, 3)
    assert value(DAY, "03/04/24", format="%m/%d/%y") == date(2024, 3, 4)


def test_moments_are_compared_in_one_time_zone() -> None:
    assert value(MOMENT, "2024-07-01T01:00:00+02:00") == datetime(2024, 6, 30, 23, tzinfo=UTC)
    assert value(NAIVE, "2024-07-01 01:00") == datetime(2024, 7, 1, 1)
    assert value(NAIVE, date(2024, 7, 1)) == datetime(2024, 7, 1)


@pytest.mark.parametrize("cell", [None, "", " ", "nan", "NaN", float("nan"), "unknown", "-"])
@pytest.mark.parametrize("fields", [STARS, PRICE, DAY])
def test_a_missing_value_is_in_the_bucket(fields: dict[str, Any], cell: object) -> None:
    own = attribute(fields, missing=["unknown", "-"])
    assert own.problem(cell) is None
    assert own.domain[own.code(cell)] == "other"


SECRET = "83.7 for Ann Miller"


@pytest.mark.parametrize(
    "fields, cell, message",
    [
        (STARS, SECRET, "is no number"), (STARS, "4.5", "is no whole number"),
        (STARS, "two", "is no number"), (STARS, True, "is no number"), (STARS, "$", "is no number"),
        (STARS, 2.0**60, "is too large"), (PRICE, "inf", "is infinite"),
        (PRICE, float("-inf"), "is infinite"), (PRICE, "1,234", "two numbers"),
        (PRICE, "1_000", "is no number"), (DAY, SECRET, "is no date"),
        (DAY, "2024-02-31", "no date"),
        (DAY, "02/03/2024", "two dates"), (DAY, "1.2.24", "is no date"), (DAY, 17.5, "is no date"),
        (DAY, "2024-03-05 noon", "is no date"),
        (MOMENT, "2024-07-01 01:00", "has no time zone"),
    ],
)  # fmt: skip
def test_a_wrong_cell_is_named_and_never_quoted(
    fields: dict[str, Any], cell: object, message: str
) -> None:
    problem = attribute(fields).problem(cell)
    assert problem is not None and message in problem
    if cell == SECRET:
        assert not set(re.findall(r"\w+", SECRET)) & set(re.findall(r"\w+", problem))
    with pytest.raises(CellError):
        value(fields, cell)


def test_a_time_zone_without_one_in_the_bins_is_refused() -> None:
    problem = attribute(NAIVE).problem("2024-07-01T01:00:00+02:00")
    assert problem is not None and "has a time zone" in problem


def test_a_format_is_the_only_form() -> None:
    own = attribute(DAY, format="%d/%m/%Y")
    assert own.problem("2024-03-05") == "does not have the format %d/%m/%Y"


@pytest.mark.parametrize("fields", [STARS, PRICE, DAY, MOMENT])
def test_every_value_of_a_bin_is_drawn_and_no_other(fields: dict[str, Any]) -> None:
    own = attribute(fields)
    quantity = own.quantity
    assert quantity is not None
    shares = np.concatenate([np.linspace(0, 1, 2000, endpoint=False), [np.nextafter(1, 0)]])
    for code, (first, last) in enumerate(quantity.ranges):
        drawn = quantity.draw(np.full(len(shares), code), shares)
        assert {own.code(quantity.spelled(number)) for number in drawn.tolist()} == {code}
        assert [quantity.drawn(code, share) for share in shares] == drawn.tolist()
        points = np.unique(np.round(drawn * 10 ** (2 if own.kind is Kind.NUMBER else 0)))
        assert len(points) == min(last - first + 1, len(points))
        assert quantity.contains(np.full(len(drawn), code), drawn).all()
        assert drawn.min() >= quantity.low and drawn.max() <= quantity.high
    stars = attribute(STARS).quantity
    assert stars is not None
    counts = np.bincount(stars.draw(np.ones(2001, dtype=int), shares).astype(int))[2:4]
    assert abs(counts[0] - counts[1]) <= 1, "both integers of the bin are equally likely"


def test_no_value_is_drawn_without_a_bin() -> None:
    quantity = attribute(STARS).quantity
    assert quantity is not None
    drawn = quantity.draw(np.array([-1, 3, 0]), np.full(3, 0.5))
    assert np.isnan(drawn).tolist() == [True, True, False]


def test_values_outside_the_span_are_in_the_outer_bins() -> None:
    own = attribute(STARS)
    assert [own.domain[own.code(cell)] for cell in ("-7", "99")] == ["below 2", "4 and above"]


def test_names_of_bins() -> None:
    assert attribute(DAY).domain == (
        "before 2024-04-01", "2024-04-01 to before 2024-07-01", "2024-07-01 and later", "other",
    )  # fmt: skip
    large = Attribute(name="x", column="x", bins=[1_000_001, 1_000_002])
    assert large.domain[:2] == ("below 1000001", "1000001 to below 1000002")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"bins": [2, 4], "type": "integer"}, "needs span"),
        ({"bins": ["2024-01-01"]}, "needs span"),
        ({"bins": [2, 4], "span": [1, 5]}, "span needs type"),
        ({"bins": [2, 4], "missing": ["-"]}, "missing needs type"),
        ({"bins": [2, 4], "type": "date", "span": [1, 5]}, "does not fit"),
        ({"bins": ["2024-01-01"], "type": "integer", "span": [1, 5]}, "all numbers, all dates"),
        ({"bins": [2, 4], "type": "integer", "span": [2, 5]}, "begin below the first edge"),
        ({"bins": [2, 4], "type": "integer", "span": [1, 3]}, "end at or above"),
        ({"bins": [2.2, 2.4], "type": "integer", "span": [1, 5]}, "contains no value"),
        ({"bins": [2, 4], "type": "integer", "span": [1, 5], "decimals": 2}, "decimals needs"),
        ({"bins": [2, 4], "type": "integer", "span": [1, 5], "format": "%d"}, "format needs dates"),
        ({"bins": ["two"], "type": "integer", "span": [1, 5]}, "numbers or dates"),
        ({"bins": [float("inf")], "type": "number", "span": [1, 5]}, "finite"),
        ({"values": ["1"], "type": "integer"}, "type needs bins"),
        ({"bins": ["2024-01-01T00:00:00Z"], "span": ["2023-01-01", "2025-01-01"]}, "all datetimes"),
    ],
)
def test_a_wrong_declaration_is_explained(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)):
        attribute(fields)


def test_a_schema_survives_json() -> None:
    columns = [
        {"name": f"a{i}", "column": "x", **own} for i, own in enumerate((STARS, PRICE, DAY, MOMENT))
    ]
    schema = schema_of({"subject": "letters", "attributes": columns}, source="x")
    assert Schema.model_validate(schema.model_dump(mode="json")) == schema


@pytest.mark.parametrize("page", ["how-to/own-data.md", "how-to/your-data-formats.md"])
def test_the_schemas_of_the_docs_load(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    schemas = [
        block for block in re.findall(r"```yaml\n(.*?)```", text, re.S) if "attributes:" in block
    ]
    assert schemas or page != "how-to/own-data.md"
    for block in schemas:
        (tmp_path / "schema.yaml").write_text(block, encoding="utf-8")
        assert load_schema(tmp_path / "schema.yaml").attributes


@pytest.mark.parametrize(
    "kind, text, expected",
    [
        (Kind.INTEGER, "I give it two stars, 14 days after 3.5 calls.", [14, 2]),
        (Kind.INTEGER, "Ich gebe zwei Sterne.", [2]),
        (Kind.INTEGER, "Le doy dos estrellas.", [2]),
        (Kind.INTEGER, "Model X200 and A4, v1.2.3", []),
        (Kind.NUMBER, "It cost $19.99, not 20,50.", [19.99, 20.5]),
    ],
)
def test_numbers_in_a_text(kind: Kind, text: str, expected: list[float]) -> None:
    quantity = Quantity(kind=kind, edges=(1,), low=0, high=99, decimals=2)
    assert quantity.numbers_in(text) == expected


def test_dates_in_a_text() -> None:
    quantity = attribute(DAY).quantity
    assert quantity is not None
    text = "Bought on 5 March 2024, broken on 2024-04-06. Order 20249999, 02/03/2024."
    assert [quantity.value(n) for n in quantity.numbers_in(text)] == [
        date(2024, 3, 5),
        date(2024, 4, 6),
    ]
