"""Computes the Gaussian-DP cost of one step.

The costs of bounded-range mechanisms and of discrete Gaussian noise are the smallest valid mu. The
proofs are in `docs/decisions/aim-in-gaussian-dp.md`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import erfinv, log_ndtr, ndtri_exp

from sugarbush.errors import InvariantError

_SMALL = 1e-3  # for smaller values, Phi^-1 is computed around 1/2, where it is precise
_DIRECT_SUM_BELOW = 1.0  # for a smaller sigma, a few terms of the sum suffice
_LARGEST_EPSILON = 1e4
_MARGIN = 2e-13  # relative margin that rounds an inverse to the safe side


def bounded_range_mu(epsilon: float) -> float:
    """Return the mu of a mechanism with bounded range `epsilon` (exponential mechanism, noisy max).

    mu is 2 Phi^-1(1 / (1 + e^(-epsilon/2))) <= sqrt(2 pi)/4 * epsilon = 0.6267 epsilon. For small
    epsilon, mu is close to 0.6267 epsilon.
    """
    require_positive(epsilon=epsilon)
    if epsilon < _SMALL:
        return float(2 * math.sqrt(2) * erfinv(math.tanh(epsilon / 4)))
    return float(-2 * ndtri_exp(-np.logaddexp(0, epsilon / 2)))  # precise for large epsilon


def bounded_range_epsilon(mu: float) -> float:
    """Return the largest epsilon for which `bounded_range_mu` is at most `mu`.

    The result is exact to within 1e-12, and at most 10,000, because larger values make no practical
    difference.
    """
    require_positive(mu=mu)
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
    require_positive(stddev=stddev, sensitivity=sensitivity)
    return sensitivity * max(1 / stddev, _central_gap(stddev))


@lru_cache(maxsize=4096)
def discrete_gaussian_stddev(mu: float, *, sensitivity: float = 1.0) -> float:
    """Return the smallest stddev with `discrete_gaussian_mu` <= `mu`, to within 1e-12."""
    require_positive(mu=mu, sensitivity=sensitivity)
    unit = mu / sensitivity
    from scipy.optimize import brentq

    root = brentq(
        lambda stddev: discrete_gaussian_mu(stddev) * stddev - unit * stddev,
        0.5 / unit,
        3.0 / unit,
        xtol=1e-15 / unit,
        rtol=1e-14,
    )
    return float(root) * (1 + _MARGIN)


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


def require_positive(**values: float) -> None:
    """Raise InvariantError, which names the first value that is not a positive finite number."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InvariantError(f"{name}={value!r} is not positive and finite")
