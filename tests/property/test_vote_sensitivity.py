"""Tests that adding a record changes one bin of the exact votes, by one, for any vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.evolution.nearest import nearest, nearest_within_label
from sugarbush.privacy.data_types import Private
from sugarbush.randomness import public_rng

DIM = 16


def corpus(seed: int, n: int, kinds: int) -> NDArray[np.float32]:
    """Return n vectors near `kinds` centres.

    Some vectors are equal, some differ only by rounding, and some differ more.
    """
    rng = public_rng(seed, "corpus", n)
    centres = public_rng(seed, "centres").standard_normal((kinds, DIM), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    vectors = centres[rng.integers(0, kinds, n)]
    spread = rng.choice(np.array([0, 1e-7, 1e-7, 0.3], dtype=np.float32), (n, 1))
    return vectors + spread * rng.standard_normal(vectors.shape, dtype=np.float32)


def histogram(records: NDArray[np.float32], candidates: NDArray[np.float32]) -> NDArray[np.int64]:
    bins = Private(records).map_batch(lambda rows: nearest(rows, candidates))
    return np.bincount(np.asarray(bins._per_unit), minlength=len(candidates))


@settings(max_examples=100)
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 60), m=st.integers(1, 40),
    kinds=st.integers(1, 4), which=st.integers(0, 59),
)  # fmt: skip
def test_removing_one_record_takes_one_vote_from_one_candidate(
    seed: int, n: int, m: int, kinds: int, which: int
) -> None:
    records, candidates = corpus(seed, n, kinds), corpus(seed, m, kinds)
    less = np.delete(records, which % n, axis=0)
    difference = histogram(records, candidates) - histogram(less, candidates)
    assert sorted(difference.tolist()) == [0] * (m - 1) + [1]


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 40), m=st.integers(1, 30),
    labels=st.integers(1, 5), which=st.integers(0, 39),
)  # fmt: skip
def test_so_it_does_over_all_labels_together(
    seed: int, n: int, m: int, labels: int, which: int
) -> None:
    rng = public_rng(seed, "labels")
    records, candidates = corpus(seed, n, 2), corpus(seed, m, 2)
    mine, theirs = rng.integers(0, labels + 1, n), rng.integers(0, labels, m)

    def counted(keep: NDArray[np.int64]) -> NDArray[np.int64]:
        voted = nearest_within_label(
            records[keep], candidates, query_labels=mine[keep], candidate_labels=theirs
        )
        return np.bincount(voted, minlength=m)

    everyone = np.arange(n)
    difference = counted(everyone) - counted(np.delete(everyone, which % n))
    assert sorted(difference.tolist()) == [0] * (m - 1) + [1]


@pytest.mark.parametrize("m", [1, 2, 50])
def test_with_all_texts_identical_one_candidate_holds_every_vote(m: int) -> None:
    records = np.repeat(corpus(0, 1, 1), 33, axis=0)
    candidates = np.repeat(corpus(1, 1, 1), m, axis=0)
    assert histogram(records, candidates).tolist() == [33] + [0] * (m - 1)
