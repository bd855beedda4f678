"""Tests that what a record gives to public figures depends on this record alone, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.embedding.vectors import unit
from sugarbush.errors import InvariantError
from sugarbush.quality.instruments import Instruments, IntegerClassifier

SCHEMA = Schema.model_validate(
    {
        "subject": "letters",
        "attributes": [
            {"name": "topic", "column": "topic", "values": ["a", "b", "c"]},
            {"name": "tone", "column": "tone", "values": ["calm", "angry"]},
            {"name": "rare", "column": "rare", "values": ["yes", "no"]},
        ],
    }
)
RNG = np.random.default_rng(3)
TEXTS = tuple(f"text {i}" for i in range(90))
VECTORS = unit(RNG.normal(size=(90, 16)))
CODES = np.stack([np.arange(90) % 3, np.arange(90) % 2, np.full(90, -1)], axis=1)


def instruments(codes: np.ndarray = CODES) -> Instruments:
    labels = Labels(
        codes=codes, confidence=np.ones(codes.shape), weights=np.ones(90), attributes=()
    )
    return Instruments(
        texts=TEXTS, labels=labels, schema=SCHEMA, embed=lambda texts: VECTORS, seed=1
    )


TOOLS = instruments()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_the_cells_of_a_record_do_not_depend_on_other_records(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = unit(rng.normal(size=(size, 16)))
    vectors[0] = VECTORS[0]  # a record that equals a released text
    codes = np.stack([rng.integers(-1, n, size) for n in (4, 3, 3)], axis=1)
    whole = TOOLS.cells_of_quality(vectors, codes)
    topics = TOOLS.topics.cells(vectors)
    for row in range(size):
        one = slice(row, row + 1)
        assert (TOOLS.cells_of_quality(vectors[one], codes[one]) == whole[one]).all()
        assert (TOOLS.topics.cells(vectors[one]) == topics[one]).all()
        assert (TOOLS.cells_of_records(codes[one]) == TOOLS.cells_of_records(codes)[one]).all()


def test_a_record_is_in_one_cell_of_coverage_and_of_each_attribute() -> None:
    cells = TOOLS.cells_of_quality(VECTORS, CODES)
    assert cells.shape == (90, TOOLS.quality_cells)
    assert (cells[:, 0] == 1).all()  # a released text is near itself
    for column in (1, 2):
        start = 2 + 4 * (column - 1)
        assert ((cells[:, column] >= start) & (cells[:, column] < start + 4)).all()
    assert (cells[:, 3] == -1).all()  # the release has no label of `rare`
    assert cells.max() < TOOLS.quality_size


def test_records_with_the_shares_of_the_release_are_at_distance_0() -> None:
    (topic,), (tone,), _, pairs = TOOLS.queries()
    assert topic.tolist() == [30_000, 30_000, 30_000, 0]
    assert tone.tolist() == [45_000, 45_000, 0]
    assert len(pairs) == len(TOOLS.pairs) == 1
    cells = TOOLS.cells_of_records(CODES)
    assert (np.bincount(cells[:, 3], minlength=12) * 1000 == pairs[0]).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_integer_classifiers_predict_as_the_model_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, offsets = 30 * rng.normal(size=(4, 16)), rng.normal(size=4)
    model = IntegerClassifier.of(weights, offsets, np.array([0, 2, 3, 7]))
    assert np.abs(model.weights).sum(axis=0).max() * 4100 < 2**53
    vectors = unit(rng.normal(size=(50, 16)))
    scores = np.rint(vectors.astype(float) * 4000) / 4000 @ weights.T + offsets
    clear = np.diff(np.sort(scores, axis=1))[:, -1] > 1e-3
    expected = np.array([0, 2, 3, 7])[scores.argmax(axis=1)]
    assert (model.predict(vectors)[clear] == expected[clear]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0])
def test_a_vector_that_is_not_a_unit_vector_is_refused(value: float) -> None:
    wrong = VECTORS[:2].copy()
    wrong[1, 0] = value
    model = IntegerClassifier.of(np.ones((2, 16)), np.zeros(2), np.array([0, 1]))
    with pytest.raises(InvariantError, match="unit vector"):
        model.predict(wrong)


@pytest.mark.parametrize("values", [1, 2, 3])
def test_a_classifier_learns_any_number_of_values(values: int) -> None:
    codes = np.arange(90) % values
    vectors = unit(VECTORS + 3 * np.eye(16, dtype=np.float32)[codes])
    model = IntegerClassifier.trained(vectors, codes + 1, seed=1)
    assert (model.predict(vectors) == codes + 1).mean() > 0.9


@pytest.mark.parametrize("size", [1, 2, 45])
def test_a_small_release_of_equal_texts_without_labels_can_be_measured(size: int) -> None:
    codes = np.full((size, 3), -1)
    labels = Labels(
        codes=codes, confidence=np.ones(codes.shape), weights=np.ones(size), attributes=()
    )
    vectors = np.repeat(VECTORS[:1], size, axis=0)
    tools = Instruments(
        texts=("a",) * size, labels=labels, schema=SCHEMA, embed=lambda texts: vectors, seed=1
    )
    tools.prepare()
    cells = tools.cells_of_quality(VECTORS[:3], CODES[:3])
    assert cells.tolist() == [[1, -1, -1, -1], [0, -1, -1, -1], [0, -1, -1, -1]]
    assert (tools.cells_of_records(CODES) == -1).all()
    assert [len(query) for query in tools.queries()] == [1, 1, 1, 1]
    assert (tools.topics.cells(VECTORS) == 0).all()


def test_a_large_release_is_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sugarbush.quality.instruments._MOST_TEXTS", 45)
    tools = instruments()
    tools.prepare()
    assert (tools.cells_of_quality(VECTORS, CODES)[:, 1] >= 2).all()


@pytest.mark.parametrize("dim", [16, 384])
@pytest.mark.parametrize("spread", [1.0, 1e-6])
def test_coverage_and_topics_are_decided_by_exact_distances(dim: int, spread: float) -> None:
    """A record is covered up to exactly the distance, alone and beside other records.

    The sums of squares in float64 of a slow loop decide. With a small `spread`, many texts are
    equally near except for the last bits, so a product of float32 matrices often finds another one.
    """
    rng = np.random.default_rng(dim)
    texts = unit(rng.normal(size=dim) + spread * rng.normal(size=(90, dim)))
    records = unit(rng.normal(size=(300, dim)))
    labels = Labels(
        codes=CODES, confidence=np.ones(CODES.shape), weights=np.ones(90), attributes=()
    )
    tools = Instruments(
        texts=TEXTS, labels=labels, schema=SCHEMA, embed=lambda texts_: texts, seed=1
    )
    tools.prepare()
    rows = texts.astype(np.float64)
    for record, row in enumerate(records.astype(np.float64)):
        exact = min(float((offset * offset).sum()) for offset in row - rows)
        for limit, covered in ((exact, 1), (float(np.nextafter(exact, 0)), 0)):
            assert tools.near is not None
            tools.near.__dict__["distances"] = np.full(len(texts), limit)
            several = np.roll(records, -record, axis=0)[:7]
            beside = tools.cells_of_quality(several, np.full((7, 3), -1))
            alone = tools.cells_of_quality(several[:1], np.full((1, 3), -1))
            assert beside[0, 0] == alone[0, 0] == covered
    centres = tools.topics.centres.astype(np.float64)
    apart = ((records.astype(np.float64)[:, None] - centres) ** 2).sum(axis=2)
    assert (tools.topics.cells(records)[:, 0] == apart.argmin(axis=1)).all()
