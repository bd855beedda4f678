"""Tests of the bound from several independent runs, in the worst case and on noisy scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from sugarbush.audits.repeated_runs import mu_lower_bound_of_runs
from sugarbush.errors import InvariantError


@pytest.mark.parametrize("runs", [5, 20, 200])
def test_the_false_alarm_rate_of_the_worst_case_is_exactly_five_percent(runs: int) -> None:
    """In the worst case, the guesses of a run are either all right or all wrong.

    They are right with the largest probability that mu-GDP allows. There is an alarm only if they
    are right in all runs.
    """
    mu = mu_lower_bound_of_runs([1.0] * runs, confidence=0.95)
    assert ndtr(mu / 2) ** runs == pytest.approx(0.05)


def test_independent_noise_raises_few_false_alarms() -> None:
    """Each of 300 audits of 50 runs at mu = 0.5 gives a false alarm with probability at most 5%, so
    more than 27 alarms have a probability of 0.1%. All 20 audits with noise that is too small by
    sqrt(2) must give an alarm.
    """
    rng = np.random.default_rng(5)

    def mu_found(mu: float) -> float:
        right = rng.binomial(1000, ndtr(mu / 2), 100)
        return mu_lower_bound_of_runs((right / 1000).tolist(), confidence=0.95)

    assert sum(mu_found(0.5) > 0.5 for _ in range(300)) <= 27
    assert all(mu_found(0.5 * math.sqrt(2)) > 0.5 for _ in range(20))


@given(st.lists(st.floats(0.3, 0.99), min_size=1, max_size=30), st.floats(0, 0.01))
def test_more_right_guesses_bring_a_higher_bound(accuracies: list[float], more: float) -> None:
    higher = [accuracies[0] + more, *accuracies[1:]]
    bound = mu_lower_bound_of_runs(accuracies, confidence=0.95)
    assert bound <= mu_lower_bound_of_runs(higher, confidence=0.95) + 1e-9
    assert mu_lower_bound_of_runs(accuracies, confidence=0.99) <= bound + 1e-9


def test_runs_that_prove_nothing_bring_zero() -> None:
    assert mu_lower_bound_of_runs([0.5] * 100, confidence=0.95) == 0
    assert mu_lower_bound_of_runs([1.0, 0.0], confidence=0.95) == 0


@pytest.mark.parametrize("accuracies", [[], [1.1], [math.nan]])
def test_shares_that_are_none_are_refused(accuracies: list[float]) -> None:
    with pytest.raises(InvariantError):
        mu_lower_bound_of_runs(accuracies, confidence=0.95)
