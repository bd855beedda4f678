"""Tests that what a record gives to a fit depends on this record alone, and what a fit says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.embedding.vectors import unit
from sugarbush.errors import InvariantError
from sugarbush.evaluation.fit import CELLS, UNIT, Centre, NearTexts, ShareInterval, steps_of

RNG = np.random.default_rng(7)
DIM = 24


def around(centre: np.ndarray, count: int, *, spread: float, seed: int = 1) -> np.ndarray:
    """Return unit vectors around a centre."""
    noise = np.random.default_rng(seed).normal(size=(count, DIM)) / np.sqrt(DIM)
    return unit(centre + spread * noise)


HERE, THERE = np.eye(DIM)[0], np.eye(DIM)[1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0, 1e6))
def test_a_record_adds_at_most_the_stated_length(seed: int, size: int, length: float) -> None:
    rng = np.random.default_rng(seed)
    rows = length * unit(rng.normal(size=(size, DIM))).astype(np.float64)
    steps = steps_of(rows).astype(np.int64)
    assert steps.shape == (size, DIM + 1)
    assert ((steps * steps).sum(axis=1) <= UNIT**2).all()
    alone = np.concatenate([steps_of(rows[i : i + 1]) for i in range(size)])
    assert (steps == alone).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(2, 60))
def test_the_cell_of_a_record_does_not_depend_on_other_records(
    seed: int, records: int, texts: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, near = unit(rng.normal(size=(records, DIM))), unit(rng.normal(size=(texts, DIM)))
    rows[0] = near[0]
    tools = NearTexts(embeddings=near, random=0.1)
    whole = tools.cells(rows)
    assert set(whole.tolist()) <= {0, 1}
    alone = [tools.cells(rows[i : i + 1])[0] for i in range(records)]
    assert whole.tolist() == alone
    order = rng.permutation(records)
    assert (tools.cells(rows[order]) == whole[order]).all()


def test_a_record_has_one_cell_of_each_attribute() -> None:
    tools = NearTexts(embeddings=around(HERE, 50, spread=1))
    near = np.array([0, 1, 1], dtype=np.int32)
    codes = np.array([[0, 2], [1, 0], [-1, 1]])
    cells = tools.cells_by_value(near, codes, [2, 3])
    assert cells.tolist() == [[0, 8], [3, 5], [-1, 7]]
    assert cells.max() < CELLS * (2 + 3)


def test_records_of_the_same_distribution_are_near() -> None:
    records, texts = around(HERE, 500, spread=1), around(HERE, 200, spread=1, seed=2)
    assert NearTexts(embeddings=texts).cells(records).mean() > 0.5


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_records_of_another_kind_are_far(spread: float) -> None:
    records, texts = around(HERE, 500, spread=1), around(THERE, 200, spread=spread, seed=2)
    assert NearTexts(embeddings=texts, random=0.5).cells(records).mean() < 0.02


def test_scattered_texts_are_not_near_because_they_are_far_from_each_other() -> None:
    """Without the scale of the records, every record would be near some scattered text."""
    records, texts = around(HERE, 500, spread=0.5), unit(RNG.normal(size=(200, DIM)))
    assert NearTexts(embeddings=texts).cells(records).mean() > 0.5
    random = float((records @ records.T).mean())
    assert NearTexts(embeddings=texts, random=random).cells(records).mean() < 0.02


def test_texts_that_repeat_each_other_are_near_to_records_that_are_very_similar() -> None:
    records, texts = around(HERE, 500, spread=0.4), around(HERE, 200, spread=0.02, seed=2)
    assert NearTexts(embeddings=texts).cells(records).mean() < 0.02
    assert NearTexts(embeddings=texts, random=0.2).cells(records).mean() > 0.95


def test_a_few_texts_of_the_kind_among_many_others_are_found() -> None:
    """Texts of the kind decide what is near among themselves: dense others change nothing."""
    records = around(HERE, 500, spread=1)
    own, others = around(HERE, 20, spread=1, seed=2), around(THERE, 400, spread=0.1, seed=3)
    mixed = NearTexts(embeddings=np.concatenate([own, others]))
    assert mixed.cells(records).mean() > 0.3


@pytest.mark.parametrize("copies", [1, 2, 30])
def test_copies_of_one_text_are_one_text(copies: int) -> None:
    texts = np.repeat(around(HERE, 1, spread=0), copies, axis=0)
    tools = NearTexts(embeddings=texts, random=0.2)
    assert tools.cells(texts[:1]).tolist() == [1]
    assert tools.cells(around(THERE, 5, spread=0)).tolist() == [0] * 5


def test_a_fit_needs_texts() -> None:
    with pytest.raises(InvariantError, match="needs texts"):
        NearTexts(embeddings=around(HERE, 1, spread=1)[:0])


def test_the_centre_tells_the_similarity_of_random_records_without_the_noise() -> None:
    """400 noisy sums: the error that is stated contains 95% of the errors (false alarm: 1e-4)."""
    records = around(HERE, 1600, spread=1)
    true = float(np.square(records.astype(np.float64).mean(axis=0)).sum())
    exact, rng = steps_of(records).astype(np.int64).sum(axis=0), np.random.default_rng(5)
    inside, found, stddev = 0, [], 30.0 * UNIT
    for _ in range(400):
        noisy = np.rint(exact + rng.normal(0, stddev, DIM + 1)).astype(np.int64)
        centre = Centre.of(noisy, stddev=stddev)
        assert centre is not None
        found.append(centre.similarity)
        inside += abs(centre.similarity - true) <= 2 * centre.similarity_error
        assert 0 <= centre.least_similarity <= max(centre.similarity, 0)
    assert abs(np.mean(found) - true) < 0.02
    assert inside >= 360


def test_noise_alone_has_no_centre() -> None:
    sums = np.zeros(DIM + 1, dtype=np.int64)
    assert Centre.of(sums, stddev=30.0 * UNIT) is None


def test_the_interval_of_a_share_contains_the_noise() -> None:
    """2,000 noisy counts of a true share: at least 93.5% inside (false alarm: 1e-3)."""
    rng, inside = np.random.default_rng(6), 0
    for _ in range(2000):
        far, near = 1100 + rng.normal(0, 35), 400 + rng.normal(0, 35)
        share = ShareInterval.of(far, near, stddev=35)
        assert share is not None and 0 <= share.low <= share.value <= share.high <= 1
        inside += share.low <= 400 / 1500 <= share.high
    assert inside >= 1870


def test_a_share_of_noise_is_unknown() -> None:
    assert ShareInterval.of(40, 50, stddev=35) is None


def test_a_centre_with_much_noise_is_no_scale() -> None:
    """Then foreign texts that are unlike each other would be near (300 records at epsilon 1)."""
    records = around(HERE, 1000, spread=1)
    sums = steps_of(records).sum(axis=0)
    for stddev, is_known in ((2.0, True), (90.0, False)):
        noise = np.random.default_rng(1).normal(size=DIM + 1) * stddev * UNIT
        found = Centre.of((sums + noise).astype(np.int64), stddev=stddev * UNIT)
        assert (found is not None) == is_known


def test_equal_texts_are_near_to_equal_records_whatever_the_noise() -> None:
    texts = np.tile(HERE, (40, 1)).astype(np.float32)
    sums = steps_of(texts).sum(axis=0) * 40
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(size=DIM + 1) * 30 * UNIT
        centre = Centre.of((sums + noise).astype(np.int64), stddev=30 * UNIT)
        assert centre is not None and centre.least_similarity < 1
        near = NearTexts(embeddings=texts, random=centre.least_similarity)
        assert near.cells(texts).all()
