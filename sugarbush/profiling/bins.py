"""Bins that do not depend on the data, and quantiles of noisy counts in these bins."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
_POSITIVE: Final = _scale(-3, 9)
NUMBERS: Final = Bins(
    (-1e10, *(-edge for edge in reversed(_POSITIVE)), -math.ulp(0.0), math.ulp(0.0), *_POSITIVE)
)


def extent(bins: Bins, counts: NDArray[np.float64], *, stddev: float) -> tuple[float, float] | None:
    """Return the ends of the bins that contain more than noise, or None without such a bin.

    `counts` are those of `consistent`: 0 outside the bulk. Three standard deviations count as
    noise. So a few values may be outside the ends.

    >>> extent(Bins((0.0, 1.0, 2.0, 3.0)), np.array([0.0, 60.0, 40.0, 0.0]), stddev=5.0)
    (1.0, 3.0)
    """
    (inside,) = np.nonzero(counts > 3 * stddev)
    if not len(inside):
        return None
    return bins.edges[inside[0]], bins.edges[min(inside[-1] + 1, bins.size - 1)]


def consistent(counts: NDArray[np.int64], *, total: float, stddev: float) -> NDArray[np.float64]:
    """Return counts that are at least 0 and add up to `total`, near the noisy counts.

    Bins far from the bulk contain noise alone, and there are many. So the result is 0 outside the
    consecutive bins with the largest sum of `counts - stddev`. Inside, it is the nearest point with
    this total (Duchi et al. 2008, Figure 1). Both are post-processing and cost no budget.

    >>> consistent(np.array([3, 60, -8, 46, 3, -4, 5, 7]), total=100, stddev=5.0).tolist()
    [0.0, 57.0, 0.0, 43.0, 0.0, 0.0, 0.0, 0.0]
    """
    nearest = np.zeros(len(counts))
    wanted = max(float(total), 0.0)
    if not len(counts) or wanted == 0:
        return nearest
    start, end = _bulk(np.asarray(counts - stddev, dtype=np.float64))
    inside = counts[start:end].astype(float)
    ordered = np.sort(inside)[::-1]
    excess = (np.cumsum(ordered) - wanted) / np.arange(1, len(ordered) + 1)
    kept = int(np.flatnonzero(ordered - excess > 0)[-1])
    nearest[start:end] = np.maximum(inside - excess[kept], 0.0)
    return nearest


def _bulk(values: NDArray[np.float64]) -> tuple[int, int]:
    """Return the consecutive values with the largest sum, at least one, as a slice."""
    best, found, total, start = -math.inf, (0, 1), 0.0, 0
    for index, value in enumerate(values.tolist()):
        if total <= 0:
            total, start = 0.0, index
        total += value
        if total > best:
            best, found = total, (start, index + 1)
    return found
