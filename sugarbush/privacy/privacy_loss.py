"""Privacy loss distributions (PLDs) of the Gaussian mechanism.

They are bitwise equal to the distributions of dp_accounting. The library loops over the grid in
Python, and the grid has thousands to millions of points. These functions use numpy, so they are
faster.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting.pld.common import log_sinh
from dp_accounting.pld.pld_pmf import DensePLDPmf, create_pmf_pessimistic_connect_dots_fixed_gap
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from numpy.typing import NDArray

_SMALL_GRID = 1000  # for smaller grids, dp_accounting returns another class
_ROUNDING = 1e-12  # dp_accounting's tolerance for deltas that must not increase
_NEAR = 1e-7  # points that are nearer to a bound follow rules of the library


def gaussian(stddev: float, interval: float) -> Any:
    """Return the PLD of the Gaussian mechanism with sensitivity 1."""
    return PrivacyLossDistribution(_pmf(GaussianPrivacyLoss(stddev), stddev, interval))


def sampled_gaussian(stddev: float, *, rate: float, interval: float, replaced: bool) -> Any:
    """Return the PLD of one step of DP-SGD with Poisson sampling and sensitivity 1.

    If `replaced`, neighbours differ by one replaced unit, otherwise by one added or removed unit.
    """
    if replaced:
        types: tuple[AdjacencyType, ...] = (AdjacencyType.REPLACE,)
    else:
        types = (AdjacencyType.REMOVE, AdjacencyType.ADD)[: 1 if rate == 1 else 2]
    losses = (
        GaussianPrivacyLoss(stddev, sampling_prob=rate, adjacency_type=adjacency)
        for adjacency in types
    )
    return PrivacyLossDistribution(*(_pmf(loss, stddev, interval) for loss in losses))


def _pmf(loss: GaussianPrivacyLoss, stddev: float, interval: float) -> Any:
    ends = loss.connect_dots_bounds()
    lowest = math.floor(ends.epsilon_lower / interval)
    highest = math.ceil(ends.epsilon_upper / interval)
    deltas = _deltas(loss, stddev, np.arange(lowest, highest + 1) * interval)
    if (
        len(deltas) <= _SMALL_GRID or np.diff(deltas).max() > _ROUNDING
    ):  # the library raises on increasing deltas
        return create_pmf_pessimistic_connect_dots_fixed_gap(interval, lowest, highest, deltas)
    return _connected(np.minimum.accumulate(deltas), lowest, interval)


def from_profile(deltas: NDArray[np.float64], interval: float) -> Any:
    """Return the PLD with the hockey-stick divergence deltas[k] at e^(k * interval), k >= 0.

    The divergence is that of both orders of the neighbours. Between two points, the divergence is
    linear in e^x.
    """
    x = np.arange(len(deltas) - 1, 0, -1) * -interval
    mirrored = -np.expm1(x) + np.exp(x) * deltas[:0:-1]  # H_x(P, Q) = 1 - e^x + e^x H_{-x}(Q, P)
    return PrivacyLossDistribution(_connected(np.r_[mirrored, deltas], 1 - len(deltas), interval))


def _connected(deltas: NDArray[np.float64], lowest: int, interval: float) -> Any:
    """Connect the dots between `deltas`, the divergences from x = lowest * interval on."""
    falls, grows = np.diff(deltas), math.expm1(interval)
    probs = np.empty_like(deltas)
    probs[0] = 1 - deltas[0] + falls[0] / grows
    probs[1:-1] = (falls[1:] - falls[:-1] * math.exp(interval)) / grows
    probs[-1] = falls[-1] / math.expm1(-interval)
    return DensePLDPmf(
        interval, lowest, np.maximum(0.0, probs), deltas[-1], pessimistic_estimate=True
    )


def _deltas(
    loss: GaussianPrivacyLoss, stddev: float, x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute the hockey-stick divergence of the mechanism for each epsilon in `x` (n,)."""
    rate, deltas = loss.sampling_prob, np.zeros_like(x)
    inside = np.ones(len(x), dtype=bool)
    if rate < 1 and loss.adjacency_type is AdjacencyType.ADD:
        inside = x < -math.log1p(-rate)
    elif rate < 1 and loss.adjacency_type is AdjacencyType.REMOVE:
        inside = x > math.log1p(-rate)
        deltas[~inside] = -np.expm1(x[~inside])
    points = x[inside]
    cut = _cuts(loss, stddev, points)
    deltas[inside] = loss.mu_upper_cdf(cut) - np.exp(points + loss.mu_lower_log_cdf(cut))
    return np.clip(deltas, 0, 1)


def _cuts(loss: GaussianPrivacyLoss, stddev: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the points at which the privacy loss is `x` (n,)."""
    rate, variance = loss.sampling_prob, stddev**2
    if loss.adjacency_type is AdjacencyType.REPLACE:
        if rate == 1:
            return -x * variance / 2
        log_alpha = 0.5 * (1 / stddev) ** 2 + math.log1p(-rate) - math.log(rate)
        # A loop, because numpy's logarithm may differ from Python's in the last bit.
        sinh = log_alpha + np.array([log_sinh(half) for half in (np.abs(x) / 2).tolist()])
        asinh = np.logaddexp(0.5 * np.logaddexp(0, 2 * sinh), sinh)
        return np.where(x == 0, 0.0, variance * (np.where(x >= 0, -asinh, asinh) - x / 2))
    if rate == 1:
        return -0.5 - x * variance
    sign = -1 if loss.adjacency_type is AdjacencyType.ADD else 1
    larger, smaller = sign * x + np.log(1 / rate), np.log(1 / rate - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = sign * (larger + np.log1p(-np.exp(smaller - larger)))
    cuts: NDArray[np.float64] = -0.5 - whole * variance + (sign < 0)
    for index in np.flatnonzero((x == 0) | (np.abs(sign * x - math.log1p(-rate)) < _NEAR)):
        cuts[index] = loss.inverse_privacy_loss(x[index])
    return cuts
