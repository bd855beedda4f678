"""Bins that do not depend on the data, and quantiles of noisy counts in these bins."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_STEPS: Final = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # of a decade
_INTEGERS: Final = tuple(float(number) for number in range(1, 11))


def _scale(first: int, last: int) -> tuple[float, ...]:
    """Return the edges from 10^first to 10^last, with all integers up to 10."""
    edges = {step * 10.0**decade for decade in range(first, last) for step in _STEPS}
    return tuple(sorted({*edges, 10.0**last, *_INTEGERS}))


@dataclass(frozen=True)
class Bins:
    """Half-open bins [edge, next edge). Values below the first edge are in the first bin, and
    values from the last edge on are in the last bin.

    >>> words = Bins((1.0, 10.0, 100.0))
    >>> words.size, [words.of(count) for count in (0, 9, 10, 5000)]
    (3, [0, 0, 1, 2])
    """

    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.edges)

    def of(self, value: float) -> int:
        """Return the bin of a value."""
        return max(0, bisect.bisect_right(self.edges, value) - 1)

    @property
    def whole(self) -> NDArray[np.int64]:
        """The bins that can contain a whole number.

        >>> Bins((0.5, 0.7, 1.0, 1.5, 2.0)).whole.tolist()
        [0, 2, 4]
        """
        ends = (*self.edges[1:], math.inf)
        inside = [math.ceil(low) < high for low, high in zip(self.edges, ends, strict=True)]
        inside[0] = True  # with all smaller values
        return np.flatnonzero(inside)

    def quantiles(self, counts: Sequence[float], shares: Sequence[float]) -> tuple[float, ...]:
        """Return the quantiles of values with these counts, such as those of `consistent`.

        Values are taken to be spread evenly inside a bin, except in a bin of width 1, which mostly
        contains one whole number. The last bin has its lower edge.
        """
        cumulated = np.cumsum(counts, dtype=float)
        if not len(cumulated) or cumulated[-1] <= 0:
            return ()
        ends = (*self.edges[1:], self.edges[-1])
        found = []
        for share in shares:
            target = share * cumulated[-1]
            index = min(int(np.searchsorted(cumulated, target)), self.size - 1)
            before = cumulated[index - 1] if index else 0.0
            inside = (target - before) / counts[index] if counts[index] > 0 else 0.0
            low, high = self.edges[index], ends[index]
            inside = 0.0 if high - low == 1 else inside
            found.append(float(low + (high - low) * min(max(inside, 0.0), 1.0)))
        return tuple(found)


LENGTHS: Final = Bins((0.0, *_scale(0, 5)))  # characters, words, sentences, turns
RECORDS: Final = Bins(_scale(0, 4))  # records of a user
YEARS: Final = Bins(tuple(map(float, range(1900, 2101))))
ZERO: Final = math.ulp(0.0)  # the bin of 0 is [-ZERO, ZERO)
_POSITIVE: Final = _scale(-3, 15)
NUMBERS: Final = Bins((-1e16, *(-edge for edge in reversed(_POSITIVE)), -ZERO, ZERO, *_POSITIVE))
LARGEST_NUMBER: Final = 1e16  # end of the last bin of NUMBERS; larger numbers are in it, too
# One more run of bins needs this much more than noise, in standard deviations. Below it, the noise
# of hundreds of empty bins would look like a second group of values.
_RUN: Final = 5.0


def consistent(counts: NDArray[Any], *, total: float, stddev: float) -> NDArray[np.float64]:
    """Return counts that are at least 0 and add up to `total`, near the noisy counts.

    Bins far from the bulk contain noise alone, and there are many. So the result is 0 outside the
    runs of consecutive bins with the largest sum of `counts - stddev`. Each run after the first one
    must add five standard deviations to this sum. Inside, the result is the nearest point with
    this total. Both are post-processing and cost no budget.

    >>> consistent(np.array([3, 60, -8, 46, 3, -4, 5, 7]), total=100, stddev=5.0).tolist()
    [0.0, 57.0, 0.0, 43.0, 0.0, 0.0, 0.0, 0.0]
    >>> far = np.array([60, *[0] * 20, 46])
    >>> np.flatnonzero(consistent(far, total=100, stddev=5.0)).tolist()
    [0, 21]
    """
    result = np.zeros(len(counts))
    if not len(counts) or total <= 0:
        return result
    inside = occupied(counts, stddev=stddev)
    result[inside] = nearest(np.asarray(counts)[inside], total=total)
    return result


def occupied(counts: NDArray[Any], *, stddev: float) -> NDArray[np.bool_]:
    """Return which bins are in a run that contains more than noise. There is at least one run."""
    return _runs(np.asarray(counts - stddev, dtype=np.float64), cost=_RUN * stddev)


def nearest(counts: NDArray[Any], *, total: float) -> NDArray[np.float64]:
    """Return the nearest counts that are at least 0 and add up to `total`.

    Source: Duchi, Shalev-Shwartz, Singer, Chandra 2008, Figure 1.

    >>> nearest(np.array([5.0, -3.0, 9.0]), total=10).tolist()
    [3.0, 0.0, 7.0]
    """
    if total <= 0:
        return np.zeros(len(counts))
    ordered = np.sort(np.asarray(counts, dtype=np.float64))[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    last = int(np.flatnonzero(ordered - excess > 0)[-1])
    return np.asarray(np.maximum(counts - excess[last], 0.0))


def _runs(values: NDArray[np.float64], *, cost: float) -> NDArray[np.bool_]:
    """Return which values are in the runs with the largest sum, less `cost` for each run after the
    first. There is at least one run.

    `inside` and `outside` are the best sums of all runs so far, with and without the last value in
    a run. The flags repeat the best decisions from the end.
    """
    inside, outside, none = -math.inf, -math.inf, 0.0  # none: before the first run
    grows, closed, started = [], [], []
    for value in values.tolist():
        first, again = none, outside - cost
        grows.append(inside >= max(first, again))
        started.append(first >= again)
        closed.append(inside >= outside)
        new = max(inside, first, again) + value
        inside, outside = new, max(inside, outside)
    chosen = np.zeros(len(values), dtype=bool)
    is_inside = inside >= outside
    for index in range(len(values) - 1, -1, -1):
        chosen[index] = is_inside
        if not is_inside:
            is_inside = closed[index]
        elif not grows[index]:
            if started[index]:
                break
            is_inside = False
    return chosen
