"""Bootstrap intervals for a statistic of one or several samples.

Only the texts are resampled. A quantisation or a trained model stays the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.randomness import Rng

ResampledRows = NDArray[np.intp]
_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class BootstrapEstimate:
    """A statistic with the bounds of its interval. Without resamples, the bounds are None."""

    value: float
    low: float | None = None
    high: float | None = None


def percentile_interval(
    statistic: Callable[..., float], *, sizes: tuple[int, ...], resamples: int, rng: Rng
) -> BootstrapEstimate:
    """Compute the statistic and the 95% percentile interval of its bootstrap distribution.

    Use this interval for statistics without bootstrap bias, such as means. `statistic` takes one
    array of indices for each sample, with the lengths `sizes`. With fewer than 2 `resamples` there
    is no interval. Raises InvariantError if a sample is empty. Source: Efron & Tibshirani 1993,
    chapter 13.
    """
    value, resampled = _resampled(statistic, sizes, resamples, rng)
    if resampled is None:
        return BootstrapEstimate(value=value)
    low, high = np.quantile(resampled, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return BootstrapEstimate(value=value, low=float(low), high=float(high))


def normal_interval(
    statistic: Callable[..., float],
    *,
    sizes: tuple[int, ...],
    resamples: int,
    rng: Rng,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> BootstrapEstimate:
    """Compute the statistic and a 95% interval: value ± normal quantile * bootstrap standard error.

    Use this interval for distances between two samples. A resample repeats some texts and omits
    others, so distances between resamples are larger. A percentile interval would therefore be too
    high. The standard error does not have this bias. `within` is the range of the statistic. Other
    arguments and errors are the same as in `percentile_interval`. Source: Efron & Tibshirani 1993,
    chapters 6 and 13.
    """
    value, resampled = _resampled(statistic, sizes, resamples, rng)
    if resampled is None:
        return BootstrapEstimate(value=value)
    from scipy.special import ndtri

    reach = float(ndtri((1 + _LEVEL) / 2)) * float(np.std(resampled, ddof=1))
    low, high = np.clip([value - reach, value + reach], *within)
    return BootstrapEstimate(value=value, low=float(low), high=float(high))


def mean_interval(values: NDArray[Any], *, resamples: int, rng: Rng) -> BootstrapEstimate:
    """Compute the mean of `values` (n,) and its percentile interval."""
    return percentile_interval(
        lambda chosen: float(np.mean(values[chosen])),
        sizes=(len(values),),
        resamples=resamples,
        rng=rng,
    )


def _resampled(
    statistic: Callable[..., float], sizes: tuple[int, ...], resamples: int, rng: Rng
) -> tuple[float, NDArray[np.float64] | None]:
    if not sizes or min(sizes) < 1:
        raise InvariantError(f"a statistic needs texts in every sample, got the sizes {sizes}")
    value = float(statistic(*(np.arange(size) for size in sizes)))
    if resamples < 2:
        return value, None
    draws = [
        statistic(*(rng.integers(size, size=size) for size in sizes)) for _ in range(resamples)
    ]
    return value, np.asarray(draws, dtype=np.float64)
