"""Tests bins, the denoising of histograms, and quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.profiling.bins import LENGTHS, NUMBERS, RECORDS, Bins, consistent, occupied


@pytest.mark.parametrize("bins", [LENGTHS, NUMBERS, RECORDS])
def test_every_number_has_one_bin(bins: Bins) -> None:
    assert list(bins.edges) == sorted(set(bins.edges))
    for value in (-1e15, -7.2, -1e-5, 0.0, 1e-5, 1, 2, 9.99, 10, 123456, 1e12):
        index = bins.of(value)
        assert 0 <= index < bins.size
        if value >= bins.edges[0]:
            assert bins.edges[index] <= value
        if index + 1 < bins.size:
            assert value < bins.edges[index + 1]


def test_zero_and_small_integers_have_their_own_bins() -> None:
    assert NUMBERS.edges[NUMBERS.of(0.0)] < 0 < NUMBERS.edges[NUMBERS.of(0.0) + 1]
    assert len({NUMBERS.of(number) for number in range(-10, 11)}) == 21
    assert len({LENGTHS.of(number) for number in range(11)}) == 11


@given(st.integers(-(10**9), 10**9))
def test_every_whole_number_is_in_a_bin_for_whole_numbers(value: int) -> None:
    assert NUMBERS.of(value) in NUMBERS.whole


def test_bins_without_a_whole_number_do_not_hide_a_small_bin_behind_them() -> None:
    """18 bins between 0 and 1 contain noise alone, and 0 has 13 standard deviations."""
    counts = np.zeros(NUMBERS.size)
    np.add.at(counts, [NUMBERS.of(number) for number in np.arange(5000) % 60], 1)
    whole = consistent(counts[NUMBERS.whole], total=5000, stddev=6.0)
    edges = np.array(NUMBERS.edges)[NUMBERS.whole]
    assert edges[whole > 0].min() == pytest.approx(0.0, abs=1e-9)
    every = consistent(counts, total=5000, stddev=6.0)
    assert np.array(NUMBERS.edges)[every > 0].min() == pytest.approx(0.0, abs=1e-9)


@given(
    st.lists(st.integers(-30, 30), min_size=1, max_size=9), st.integers(1, 20), st.integers(0, 3)
)
def test_occupied_bins_are_the_best_runs(counts: list[int], stddev: int, more: int) -> None:
    """Compared with all choices of bins."""

    def score(chosen: Sequence[bool]) -> float:
        runs = sum(is_in and not (at and chosen[at - 1]) for at, is_in in enumerate(chosen))
        values = np.array(counts) - stddev
        return float(values[np.array(chosen)].sum() - 5 * stddev * (runs - 1))

    counts += [0] * more
    found = occupied(np.array(counts), stddev=float(stddev)).tolist()
    every = [chosen for chosen in product((False, True), repeat=len(counts)) if any(chosen)]
    assert any(found)
    assert score(found) == pytest.approx(max(map(score, every)))


def test_two_groups_of_values_that_are_far_apart_are_both_occupied() -> None:
    counts = np.zeros(NUMBERS.size)
    counts[NUMBERS.of(0.0)], counts[NUMBERS.of(50_000)] = 300, 700
    found = consistent(counts, total=1000, stddev=10.0)
    assert np.flatnonzero(found).tolist() == [NUMBERS.of(0.0), NUMBERS.of(50_000)]


def test_quantiles_of_known_lengths() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.lognormal(3.5, 0.6, 50_000)
    counts = np.bincount([LENGTHS.of(value) for value in lengths], minlength=LENGTHS.size)
    found = LENGTHS.quantiles(counts.tolist(), (0.1, 0.5, 0.9))
    assert found == pytest.approx(np.quantile(lengths, (0.1, 0.5, 0.9)), rel=0.08)


def test_the_noise_of_empty_bins_moves_no_quantile_far() -> None:
    """One run with a fixed seed; the unprojected counts move the 90% quantile tenfold."""
    rng = np.random.default_rng(2)
    lengths = rng.lognormal(3.0, 0.5, 5000)
    counts = np.bincount([LENGTHS.of(value) for value in lengths], minlength=LENGTHS.size)
    noisy = counts + rng.normal(0, 130, LENGTHS.size).round().astype(int)
    found = LENGTHS.quantiles(
        consistent(noisy, total=5000, stddev=130).tolist(), (0.25, 0.5, 0.75, 0.9)
    )
    assert found == pytest.approx(np.quantile(lengths, (0.25, 0.5, 0.75, 0.9)), rel=0.25)


@given(st.lists(st.integers(-500, 5000), min_size=1, max_size=40), st.integers(0, 9000))
def test_consistent_counts_are_counts_with_the_given_total(counts: list[int], total: int) -> None:
    found = consistent(np.array(counts), total=total, stddev=50.0)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, abs=1e-6)


def test_no_records_have_no_quantiles() -> None:
    assert LENGTHS.quantiles([0.0] * LENGTHS.size, (0.5,)) == ()
    assert not consistent(np.array([5, -5]), total=-3, stddev=1.0).any()
    assert all(map(math.isfinite, NUMBERS.edges))
