"""Tests that values keep their spelling from the data to a profile, its schema and a table."""

from __future__ import annotations

import decimal
import enum
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.api.tables import _bins, _listing_of, _table_codes, _table_schema
from sugarbush.errors import InputError, ParamsError, PrivateFactWarning, SchemaError

N = 300
SPENT: dict[str, Any] = {"privacy": sb.Privacy(epsilon=20, delta=1e-6, dataset="letters", cap=100)}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"


def nothing_was_charged(state: Path) -> bool:
    return not any(state.rglob("*ledger*/*")) and not any(state.rglob("*.jsonl"))


KINDS = pd.Series([1, 2, 3] * 100)
NAMES = KINDS.map({1: "a", 2: "b", 3: "c"})
DAYS = pd.Series(pd.to_datetime("2024-01-01") + pd.to_timedelta(KINDS, "D"))
Named = enum.Enum("Named", "a b c")


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (KINDS, [1, 2, 3, "other"]), (KINDS, ["1", "2", "3", "other"]),
        (KINDS, ["1.0", "2.0", "3.0", "other"]), (KINDS.astype(float), [1, 2, 3, "other"]),
        (KINDS.astype(float).astype(str), [1, 2, 3, "other"]), (KINDS.to_numpy(), [1, 2, 3, None]),
        (KINDS.astype("Int64"), [1.0, 2.0, 3.0, "x"]), (list(KINDS), (1, 2, 3, "other")),
        (KINDS.map(decimal.Decimal), [1, 2, 3, "other"]), (KINDS, pd.Index([1, 2, 3, 99])),
        (KINDS.astype("float32") / 10, [0.1, 0.2, 0.3, "other"]),
        (NAMES, ["a", "b", "c", "other"]), (NAMES.astype("category"), ["a", "b", "c", "other"]),
        (NAMES.map({"a": "a ", "b": " B", "c": "C"}), ["a", "b", "c", "other"]),
        (NAMES.map(str.encode), ["a", "b", "c", "other"]), (iter(NAMES), ["a", "b", "c", "other"]),
        (NAMES.map(lambda name: Named[name]), ["a", "b", "c", "other"]),
        (NAMES.astype("string[pyarrow]").array, ["a", "b", "c", "other"]),
        (DAYS, ["2024-01-02", "2024-01-03", "2024-01-04", "other"]),
        (DAYS, [*map(pd.Timestamp, ["2024-01-02", "2024-01-03", "2024-01-04"]), "other"]),
        (DAYS.dt.date, ["2024-01-02", "2024-01-03", "2024-01-04", "other"]),
        (DAYS.dt.strftime("%Y-%m-%d 00:00:00"), [*DAYS[:3], "other"]),
        (NAMES.map({"a": "caf\u00e9", "b": "cafe\u0301s", "c": None}),
         ["cafe\u0301", "caf\u00e9s", None, "other"]),
    ],
)  # fmt: skip
def test_a_histogram_counts_each_value_in_its_category(values: Any, categories: Any) -> None:
    from sugarbush.data.cells import cells_of

    codes = _bins(cells_of(values), _listing_of(list(categories)))
    assert np.bincount(codes, minlength=4).tolist() == [100, 100, 100, 0]


def test_a_missing_value_stays_none_in_the_index_of_a_histogram(state: Path) -> None:
    categories = ["a", None, "other"]
    counts = sb.private_histogram(
        ["a", None] * N, categories=categories, state=state, **SPENT
    ).value
    assert counts.index.tolist() == ["a", None, "other"]


def test_booleans_and_numbers_are_different_categories() -> None:
    listing = _listing_of([True, 1, "other"])
    assert _bins([True, 1, 1.0, "true", "1", False], listing).tolist() == [0, 1, 1, 0, 1, 2]


def test_a_histogram_of_values_with_gaps_counts_the_gaps_last(state: Path) -> None:
    values = KINDS.astype(float).mask(KINDS == 3)
    counts = sb.private_histogram(values, categories=[1, 2, "other"], state=state, **SPENT).value
    assert list(counts.index) == [1, 2, "other"]
    assert np.allclose(counts, 100, atol=20)


@pytest.mark.parametrize(
    ("values", "categories", "error"),
    [
        (["1", "2"], ["x", "y", "other"], SchemaError), (["02139"], [2139, "other"], SchemaError),
        ([1, 2], [1, "1", "other"], ParamsError), ([1, 2], [1, 1.0], ParamsError),
        ([1, 2], ["a b", "a  b", "other"], ParamsError), ([1, 2], [], ParamsError),
        ([1, 2], [None, float("nan"), 1], ParamsError), ("aab", ["a", "b"], ParamsError),
        ({"a": 1}, ["a", "b"], ParamsError), (pd.DataFrame({"a": [1]}), ["a"], ParamsError),
        ([None, None], ["a", "other"], SchemaError),
    ],
)  # fmt: skip
def test_a_histogram_that_would_count_nothing_is_refused_before_the_charge(
    values: Any, categories: Any, error: type[Exception], state: Path
) -> None:
    with pytest.raises(error):
        sb.private_histogram(values, categories=categories, state=state, **SPENT)
    assert nothing_was_charged(state)


def schema(**attribute: Any) -> dict[str, Any]:
    return {"subject": "letters", "attributes": [{"name": "a", "column": "a", **attribute}]}


def test_categories_and_listed_values_that_no_row_has_are_named_before_the_charge(
    state: Path,
) -> None:
    frame = pd.DataFrame({"a": ["x", "y"] * N})
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivateFactWarning)
        for call in (
            lambda: sb.dp_table(frame, schema=schema(values=["x", "Z", "y"]), state=state, **SPENT),
            lambda: sb.private_histogram(frame["a"], categories=["x", "Z", "w"], state=state,
                                         **SPENT),
        ):  # fmt: skip
            with pytest.raises(PrivateFactWarning, match="no row has these listed values: 'Z'"):
                call()
    assert nothing_was_charged(state)
    with pytest.warns(PrivateFactWarning, match="'Z'"):
        sb.dp_table(frame, schema=schema(values=["x", "Z", "y"]), state=state, **SPENT)


@pytest.mark.parametrize("labels", [[0, 1], [0, "a"], ["a", 7], [1.5, "a"], [("a", "b"), "a"]])
def test_a_frame_may_have_any_column_labels(labels: list[Any], state: Path) -> None:
    frame = pd.DataFrame([["x", "y"]] * N + [["y", "x"]] * N)
    frame.columns = pd.Index(labels, tupleize_cols=False)
    for label in labels:
        table = sb.dp_table(
            frame, schema=schema(values=["x", "y"]) | {"attributes": [
                {"name": "a", "column": label if isinstance(label, int) else str(label),
                 "values": ["x", "y"]}]}, state=state, **SPENT,
        )  # fmt: skip
        assert set(table.value["a"]) >= {"x", "y"}


def test_two_columns_with_one_name_are_refused(state: Path) -> None:
    frame = pd.DataFrame([["x", "y"]] * N, columns=[1, 2]).rename(columns={2: "1"})
    with pytest.raises(InputError, match="several columns '1'"):
        sb.dp_table(frame, schema=schema(values=["x", "y"]) | {"attributes": [
            {"name": "a", "column": 1, "values": ["x", "y"]}]}, state=state, **SPENT)  # fmt: skip
    assert nothing_was_charged(state)


BINS = {"bins": [10, 500, 1000, 2000], "type": "number", "span": [-100, 5000]}


def codes(cells: list[Any], **more: Any) -> list[int]:
    own = _table_schema(schema(**{**BINS, **more}))
    return [int(code) for code in _table_codes(pd.DataFrame({"a": cells}), own)[:, 0]]


@pytest.mark.parametrize(
    ("cells", "decimal", "expected"),
    [
        (["1.234,50", "1.234", "999,90", "12,00"], ",", [3, 3, 2, 1]),
        (["1.234", "1.500", "900"], ",", [3, 3, 2]), (["1.234", "1.500", "900"], ".", [0, 0, 2]),
        (["1,234.50", "1,234", "999.90"], ".", [3, 3, 2]),
        (["1.234", "12.5", "900"], None, [0, 1, 2]), ([1.234, 1.5], None, [0, 0]),
        ([1.234, "1.234"], ",", [0, 3]),
        ([np.float32(1.25), decimal.Decimal("1.250")], ",", [0, 0]),
        (["1'234.50", "1\u2019234.50"], None, [3, 3]), (["1\u202f234,50 \u20ac"], None, [3]),
        (["1\u2009234,5", "1\u00a0234"], None, [3, 3]), (["(12.00)", "($12.00)"], None, [0, 0]),
        (["\u221212.5", "\u2212 12,5", "12.50-"], None, [0, 0, 0]),
        (["$1,234.50", "$ 5", "EUR 1.234,50", "1.234,50 CHF"], None, [3, 0, 3, 3]),
        (["1.234.567", "1,23,456.78"], None, [4, 4]), (["1e3", "1.5e+02"], None, [3, 1]),
        (["0.125", "0,125", "1234.567"], None, [0, 0, 3]), (["\uff11\uff12"], None, [1]),
    ],
)  # fmt: skip
def test_a_number_is_read_with_the_decimal_sign_of_its_column(
    cells: list[Any], decimal: str | None, expected: list[int]
) -> None:
    more = {} if decimal is None else {"decimal": decimal}
    assert codes(cells, **more) == expected
    own = _table_schema(schema(**BINS, **more)).attributes[0]
    assert [own.code(own.raw(cell)) for cell in cells] == expected, "as the pipeline stores it"
    assert codes(cells, type=None, span=None, **more) == expected, "bins without a type"


@pytest.mark.parametrize(
    "cell", ["10\u00b2", "\u00b2", "1\u2075", "\u2460", "5\u2082", "\u2167", "\u00bd"]
)
def test_raised_digits_are_no_digits_of_a_number(cell: str, state: Path) -> None:
    with pytest.raises(InputError, match="is no number"):
        sb.dp_table(
            pd.DataFrame({"a": [cell, "7"] * N}), schema=schema(**BINS), state=state, **SPENT
        )
    assert nothing_was_charged(state)


@pytest.mark.parametrize("form", [BINS, BINS | {"type": "integer"}, {"bins": [10, 500]}])
@pytest.mark.parametrize(
    "cells",
    [
        ["1.234,50", "1.234"], ["1.234", "1.500", "900"], ["1,234.50", "1,234", "999.90"],
        ["1,234"], ["1.234", "12.5", "12,5"], ["1.234", "1 234,5"], ["\u20ac 1.234", "3"],
    ],
)  # fmt: skip
def test_an_open_decimal_sign_is_refused_before_the_charge(
    cells: list[str], form: dict[str, Any], state: Path
) -> None:
    frame = pd.DataFrame({"a": cells * N})
    with pytest.raises(InputError) as error:
        sb.dp_table(frame, schema=schema(**form), state=state, **SPENT)
    assert "two" in str(error.value) or "whole number" in str(error.value)
    assert not [cell for cell in cells if cell not in ("1.234", "1,234") and len(cell) > 3
                and cell in str(error.value)]  # fmt: skip
    assert nothing_was_charged(state)


def test_one_record_never_changes_how_another_record_is_read() -> None:
    """Removing a record either leaves the codes of the others, or refuses all rows."""
    for cells in (["1.234", "12.5", "900"], ["1.234,50", "1.234", "9"], ["1.234", "0,5", "0.5"]):
        read: dict[str, set[int]] = {}
        for left_out in range(-1, len(cells)):
            rest = [cell for at, cell in enumerate(cells) if at != left_out]
            try:
                for cell, code in zip(rest, codes(rest), strict=True):
                    read.setdefault(cell, set()).add(code)
            except InputError:
                continue
        assert all(len(found) == 1 for found in read.values())


CODES = [
    ["250.00", "250.0", "401.9", "V70"], ["1.10", "1.1", "1.9", "2"], ["007", "7", "12"],
    ["1E3", "2E5", "A77"], ["+1", "-1", "0"], ["5", "9.90", "10"], ["TRUE", "FALSE"],
    ["1.0", "4.0", "5.0"], ["9.90", "19.90", "49.00"], ["1,000", "2,000", "500"],
    ["9,90 \u20ac", "19,90 \u20ac"], ["01", "02", "10"],
]  # fmt: skip
TYPED = [[1.0, 4.0, 5.5], [True, False], [1, 2, 30], [9.9, 19.9, 49.0]]


def as_file(cells: list[Any]) -> list[Any]:
    """The cells as pandas reads them back from a csv file as text."""
    text = pd.DataFrame({"a": cells}).to_csv(index=False)
    return list(pd.read_csv(io.StringIO(text), dtype=str)["a"])


@pytest.mark.slow
def test_a_paid_profile_drafts_values_that_its_own_rows_have(state: Path) -> None:
    """From one profile of many columns to its schema and a table, without an unmatched value."""
    rng = np.random.default_rng(0)
    columns = {f"c{n}": [values[i] for i in rng.integers(0, len(values), 4000)]
               for n, values in enumerate([*CODES, *TYPED])}  # fmt: skip
    columns |= {f"f{n}": as_file(columns[f"c{len(CODES) + n}"]) for n in range(len(TYPED))}
    frame = pd.DataFrame({"text": [f"the lamp {i} is late" for i in range(4000)], **columns})
    profile = sb.profile(
        frame, text="text", state=state, epsilon=4.0,
        privacy=sb.Privacy(epsilon=10, delta=1e-6, dataset="codes", cap=20),
    )  # fmt: skip
    profile.save(state / "saved", subject="letters")
    drafted = sb.open_schema(state / "saved" / "schema.yaml")
    assert drafted == profile.schema("letters")
    by_column = {attribute.column: attribute for attribute in drafted.attributes}
    for n, values in enumerate(CODES):
        assert set(by_column[f"c{n}"].values) == set(values)
    read = _table_codes(frame, _table_schema(drafted))
    for place, attribute in enumerate(drafted.attributes):
        assert len(set(read[:, place])) == len(attribute.domain) - 1
        assert (read[:, place] < len(attribute.domain) - 1).all()
    few = drafted.model_copy(update={"attributes": drafted.attributes[:2]})
    table = sb.dp_table(
        frame,
        schema=few,
        state=state,
        privacy=sb.Privacy(epsilon=4, delta=1e-6, dataset="table", cap=100),
    ).value
    for n, values in enumerate(CODES[:2]):
        assert set(table[by_column[f"c{n}"].name]) - {"other"} == set(values)
