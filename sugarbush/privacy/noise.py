"""The only source of privacy noise.

Exact discrete Gaussian noise and report-noisy-max from OpenDP, seeded by the operating system.
No seed reaches this file and none is stored: noise and secret sampling are both part of the
mechanism. Every measurement is checked against the cost that OpenDP's own privacy map states, so
that a scale in the wrong unit cannot pass.

Not protected against: timing, and somebody who reads this process's memory.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from sugarbush.errors import InvariantError

dp.enable_features("contrib")

_RELATIVE_SLACK = 1e-9  # OpenDP rounds its map's result up, by a few ulp


@lru_cache(maxsize=64)
def _gaussian(stddev: float) -> Any:
    return dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float), scale=stddev
    )


@lru_cache(maxsize=64)
def _noisy_max(scale: float) -> Any:
    return dp.m.make_noisy_max(
        dp.vector_domain(dp.atom_domain(T=float, nan=False)),
        dp.linf_distance(T=float),
        dp.zero_concentrated_divergence(),
        scale=scale,
    )


def discrete_gaussian(
    counts: NDArray[np.integer[Any]], *, stddev: float, sensitivity: float = 1.0
) -> NDArray[np.int64]:
    """Counts with exact discrete Gaussian noise drawn around them, `(m,)` int64.

    `stddev` is sigma of N_Z(0, sigma^2) in counts and `sensitivity` the L2 sensitivity of
    `counts` in counts: the cost is (sensitivity/stddev)^2 / 2 in rho-zCDP, which OpenDP's map
    must confirm. Source: Canonne, Kamath, Steinke 2020, Theorem 4 and Algorithm 3.
    """
    if not (math.isfinite(stddev) and stddev > 0):
        raise InvariantError(f"stddev={stddev!r} is not positive and finite")
    if not np.issubdtype(counts.dtype, np.integer) or counts.ndim != 1:
        raise InvariantError("integer counts of one dimension get integer noise")
    measurement = _gaussian(float(stddev))
    _confirm(measurement.map(float(sensitivity)), (sensitivity / stddev) ** 2 / 2)
    return np.asarray(measurement([int(c) for c in counts]), dtype=np.int64)


def report_noisy_max(
    scores: NDArray[np.floating[Any]], *, epsilon: float, sensitivity: float
) -> int:
    """Index of the exponential mechanism's choice, larger scores being likelier.

    Gumbel noise of scale 2*sensitivity/epsilon, so the choice is epsilon-DP and, as a
    bounded-range mechanism, (epsilon^2/8)-zCDP, which OpenDP's map must confirm.
    `sensitivity` bounds how far any one score moves. Source: Cesar & Rogers 2021, Lemma 4;
    Durfee & Rogers 2019.
    """
    if not (math.isfinite(epsilon) and epsilon > 0 and sensitivity > 0):
        raise InvariantError("epsilon and sensitivity must be positive and finite")
    measurement = _noisy_max(2.0 * sensitivity / epsilon)
    _confirm(measurement.map(float(sensitivity)), epsilon**2 / 8)
    return int(measurement([float(s) for s in scores]))


def _confirm(stated_rho: float, expected_rho: float) -> None:
    if abs(stated_rho - expected_rho) > _RELATIVE_SLACK * expected_rho:
        raise InvariantError(f"OpenDP states rho={stated_rho!r}, expected {expected_rho!r}")
