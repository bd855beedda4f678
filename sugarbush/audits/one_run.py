"""Computes lower bounds on epsilon from one run with canaries.

For each of m canaries, a fair coin decides whether the mechanism sees the canary. An attacker sees
the output of the mechanism and guesses some of the coins. A coin without a guess is an abstention.
The claimed epsilon limits how many guesses can be right. More right guesses disprove the claim.
Neighbours differ by one canary, added or removed.

The module has two bounds. Each bound holds with probability `confidence`. The attack and the
dependence between its guesses may be arbitrary:

- `epsilon_lower_bound` assumes nothing about the mechanism. Suppose that all r guesses are right,
  at a delta near 0. Then the bound is at most 2.8 for r = 50, and at most 5.8 for r = 1000.
- `mu_lower_bound` is a lower bound on mu. The ledger claims mu-Gaussian DP for Gaussian noise, so a
  bound above the claimed mu disproves this claim. The bound on mu is tighter, because it uses the
  whole trade-off curve.

Each coin affects the output of only one run. So R independent runs with m canaries each are like
one run with R m canaries. An attacker may join the scores of several runs before guessing.

Fix the number of guesses before you see the scores. A bound below the claim proves nothing, because
the attack may be weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom

from sugarbush.errors import InvariantError

_TOLERANCE = 1e-6  # the bounds are rounded down by at most this difference
_LARGEST = 1e4
_START = 1e-9


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The numbers of canaries, guesses and correct guesses. A canary without a guess is an
    abstention."""

    canaries: int
    guesses: int
    correct: int

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= self.guesses <= self.canaries:
            raise InvariantError(f"{self} needs correct <= guesses <= canaries")


def guess_extremes(scores: NDArray[np.float64], *, guesses: int) -> NDArray[np.int8]:
    """Return guesses, `(m,)` int8: 1 for "included", -1 for "left out", 0 for an abstention.

    With k = `guesses` // 2, the guess is "included" for the k highest scores, and "left out" for
    the k lowest scores. The position breaks ties, because the position does not depend on the
    coins. Raises InvariantError if a score is not finite, or if there are fewer scores than
    guesses.
    """
    each = guesses // 2
    if not 1 <= each <= len(scores) // 2:
        raise InvariantError(
            f"guesses={guesses} must be from 2 to the number of scores, {len(scores)}"
        )
    if not np.isfinite(scores).all():
        raise InvariantError("a score is not finite")
    order = np.argsort(scores, kind="stable")
    guessed = np.zeros(len(scores), dtype=np.int8)
    guessed[order[:each]] = -1
    guessed[order[-each:]] = 1
    return guessed


def outcome_of(guessed: NDArray[np.int8], included: NDArray[np.bool_]) -> Outcome:
    """Count the guesses that agree with the coins."""
    right = guessed == np.where(included, 1, -1)
    return Outcome(
        canaries=len(included), guesses=int(np.abs(guessed).sum()), correct=int(right.sum())
    )


def p_value(outcome: Outcome, *, epsilon: float, delta: float) -> float:
    """Bound the probability of at least v = `correct` right guesses for any (epsilon, delta)-DP
    mechanism.

    Let W be binomial with r trials and success probability e^epsilon / (1 + e^epsilon). The bound
    is

        P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i.

    Source: Steinke, Nasr, Jagielski 2023, "Privacy Auditing with One (1) Training Run",
    Theorem 5.2.
    """
    v, r = outcome.correct, outcome.guesses
    right = float(expit(epsilon))
    tail = float(binom.sf(v - 1, r, right))
    if not v:
        return 1.0
    i = np.arange(1, v + 1)
    between = binom.sf(v - i - 1, r, right) - tail
    return min(1.0, tail + 2 * outcome.canaries * delta * max(0.0, float(np.max(between / i))))


def epsilon_lower_bound(outcome: Outcome, *, delta: float, confidence: float) -> float:
    """Return a lower bound on the epsilon of the mechanism, or 0 if the outcome disproves nothing.

    Guarantee: the bound is above the epsilon of the mechanism with probability at most 1 -
    `confidence`. For 2 m delta <= 1 the p-value is a maximum of averages of binomial tails, so the
    p-value increases with epsilon. The bound is the only epsilon with a p-value of 1 -
    `confidence`. Raises InvariantError for more canaries than 1 / (2 delta).

    >>> perfect = Outcome(canaries=100, guesses=100, correct=100)
    >>> round(epsilon_lower_bound(perfect, delta=1e-6, confidence=0.95), 2)
    3.49
    """
    _require_confidence(confidence)
    if not delta >= 0 or 2 * outcome.canaries * delta > 1:
        raise InvariantError(f"delta={delta!r} allows at most 1 / (2 delta) canaries")
    return _largest(
        lambda epsilon: p_value(outcome, epsilon=epsilon, delta=delta) <= 1 - confidence
    )


def mu_lower_bound(outcome: Outcome, *, confidence: float) -> float:
    """Return a mu for which the outcome disproves mu-Gaussian DP, or 0 if there is none.

    Guarantee: for a mechanism that is mu-GDP, the bound is above mu with probability at most 1 -
    `confidence`. `accounting.gaussian_epsilon` converts mu to an epsilon. The converted epsilon is
    a lower bound only for a mechanism with the trade-off curve of a Gaussian.

    >>> perfect = Outcome(canaries=100, guesses=100, correct=100)
    >>> round(mu_lower_bound(perfect, confidence=0.95), 2)
    1.23
    """
    _require_confidence(confidence)
    return _largest(lambda mu: _disproves_gaussian(outcome, mu, 1 - confidence))


def _disproves_gaussian(outcome: Outcome, mu: float, significance: float) -> bool:
    """Return whether P[at least v right guesses] < `significance` for every mu-GDP mechanism.

    Suppose that P[at least v right guesses] equals `significance`, and add up over all such
    outcomes. The sum gives a lower bound `right` on the probability of a right guess per canary.
    The trade-off curve gives from `right` a lower bound `wrong` on the probability of a wrong
    guess. If `right` + `wrong` is more than the fraction of canaries with a guess, no mu-GDP
    mechanism has this outcome. Source: Mahloujifar, Melis, Chaudhuri 2024, "Auditing f-Differential
    Privacy in One Run" (arXiv 2410.22235), for coins.
    """
    m, r, v = outcome.canaries, outcome.guesses, outcome.correct
    if not v:
        return False
    right, wrong = significance * v / m, significance * (r - v) / m
    for i in range(v - 1, -1, -1):
        wrong_of_more = max(wrong, float(ndtr(ndtri(right) - mu)))
        if wrong_of_more == wrong:  # further steps would not change the value
            break
        right = min(1.0, right + i / (r - i) * (wrong_of_more - wrong))
        wrong = wrong_of_more
    return right + wrong > r / m


def _largest(disproved: Callable[[float], bool]) -> float:
    """Return the largest value with `disproved(value)`, rounded down, or 0 if there is none."""
    if not disproved(_START):
        return 0.0
    lower, upper = _START, 1.0
    while disproved(upper):
        lower, upper = upper, 2 * upper
        if upper > _LARGEST:
            return lower
    while upper - lower > _TOLERANCE:
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if disproved(middle) else (lower, middle)
    return lower


def _require_confidence(confidence: float) -> None:
    if not (0.5 <= confidence < 1 and math.isfinite(confidence)):
        raise InvariantError(f"confidence={confidence!r} must be at least 0.5 and below 1")
