"""Bootstrap intervals for a statistic of one or several samples.

What varies is which texts were drawn; whatever the statistic was given that is not resampled
(a quantisation, a trained model) counts as fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sugarbush.errors import InvariantError
from sugarbush.randomness import Rng

Indices = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its interval; `low` and `high` are None where none was asked for."""

    value: float
    low: float | None = None
    high: float | None = None


def percentile_interval(
    statistic: Callable[..., float],
    *,
    sizes: tuple[int, ...],
    resamples: int,
    rng: Rng,
    level: float = 0.95,
) -> Estimate:
    """The statistic, and the percentile interval of its bootstrap distribution.

    For statistics that resampling does not shift, such as means. `statistic` takes one array of
    indices a sample, with `sizes` their lengths. No interval when `resamples` is 0.
    Raises InvariantError on an empty sample: empty is not zero.
    Source: Efron & Tibshirani 1993, chapter 13.
    """
    value, resampled = _resampled(statistic, sizes, resamples, rng)
    if resampled is None:
        return Estimate(value=value)
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value=value, low=float(low), high=float(high))


def normal_interval(
    statistic: Callable[..., float],
    *,
    sizes: tuple[int, ...],
    resamples: int,
    rng: Rng,
    level: float = 0.95,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """The statistic, plus and minus normal quantiles of its bootstrap standard error.

    For distances between two samples. Resampling repeats and omits texts, which adds distance of
    its own, so a percentile interval of a distance lies beside the distance it is meant for; the
    standard error does not have this fault. Cut to the statistic's range `within`. Arguments and
    errors as in `percentile_interval`. Source: Efron & Tibshirani 1993, chapters 6 and 13.
    """
    value, resampled = _resampled(statistic, sizes, resamples, rng)
    if resampled is None:
        return Estimate(value=value)
    reach = float(ndtri((1 + level) / 2)) * float(np.std(resampled, ddof=1))
    low, high = np.clip([value - reach, value + reach], *within)
    return Estimate(value=value, low=float(low), high=float(high))


def mean_interval(
    values: NDArray[Any], *, resamples: int, rng: Rng, level: float = 0.95
) -> Estimate:
    """The mean of `values` (n,) with its percentile interval."""
    return percentile_interval(
        lambda chosen: float(np.mean(values[chosen])),
        sizes=(len(values),),
        resamples=resamples,
        rng=rng,
        level=level,
    )


def _resampled(
    statistic: Callable[..., float],
    sizes: tuple[int, ...],
    resamples: int,
    rng: Rng,
) -> tuple[float, NDArray[np.float64] | None]:
    if not sizes or min(sizes) < 1:
        raise InvariantError(f"nothing to take a statistic of: samples of {sizes}")
    value = float(statistic(*(np.arange(size) for size in sizes)))
    if resamples < 2:
        return value, None
    draws = [
        statistic(*(rng.integers(size, size=size) for size in sizes)) for _ in range(resamples)
    ]
    return value, np.asarray(draws, dtype=np.float64)
