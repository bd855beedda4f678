"""Tests what one record gives to a profile: a function of this record alone, within its bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.data.records import Record
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.profiling.contributions import Reader
from sugarbush.profiling.layout import TERMS_OF_RECORD
from sugarbush.profiling.refinement import FinerBins
from sugarbush.profiling.terms import terms

COLUMNS = ("product", "stars", "when")
CELL = st.one_of(
    st.none(),
    st.text(max_size=100),
    st.integers(-(10**14), 10**14).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.dates().map(str),
    st.sampled_from(["", " ", "[1]", "{}", "2024-13-01", "0007", "1e99", "-0.0", "20240131"]),
)
TEXT = st.one_of(
    st.text(min_size=1, max_size=300),
    st.lists(
        st.sampled_from(
            ["late", "flight", "the", "parcel", "@ann", "12", "refund.", "Hello\n", "Agent:"]
        )
    )
    .map(" ".join)
    .filter(bool),
)
RECORD = st.builds(
    lambda text, cells, number: Record(number, str(number), text, tuple(cells), f"u{number % 5}"),
    TEXT,
    st.lists(CELL, min_size=3, max_size=3),
    st.integers(0, 20),
)
SAID = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), TEXT.filter(str.strip)), min_size=1, max_size=40
)
SHAPES = {
    name: TextForm.model_validate(form).shape
    for name, form in {
        "chat": {"conversation": {"roles": ["a", "b"]}},
        "fields": {"fields": ["a", "b"], "optional": ["a"]},
        "json": {
            "json_schema": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": "array", "items": {"type": "string"}},
                    "kind": {"enum": ["x", "y"]},
                },
            }
        },
    }.items()
}


def row_of(name: str, said: list[tuple[str, str]]) -> dict[str, Any]:
    """Return a row of a shape with these contents."""
    if name == "chat":
        return {"messages": [{"role": role, "content": text} for role, text in said]}
    texts = [text.replace("\0", "") for _, text in said]
    if name == "fields":
        return {"a": texts[0] if len(texts) > 1 else None, "b": texts[-1]}
    return {"a": texts[0], "b": texts[1:], "kind": "x"}


OF_USER = {f"u{number}": number * 3 + 1 for number in range(5)}


def read(records: list[Record], by_user: bool) -> Reader:
    reader = Reader(COLUMNS, by_user=by_user, key=b"key")
    for record in records:
        reader.read([record], of_user=OF_USER if by_user else None)
    return reader


@settings(max_examples=200)
@given(RECORD, st.booleans())
def test_a_record_is_within_the_bounds_of_every_mechanism(record: Record, by_user: bool) -> None:
    reader = read([record], by_user)
    found = reader.contributions()
    groups = (
        (found.sizes, reader.sizes),
        (found.style, reader.style),
        (found.columns, reader.columns),
    )
    for private, group in groups:
        (row,) = private._per_unit.tolist()
        inside = [cell for cell in row if cell != -1]
        assert len(row) == group.cells
        assert len(set(inside)) == len(inside)
        assert all(0 <= cell < group.size for cell in inside)
        bins = [
            sum(h.start <= cell < h.start + h.size for cell in inside) for h in group.histograms
        ]
        assert max(bins) <= 1, "a record is in at most one bin of each histogram"
    (values,), (items,) = found.values._per_unit, found.terms._per_unit
    assert len(values) == len(set(values)) <= len(COLUMNS)
    assert len(items) == len(set(items)) <= TERMS_OF_RECORD


@settings(max_examples=100)
@given(st.sampled_from([*SHAPES]), st.lists(SAID, min_size=1, max_size=4), st.booleans())
def test_a_record_with_a_shape_is_in_one_bin_of_each_length(
    name: str, rows: list[list[tuple[str, str]]], by_user: bool
) -> None:
    """However many turns a conversation has, it counts once. Other records change nothing."""
    shape = SHAPES[name]
    records = []
    for number, said in enumerate(rows):
        text = shape.text_of(row_of(name, said))
        records.append(Record(number, str(number), text, (None,) * 3, f"u{number}"))
    of_user = OF_USER if by_user else None
    together = Reader(COLUMNS, by_user=by_user, key=b"key", shape=shape)
    together.read(records, of_user=of_user)
    for number, record in enumerate(records):
        alone = Reader(COLUMNS, by_user=by_user, key=b"key", shape=shape)
        alone.read([record], of_user=of_user)
        (cells,) = alone.contributions().sizes._per_unit.tolist()
        assert len(cells) == alone.sizes.cells == len(alone.sizes.histograms)
        for cell, histogram in zip(sorted(cells), alone.sizes.histograms, strict=True):
            assert histogram.start <= cell < histogram.start + histogram.size
        found = together.contributions()
        assert found.sizes._per_unit[number].tolist() == cells
        assert found.terms._per_unit[number] == alone.contributions().terms._per_unit[0]
        assert len(found.terms._per_unit[number]) <= TERMS_OF_RECORD


@settings(max_examples=60)
@given(st.lists(RECORD, min_size=1, max_size=6), st.booleans())
def test_other_records_change_nothing(records: list[Record], by_user: bool) -> None:
    together = Reader(COLUMNS, by_user=by_user, key=b"key")
    together.read(records, of_user=OF_USER if by_user else None)
    alone = read(records, by_user)
    for name in ("sizes", "style", "columns", "quantities"):
        one, other = (getattr(r.contributions(), name)._per_unit for r in (together, alone))
        assert np.array_equal(one, other, equal_nan=name == "quantities")
    for name in ("values", "terms"):
        one, other = (getattr(r.contributions(), name)._per_unit for r in (together, alone))
        assert one == other
    found = together.contributions()
    by_value = found.terms_by_value("product")._per_unit
    assert [len(row) for row in by_value] == [
        len(r) for r in together.contributions().terms._per_unit
    ]


EDGES = st.lists(
    st.floats(-1e12, 1e12, allow_subnormal=False), min_size=2, max_size=9, unique=True
).map(lambda edges: np.array(sorted(edges)))


@settings(max_examples=200)
@given(
    st.lists(RECORD, min_size=1, max_size=4),
    st.dictionaries(st.integers(0, 2 * len(COLUMNS) - 1), EDGES, max_size=len(COLUMNS)),
)
def test_a_record_is_in_one_finer_bin_of_each_histogram_and_others_change_nothing(
    records: list[Record], edges: dict[int, Any]
) -> None:
    bins = FinerBins(edges=edges, histograms=len(COLUMNS))
    quantities = read(records, by_user=False).contributions().quantities
    rows = quantities.map_batch(bins.cells)._per_unit
    assert rows.shape == (len(records), len(COLUMNS))
    ends = np.cumsum([0, *(len(own) - 1 for own in edges.values() for _ in range(bins.copies))])
    assert len(ends) - 1 <= len(COLUMNS) and ends[-1] == bins.size
    for row, record, own in zip(rows, records, quantities._per_unit, strict=True):
        inside = row[row >= 0]
        assert (inside < bins.size).all()
        histograms = np.searchsorted(ends, inside, side="right")
        assert len(set(histograms.tolist())) == len(inside)
        alone = read([record], by_user=False).contributions().quantities.map_batch(bins.cells)
        assert np.array_equal(alone._per_unit[0], row)
        counts = np.bincount(inside, minlength=bins.size)
        for number, means in bins.means(counts).items():
            low, high = edges[number][0], edges[number][-1]
            assert means.sum() == float(low <= own[number] < high)


@settings(max_examples=100)
@given(TEXT)
def test_terms_have_no_number_and_nothing_that_the_redactor_finds(text: str) -> None:
    for term in terms(f"{text} Mail ann.lee@example.com or call +44 20 7946 0958", key=b"key"):
        assert not any(character.isdigit() for character in term)
        assert "ann" not in term.split()
        assert len(term.split()) <= 2
