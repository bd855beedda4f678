"""Compares the bounds of one-run audits with jax_privacy, exact probabilities and simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom

from sugarbush.audits.one_run import (
    Outcome,
    epsilon_lower_bound,
    guess_extremes,
    mu_lower_bound,
    outcome_of,
    p_value,
)
from sugarbush.errors import InvariantError
from sugarbush.privacy.accounting import gaussian_epsilon

# Results of jax_privacy 2.0.0. The key is (canaries, guesses, right guesses). The values are
# epsilon_one_run at delta 1e-6 and at delta 1e-5, and epsilon_one_run_fdp at delta 1e-6, all with
# significance 0.05 and one explicit threshold.
ORACLE = {
    (100, 50, 50): (2.7844, 2.7819, 6.4871),
    (1000, 100, 100): (3.4902, 3.4654, 6.1695),
    (1000, 500, 500): (5.1117, 5.0875, 10.9131),
    (2000, 1000, 1000): (5.8037, 5.7554, 12.1296),
    (2000, 1000, 990): (4.0624, 4.0552, 7.8647),
    (1000, 300, 200): (0.4858, 0.4850, 0.9134),
    (1000, 100, 80): (0.9581, 0.9553, 1.5948),
    (10000, 1000, 700): (0.7317, 0.7293, 1.1315),
    (40000, 2000, 1500): (1.0121, 1.0063, 1.4223),
    (1000, 100, 55): (0.0, 0.0, 0.0),
}


def outcome(canaries: int, guesses: int, correct: int) -> Outcome:
    return Outcome(canaries=canaries, guesses=guesses, correct=correct)


def epsilon_of_mu(found: Outcome, delta: float) -> float:
    mu = mu_lower_bound(found, confidence=0.95)
    return gaussian_epsilon(mu, delta=delta) if mu else 0.0


@pytest.mark.parametrize("counts", ORACLE)
def test_the_bounds_are_those_of_jax_privacy(counts: tuple[int, int, int]) -> None:
    found = outcome(*counts)
    small, large, gaussian = ORACLE[counts]
    assert epsilon_lower_bound(found, delta=1e-6, confidence=0.95) == pytest.approx(small, abs=1e-4)
    assert epsilon_lower_bound(found, delta=1e-5, confidence=0.95) == pytest.approx(large, abs=1e-4)
    assert epsilon_of_mu(found, 1e-6) == pytest.approx(gaussian, abs=2e-4)


def test_jax_privacy_agrees_on_other_outcomes() -> None:
    # jax_privacy is not a dependency. To run this test, install it in a separate environment:
    # `pip install --no-deps jax-privacy==2.0.0`. Its module `auditing` needs only numpy, scipy and
    # dp_accounting.
    auditing = pytest.importorskip("jax_privacy.auditing")
    for m, r, v in ((200, 200, 150), (500, 60, 58), (3000, 900, 700), (5000, 50, 49)):
        inside = np.concatenate([np.ones(v), np.zeros(m // 2)])
        outside = np.concatenate([np.ones(r - v), np.zeros(m // 2)])
        oracle = auditing.CanaryScoreAuditor(inside, outside)
        at = {"threshold_strategy": auditing.Explicit(0.5)}
        found = outcome(len(inside) + len(outside), r, v)
        assert epsilon_lower_bound(found, delta=1e-6, confidence=0.95) == pytest.approx(
            oracle.epsilon_one_run(0.05, 1e-6, **at), abs=1e-4
        )
        assert epsilon_of_mu(found, 1e-6) == pytest.approx(
            oracle.epsilon_one_run_fdp(0.05, 1e-6, **at), abs=2e-4
        )


@pytest.mark.parametrize(("guesses", "most"), [(50, 2.8), (100, 3.5), (500, 5.1), (1000, 5.8)])
def test_right_guesses_alone_prove_no_more_than_their_number_allows(
    guesses: int, most: float
) -> None:
    perfect = outcome(guesses, guesses, guesses)
    bound = epsilon_lower_bound(perfect, delta=0, confidence=0.95)
    assert round(bound, 1) == most
    # At the bound, P[all guesses are right] = 0.05.
    assert expit(bound) ** guesses == pytest.approx(0.05, rel=1e-3)


@settings(max_examples=60)
@given(st.integers(1, 400), st.data())
def test_bounds_are_monotone(guesses: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, guesses - 1))
    canaries = guesses + data.draw(st.integers(0, 1000))
    fewer, more = outcome(canaries, guesses, correct), outcome(canaries, guesses, correct + 1)

    def bound(found: Outcome, delta: float = 1e-6, confidence: float = 0.95) -> float:
        return epsilon_lower_bound(found, delta=delta, confidence=confidence)

    slack = 2e-6  # both bounds are rounded down to 1e-6
    assert bound(fewer) <= bound(more) + slack
    assert mu_lower_bound(fewer, confidence=0.95) <= mu_lower_bound(more, confidence=0.95) + slack
    assert bound(more, delta=1e-4) <= bound(more) + slack
    assert bound(more, confidence=0.99) <= bound(more) + slack
    assert bound(outcome(canaries + 500, guesses, correct + 1)) <= bound(more) + slack


@settings(max_examples=60)
@given(st.integers(1, 300), st.floats(0, 8), st.floats(0, 3), st.sampled_from([0, 1e-6, 1e-4]))
def test_the_p_value_increases_with_epsilon(
    guesses: int, epsilon: float, more: float, delta: float
) -> None:
    found = outcome(guesses + 100, guesses, guesses // 2 + 1)
    lower = p_value(found, epsilon=epsilon, delta=delta)
    assert lower <= p_value(found, epsilon=epsilon + more, delta=delta) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("guesses", [50, 400])
def test_the_false_alarm_rate_is_at_most_five_percent_exactly(epsilon: float, guesses: int) -> None:
    """For randomized response, which is epsilon-DP, the number of right guesses is binomial.

    So the false-alarm rate is computed exactly, without samples. With 400 guesses it is also near
    5%, because randomized response is the worst case. With 50 guesses at epsilon 4, there is no
    alarm even if all guesses are right.
    """
    counts = np.arange(guesses + 1)
    chances = binom.pmf(counts, guesses, expit(epsilon))
    alarms = [
        epsilon_lower_bound(outcome(guesses, guesses, v), delta=0, confidence=0.95) > epsilon
        for v in counts
    ]
    rate = float(chances[alarms].sum())
    assert rate <= 0.05
    assert guesses < 400 or rate > 0.01


def test_the_gaussian_bound_raises_few_false_alarms() -> None:
    """Each of 400 audits of N(mu S, 1) gives a false alarm with probability at most 5%, so more
    than 34 alarms have a probability of 0.1%. All 20 audits with a quarter of the noise must give
    an alarm.
    """
    rng = np.random.default_rng(4)

    def mu_found(stddev: float) -> float:
        coins = rng.random(2000) < 0.5
        scores = coins * 1.0 + rng.normal(0, stddev, 2000)
        return mu_lower_bound(
            outcome_of(guess_extremes(scores, guesses=200), coins), confidence=0.95
        )

    assert sum(mu_found(1.0) > 1.0 for _ in range(400)) <= 34
    assert all(mu_found(0.25) > 1.0 for _ in range(20))


def test_the_highest_scores_are_guessed_to_be_included() -> None:
    scores = np.array([0.3, -2.0, 5.0, 1.0, -7.0, 0.0])
    guessed = guess_extremes(scores, guesses=4)
    assert guessed.tolist() == [0, -1, 1, 1, -1, 0]
    found = outcome_of(guessed, np.array([True, False, True, False, False, True]))
    assert found == outcome(6, 4, 3)


def test_equal_scores_are_ordered_by_position() -> None:
    assert guess_extremes(np.zeros(6), guesses=4).tolist() == [-1, -1, 0, 0, 1, 1]


@pytest.mark.parametrize("scores", [[1.0], [0.0, math.nan, 1.0], [0.0, math.inf, 1.0]])
def test_scores_that_cannot_be_ordered_are_refused(scores: list[float]) -> None:
    with pytest.raises(InvariantError):
        guess_extremes(np.array(scores), guesses=2)


def test_bounds_without_a_meaning_are_refused() -> None:
    perfect = outcome(100, 100, 100)
    with pytest.raises(InvariantError, match="canaries"):
        epsilon_lower_bound(perfect, delta=0.01, confidence=0.95)
    with pytest.raises(InvariantError, match="confidence"):
        mu_lower_bound(perfect, confidence=1.0)
    with pytest.raises(InvariantError, match="correct <= guesses"):
        outcome(10, 5, 6)
