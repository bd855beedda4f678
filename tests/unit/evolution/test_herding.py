"""Tests of kernel herding: survivors have nearly the same scores as the records."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution import herding
from sugarbush.evolution.herding import herd
from sugarbush.evolution.kernel_scores import FINE, KernelScores, scores_of
from sugarbush.evolution.selection import select_by_rank
from sugarbush.randomness import public_rng

WIDTH = 0.2


def clouds(sizes: list[int], *, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return groups of unit vectors around fixed axes, and the group of each vector.

    `sizes` contains the sizes of the groups.
    """
    rng = public_rng(seed, "clouds")
    labels = np.repeat(np.arange(len(sizes)), sizes)
    points = 2.0 * np.eye(16, dtype=np.float32)[labels]
    points += rng.standard_normal(points.shape, dtype=np.float32) * 0.3
    return points / np.linalg.norm(points, axis=1, keepdims=True), labels


def test_survivors_follow_the_density_of_the_records_and_ranks_do_not() -> None:
    records, _ = clouds([600, 300, 100], seed=1)
    candidates, labels = clouds([50, 50, 50], seed=2)
    scores = scores_of(records, candidates, width=WIDTH).sum(axis=0)
    herded = np.bincount(labels[herd(scores, candidates, width=WIDTH, count=30)], minlength=3)
    ranked = labels[select_by_rank(scores, count=30, rng=public_rng(1, "rank"))]
    assert np.abs(herded - [18, 9, 3]).max() <= 2
    assert np.bincount(ranked, minlength=3).tolist() == [30, 0, 0]


@pytest.mark.parametrize("rows_in_memory", [0, 2**15])
def test_choices_are_those_of_the_plain_algorithm(
    rows_in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(herding, "_ROWS_IN_MEMORY", rows_in_memory)
    candidates, _ = clouds([40, 30, 200], seed=7)
    own = KernelScores(candidates, width=WIDTH, grid=FINE)(candidates)
    for sums in (
        scores_of(clouds([60, 60, 60], seed=8)[0], candidates, width=WIDTH).sum(axis=0),
        -own[0],
    ):
        share = own.sum() / len(own) / sums.sum() if sums.sum() > 0 else 0.0
        gap, free, chosen = sums * share, np.ones(len(own), dtype=bool), []
        for _ in range(100):
            chosen.append(int(np.argmax(np.where(free, gap, -np.inf))))
            free[chosen[-1]] = False
            gap += sums * share - own[chosen[-1]]
        assert herd(sums, candidates, width=WIDTH, count=100).tolist() == chosen


def test_the_requested_number_of_distinct_candidates_survives() -> None:
    candidates, _ = clouds([20, 20], seed=3)
    for count in (0, 1, 40):
        places = herd(np.ones(40), candidates, width=WIDTH, count=count)
        assert len(set(places.tolist())) == count


def test_of_equal_texts_the_second_comes_late() -> None:
    candidates, _ = clouds([10, 10], seed=4)
    doubled = np.concatenate([candidates, candidates])
    scores = scores_of(candidates, doubled, width=WIDTH).sum(axis=0)
    places = herd(scores, doubled, width=WIDTH, count=10)
    assert len(set((places % 20).tolist())) >= 9


def test_without_a_positive_sum_the_choice_spreads() -> None:
    candidates, labels = clouds([30, 30, 30], seed=5)
    places = herd(np.full(90, -5), candidates, width=WIDTH, count=9)
    assert np.bincount(labels[places], minlength=3).tolist() == [3, 3, 3]


def test_more_than_there_are_is_an_error() -> None:
    with pytest.raises(InvariantError, match="cannot be chosen"):
        herd(np.ones(2), clouds([2], seed=6)[0], width=WIDTH, count=3)
