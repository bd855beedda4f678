"""Tests of the selection of survivors: by votes, by public randomness, and with exact quotas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sugarbush.errors import InvariantError
from sugarbush.evolution.selection import apportion, select_by_rank, select_within_label
from sugarbush.randomness import public_rng


def test_rank_keeps_those_with_most_votes_first() -> None:
    votes = np.array([3, -1, 9, 4, 8])
    assert select_by_rank(votes, count=3, rng=public_rng(0)).tolist() == [2, 4, 3]


def test_rank_breaks_ties_evenly() -> None:
    # 2,000 choices of one of 4 candidates with equal votes. Chi-square test with 3 degrees of
    # freedom and a false-alarm rate of 1 in 1,000. The seeds are fixed, so the result never
    # changes.
    votes = np.array([5, 5, 1, 5, 5])
    first = [select_by_rank(votes, count=1, rng=public_rng(0, i))[0] for i in range(2000)]
    counts = np.bincount(first, minlength=5)
    assert counts[2] == 0
    assert stats.chisquare(counts[[0, 1, 3, 4]]).pvalue > 1e-3


@settings(max_examples=60)
@given(votes=st.lists(st.integers(-20, 20), max_size=30), seed=st.integers(0, 99), data=st.data())
def test_survivors_are_distinct_and_reproducible(
    votes: list[int], seed: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, len(votes)))
    array = np.array(votes, dtype=np.int64)
    chosen = select_by_rank(array, count=count, rng=public_rng(seed))
    assert len(set(chosen.tolist())) == count
    assert np.array_equal(chosen, select_by_rank(array, count=count, rng=public_rng(seed)))


def test_more_survivors_than_candidates_are_refused() -> None:
    with pytest.raises(InvariantError, match="4 survivors cannot be chosen from 3"):
        select_by_rank(np.zeros(3), count=4, rng=public_rng(0))
    with pytest.raises(InvariantError, match="-1 survivors"):
        select_by_rank(np.zeros(3), count=-1, rng=public_rng(0))


def test_a_nan_vote_is_refused() -> None:
    with pytest.raises(InvariantError, match="one number per candidate"):
        select_by_rank(np.array([1.0, np.nan]), count=1, rng=public_rng(0))


def test_within_labels_each_keeps_its_count() -> None:
    votes = np.array([5, 9, 1, 7, 3, 8])
    labels = np.array([0, 2, 0, 2, 0, 1])
    chosen = select_within_label(votes, labels, counts={2: 1, 0: 2, 1: 3, 9: 4}, rng=public_rng(0))
    assert chosen.tolist() == [0, 4, 5, 1]


def test_within_labels_no_count_keeps_none() -> None:
    chosen = select_within_label(
        np.arange(3),
        np.zeros(3, dtype=np.int64),
        counts={},
        rng=public_rng(0),
    )
    assert chosen.shape == (0,)
    assert chosen.dtype == np.int64


@settings(max_examples=200)
@given(
    st.lists(st.floats(-1e6, 1e9) | st.integers(-5, 5), min_size=1, max_size=12),
    st.integers(0, 5000),
)
def test_seats_add_up_and_stay_within_one_of_the_quota(weights: list[float], total: int) -> None:
    seats = apportion(weights, total)
    assert seats.sum() == total
    positive = np.maximum(np.array(weights, dtype=float), 0)
    if not positive.any():
        positive = np.ones(len(weights))
    quota = total * positive / positive.sum()
    assert (np.abs(seats - quota) < 1 + 1e-6).all()
    assert (seats[positive == 0] == 0).all()


def test_the_largest_remainders_get_the_seats_left_over() -> None:
    assert apportion([47, 16, 15.8, 12, 6.1, 3.1], 10).tolist() == [5, 2, 1, 1, 1, 0]


def test_equal_remainders_go_to_the_lowest_place() -> None:
    assert apportion([1, 1, 1], 4).tolist() == [2, 1, 1]
    assert apportion(np.array([-3, -1, 0]), 4).tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("weights", "total"), [([], 1), ([1, np.nan], 1), ([np.inf], 1), ([1], -1)]
)
def test_seats_need_finite_weights(weights: list[float], total: int) -> None:
    with pytest.raises(InvariantError, match="weights must be finite"):
        apportion(weights, total)
