"""Computes the Gaussian-DP cost of one step, and limits the cost of adaptive steps.

The costs of bounded-range mechanisms and of discrete Gaussian noise are the smallest valid mu. The
proofs are in `docs/decisions/aim-in-gaussian-dp.md`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import erfinv, log_ndtr, ndtri_exp

from sugarbush.errors import InvariantError
from sugarbush.privacy.accounting import rounded_up

_SMALL = 1e-3  # for smaller values, Phi^-1 is computed around 1/2, where it is precise
_DIRECT_SUM_BELOW = 1.0  # for a smaller sigma, a few terms of the sum suffice
_LARGEST_EPSILON = 1e4
_MARGIN = 2e-13  # relative margin that rounds an inverse to the safe side


def bounded_range_mu(epsilon: float) -> float:
    """Return the mu of a mechanism with bounded range `epsilon` (exponential mechanism, noisy max).

    mu is 2 Phi^-1(1 / (1 + e^(-epsilon/2))) <= sqrt(2 pi)/4 * epsilon = 0.6267 epsilon. For small
    epsilon, mu is close to 0.6267 epsilon.
    """
    _require_positive(epsilon=epsilon)
    if epsilon < _SMALL:
        return float(2 * math.sqrt(2) * erfinv(math.tanh(epsilon / 4)))
    return float(-2 * ndtri_exp(-np.logaddexp(0, epsilon / 2)))  # precise for large epsilon


def bounded_range_epsilon(mu: float) -> float:
    """Return the largest epsilon for which `bounded_range_mu` is at most `mu`.

    The result is exact to within 1e-12, and at most 10,000, because larger values make no practical
    difference.
    """
    _require_positive(mu=mu)
    if mu < _SMALL:
        epsilon = 4 * math.atanh(math.erf(mu / (2 * math.sqrt(2))))
    else:
        epsilon = 2 * (float(log_ndtr(mu / 2)) - float(log_ndtr(-mu / 2)))
    return min(epsilon * (1 - _MARGIN), _LARGEST_EPSILON)


@lru_cache(maxsize=4096)
def discrete_gaussian_mu(stddev: float, *, sensitivity: float = 1.0) -> float:
    """Return the mu of integer counts with L2 sensitivity `sensitivity` and noise N_Z(0, stddev^2).

    At sensitivity 1, mu = max(1/stddev, 2 Phi^-1((1 + P[N_Z = 0]) / 2)). The second term is
    1/stddev * (1 + 1/(24 stddev^2) + ...) for large stddev. The second term approaches 2/stddev as
    stddev goes to 0. Sensitivity s multiplies mu by s (group privacy).
    """
    _require_positive(stddev=stddev, sensitivity=sensitivity)
    return sensitivity * max(1 / stddev, _central_gap(stddev))


@lru_cache(maxsize=4096)
def discrete_gaussian_stddev(mu: float, *, sensitivity: float = 1.0) -> float:
    """Return the smallest stddev with `discrete_gaussian_mu` <= `mu`, to within 1e-12."""
    _require_positive(mu=mu, sensitivity=sensitivity)
    unit = mu / sensitivity
    from scipy.optimize import brentq

    found = brentq(
        lambda stddev: discrete_gaussian_mu(stddev) * stddev - unit * stddev,
        0.5 / unit,
        3.0 / unit,
        xtol=1e-15 / unit,
        rtol=1e-14,
    )
    return float(found) * (1 + _MARGIN)


class GaussianDpFilter:
    """Limits the total cost of adaptively chosen steps.

    Call `spend` before each step. Each step must be mu_i-GDP given the results of earlier steps.
    All steps together are mu-GDP, because `spend` keeps the sum of mu_i^2 at most mu^2. Source:
    Smith & Thakurta 2022 (arXiv:2210.17520), Theorem 3.1.
    """

    def __init__(self, mu: float) -> None:
        _require_positive(mu=mu)
        self._limit = mu**2
        self._steps: list[float] = []

    @property
    def spent(self) -> float:
        """The sum of mu_i^2 so far."""
        return math.fsum(self._steps)

    @property
    def remaining(self) -> float:
        """mu^2 minus the sum of mu_i^2."""
        return max(0.0, self._limit - self.spent)

    def spend(self, mu: float) -> None:
        """Spend mu^2. Raises InvariantError if less than mu^2 is left."""
        _require_positive(mu=mu)
        if math.fsum([*self._steps, mu**2]) > self._limit:
            raise InvariantError(
                f"a step of mu^2={rounded_up(mu**2)} would exceed the filter's limit "
                f"{rounded_up(self._limit)} (spent so far: {rounded_up(self.spent)})"
            )
        self._steps.append(mu**2)


def _central_gap(stddev: float) -> float:
    """Compute 2 Phi^-1((1 + p) / 2) with p = P[N_Z(0, stddev^2) = 0]."""
    if stddev >= _DIRECT_SUM_BELOW:
        # Poisson summation: sum_j exp(-j^2 / 2 s^2) = s sqrt(2 pi) (1 + 2 exp(-2 pi^2 s^2) + ...).
        ripple = 2 * math.exp(-2 * (math.pi * stddev) ** 2)
        normaliser = stddev * math.sqrt(2 * math.pi) * (1 + ripple)
        return float(2 * math.sqrt(2) * erfinv(1 / normaliser))
    # (1 - p) / 2 is the mass above zero. The code uses logarithms, because the first term of the
    # sum may underflow.
    first = -1 / (2 * stddev**2)
    rest = math.fsum(math.exp((1 - j * j) / (2 * stddev**2)) for j in range(1, 40))
    log_half = first + math.log(rest)
    return float(-2 * ndtri_exp(log_half - math.log1p(2 * math.exp(log_half))))


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InvariantError(f"{name}={value!r} is not positive and finite")
