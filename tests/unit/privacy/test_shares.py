"""Tests the noise of votes if AIM is charged as one event.

The decision is docs/decisions/aim-in-gaussian-dp.md.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from sugarbush.privacy.budget import BudgetRequest, make_plan, mu_of

DELTA = 1e-6
AIM_SHARE = 0.1


def planned(epsilon: float, rounds: int) -> float:
    """Return the sigma of the votes in our plan."""
    requests = [
        BudgetRequest(name="metadata", share=AIM_SHARE, count=0),
        BudgetRequest(name="votes", share=1 - AIM_SHARE, count=rounds),
    ]
    return make_plan(requests, epsilon=epsilon, delta=DELTA).of("votes").stddev


def exact(epsilon: float, rounds: int) -> float:
    """Return the sigma of the votes by exact Gaussian DP, if AIM gets its share of mu^2."""
    return math.sqrt(rounds / (1 - AIM_SHARE)) / mu_of(epsilon=epsilon, delta=DELTA)


def by_zcdp(epsilon: float, rounds: int) -> float:
    """Return the sigma of the votes by zCDP, with the same shares of rho.

    The conversion to (epsilon, delta) is the best known one (Canonne, Kamath, Steinke 2020, 13).
    """
    alpha = 1 + np.logspace(-4, 4, 20_001)

    def log_delta(rho: float) -> float:
        bound = (alpha - 1) * (alpha * rho - epsilon) + alpha * np.log1p(-1 / alpha)
        return float((bound - np.log(alpha - 1)).min())

    rho = brentq(lambda r: log_delta(r) - math.log(DELTA), 1e-6, 10)
    return math.sqrt(rounds / (2 * (1 - AIM_SHARE) * rho))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 10), (1, 2), (1, 10), (2, 10), (4, 10)])
def test_the_votes_noise_is_within_2_percent_of_exact_gaussian_dp(
    epsilon: float, rounds: int
) -> None:
    ours, least = planned(epsilon, rounds), exact(epsilon, rounds)
    assert least <= ours <= 1.02 * least
    assert ours <= 1.0005 * least  # measured ratios are below this limit
    assert 1.05 * ours < by_zcdp(epsilon, rounds) < 1.09 * ours


def test_the_table_of_the_decision_is_what_is_computed() -> None:
    assert exact(1, 10) == pytest.approx(14.0823, abs=1e-4)
    assert planned(1, 10) == pytest.approx(14.0837, abs=1e-3)
    assert by_zcdp(1, 10) == pytest.approx(15.1029, abs=1e-3)
