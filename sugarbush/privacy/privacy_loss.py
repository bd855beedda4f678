"""Privacy loss distributions (PLDs) of the Gaussian mechanism.

The library dp_accounting loops over the grid in Python, and the grid has thousands to millions of
points. These functions use numpy, so they are faster. They are bitwise equal to the distributions
of the library, except for sampled mechanisms under add/remove. There they are more precise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting.pld.common import compute_self_convolve_bounds, log_sinh
from dp_accounting.pld.pld_pmf import DensePLDPmf, create_pmf_pessimistic_connect_dots_fixed_gap
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import log_ndtr, ndtr

_SMALL_GRID = 1000  # for smaller grids, dp_accounting returns another class
_ROUNDING = 1e-12  # dp_accounting's tolerance for deltas that must not increase
_TAIL = 1e-15  # dp_accounting's bound of the probability that it cuts off
_NEAR = 1e-7  # points that are nearer to a bound follow rules of the library


def gaussian(stddev: float, interval: float) -> Any:
    """Return the PLD of the Gaussian mechanism with sensitivity 1."""
    return PrivacyLossDistribution(_pmf(GaussianPrivacyLoss(stddev), stddev, interval))


def sampled_gaussian(stddev: float, *, rate: float, interval: float, replaced: bool) -> Any:
    """Return the PLD of one step of DP-SGD with Poisson sampling and sensitivity 1.

    If `replaced`, neighbours differ by one replaced unit, otherwise by one added or removed unit.
    """
    adjacency = AdjacencyType.REPLACE if replaced else AdjacencyType.REMOVE
    loss = GaussianPrivacyLoss(stddev, sampling_prob=rate, adjacency_type=adjacency)
    found = _pmf(loss, stddev, interval)
    orders = [found] if replaced or rate == 1 else [found, _other_order(found)]
    return PrivacyLossDistribution(*orders)


def _other_order(removed: Any) -> Any:
    """Return the distribution for an added unit from that for a removed unit.

    If a pair of distributions (P, Q) dominates the mechanism, (Q, P) dominates it in the other
    order. A loss x with probability p becomes the loss -x with probability p exp(-x). The library
    computes differences of divergences near 1 instead. Their last bits depend on the CPU, and a
    million steps turn them into 4% of additional probability. All losses of a removed unit are
    finite from below, so no loss of the other order is infinite.
    """
    pmf = removed.to_dense_pmf()
    probs, lowest = np.asarray(vars(pmf)["_probs"]), vars(pmf)["_lower_loss"]
    interval = vars(pmf)["_discretization"]
    losses = (lowest + np.arange(len(probs))) * interval
    return DensePLDPmf(
        interval,
        1 - lowest - len(probs),
        (probs * np.exp(-losses))[::-1],
        0.0,
        pessimistic_estimate=True,
    )


def self_composed(distribution: Any, count: int) -> Any:
    """Compose a distribution `count` times with itself, as dp_accounting does, but precisely.

    The library raises a Fourier transform F to the power of `count`, so an error of F grows with
    `count`. After a million steps, the divergence is wrong by 3e-10, and the third digit of its
    tail depends on the CPU. Here F - 1 is transformed, which is small if almost all of a step's
    loss is 0. Then F^count = exp(count log1p(F - 1)) has the precision of one transform.
    """
    orders = [vars(distribution)[name] for name in ("_pmf_remove", "_pmf_add")]
    return PrivacyLossDistribution(
        *(_self_composed(order, count) for order in orders[: 1 if orders[0] is orders[1] else 2])
    )


def _self_composed(order: Any, count: int) -> Any:
    fields = vars(order.to_dense_pmf())
    probs, lowest = np.asarray(fields["_probs"]), fields["_lower_loss"]
    infinite, change = fields["_infinity_mass"], probs.copy()
    if not 0 <= -lowest < len(probs) or abs(probs.sum() + infinite - 1) > _ROUNDING / 10:
        return order.self_compose(count)
    change[-lowest] = 0.0
    change[-lowest] = -math.fsum(change) - infinite
    first, last = compute_self_convolve_bounds(probs.tolist(), count, _TAIL)
    size = next_fast_len(max(last - first + 1, len(probs)), real=True)
    spectrum = rfft(np.roll(np.pad(change, (0, size - len(change))), lowest))
    composed = irfft(_power_of_1p(spectrum, count), size)
    first += lowest * count
    return DensePLDPmf(
        fields["_discretization"],
        first,
        np.roll(composed, -first)[: last + lowest * count - first + 1],
        _TAIL - math.expm1(count * math.log1p(-infinite)),
        pessimistic_estimate=True,
    )


def _power_of_1p(z: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return (1 + z)^count. numpy's `log1p` of complex numbers rounds 1 + z first (numpy 2.4)."""
    x, y = z.real, z.imag
    with np.errstate(divide="ignore"):  # 1 + z may be 0
        half = np.log1p(np.maximum(x * (2 + x) + y * y, -1.0)) / 2  # log of |1 + z|
    return np.asarray(np.exp(count * half) * np.exp(1j * count * np.arctan2(y, 1 + x)))


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
    above = np.asarray(vars(_connected(deltas, 0, interval))["_probs"])[1:]
    # both orders are equal, so a loss -x has exp(-x) times the probability of the loss x
    below = above * np.exp(-interval * np.arange(1, len(deltas)))
    zero = 1 - math.fsum(above) - math.fsum(below) - deltas[-1]
    probs = np.r_[below[::-1], max(0.0, zero), above]
    return PrivacyLossDistribution(
        DensePLDPmf(interval, 1 - len(deltas), probs, deltas[-1], pessimistic_estimate=True)
    )


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
    if rate < 1 and loss.adjacency_type is AdjacencyType.REMOVE:
        deltas[inside] = _deltas_of_removed(points, cut, stddev, rate=rate)
    else:
        deltas[inside] = loss.mu_upper_cdf(cut) - np.exp(points + loss.mu_lower_log_cdf(cut))
    return np.clip(deltas, 0, 1)


def _deltas_of_removed(
    x: NDArray[np.float64], cut: NDArray[np.float64], stddev: float, *, rate: float
) -> NDArray[np.float64]:
    """Compute the divergence of (1 - q) N(0, s^2) + q N(-1, s^2) from N(0, s^2) at e^x.

    It is P[below the cut] - e^x Q[below the cut]. Without the common part, both terms are at most
    q, so their rounding errors are small. With it, results of different CPUs would differ by 1e-10
    for a rate of 1e-6.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near, far = np.log(np.expm1(x) + rate), x + np.log1p((rate - 1) * np.exp(-x))
    lower = np.exp(np.where(x < 1, near, far) + log_ndtr(cut / stddev))
    return np.asarray(rate * ndtr((cut + 1) / stddev) - lower, dtype=np.float64)


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
