"""Tests that the noise has the stated distribution, with n = 40,000 draws per test unless stated.
Each test states its false-alarm rate."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.privacy.noise import discrete_gaussian, report_noisy_max

N = 40_000


def discrete_gaussian_variance(stddev: float) -> float:
    """Compute the variance of N_Z(0, stddev^2) from its definition.

    Source: Canonne, Kamath, Steinke 2020, Definition 1.
    """
    k = np.arange(-1000, 1001)
    weights = np.exp(-(k**2) / (2 * stddev**2))
    return float((k**2 * weights).sum() / weights.sum())


def z_of_variance(draws: NDArray[np.int64], variance: float) -> float:
    """Return the difference between the mean square and `variance`, in standard errors."""
    squares = draws.astype(float) ** 2
    return (squares.mean() - variance) / (squares.std() / math.sqrt(len(draws)))


@pytest.mark.parametrize("stddev", [0.6, 2.0, 15.4])
def test_the_noise_has_the_requested_scale(stddev: float) -> None:
    """Limit |z| < 5, false-alarm rate 6e-7 per test. A scale that is wrong by 5% gives |z| > 9."""
    draws = discrete_gaussian(np.full(N, 1000), stddev=stddev) - 1000
    assert abs(z_of_variance(draws, discrete_gaussian_variance(stddev))) < 5
    assert abs(draws.mean()) < 5 * stddev / math.sqrt(N)
    for wrong in (0.95, 1.05):
        assert abs(z_of_variance(draws, discrete_gaussian_variance(wrong * stddev))) > 5


def test_the_noise_follows_the_discrete_gaussian_law() -> None:
    """Chi-square test with 9 cells, false-alarm rate 1e-6 (limit 45.1, 8 degrees of freedom)."""
    stddev = 1.3
    draws = discrete_gaussian(np.zeros(N, dtype=np.int64), stddev=stddev)
    k = np.arange(-60, 61)
    law = np.exp(-(k**2) / (2 * stddev**2))
    law /= law.sum()
    cells = np.clip(k, -4, 4) + 4
    expected = N * np.bincount(cells, weights=law)
    seen = np.bincount(np.clip(draws, -4, 4) + 4, minlength=9)
    assert float(((seen - expected) ** 2 / expected).sum()) < 45.1


def test_two_processes_worth_of_noise_never_repeat() -> None:
    """No seed controls the noise: equal calls give different noise (false-alarm rate under
    1e-100)."""
    zeros = np.zeros(200, dtype=np.int64)
    np.random.seed(7)
    first = discrete_gaussian(zeros, stddev=10.0)
    np.random.seed(7)
    assert (first != discrete_gaussian(zeros, stddev=10.0)).any()


def test_the_noisy_maximum_is_the_exponential_mechanism() -> None:
    """P(1) = e^(eps*gap/2)/(1 + e^(eps*gap/2)); 4,000 choices, |z| < 5, false-alarm rate 6e-7. A
    mechanism that spends twice epsilon gives |z| > 9."""
    epsilon, gap, n = 1.0, 1.5, 4000
    scores = np.array([0.0, gap])
    share = np.mean([report_noisy_max(scores, epsilon=epsilon, sensitivity=1.0) for _ in range(n)])

    def z(spent: float) -> float:
        p = 1 / (1 + math.exp(-spent * gap / 2))
        return float((share - p) / math.sqrt(p * (1 - p) / n))

    assert abs(z(epsilon)) < 5
    assert abs(z(2 * epsilon)) > 9


@pytest.mark.parametrize("stddev", [0.0, -1.0, math.inf, math.nan])
def test_noise_without_a_scale_is_refused(stddev: float) -> None:
    with pytest.raises(InvariantError):
        discrete_gaussian(np.zeros(3, dtype=np.int64), stddev=stddev)


def test_real_numbers_get_no_integer_noise() -> None:
    with pytest.raises(InvariantError):
        discrete_gaussian(np.zeros(3), stddev=1.0)  # type: ignore[arg-type]
