"""Divides the bins of a column step by step, where its numbers or dates are.

The first histogram of a column has fixed bins that grow with the size of a number. So numbers with
a small spread beside their size, such as years of birth, fall into one or two of them. Each further
step divides the occupied bins into equal parts, in proportion to their counts, and counts again.

Guarantee: each step is one mechanism with an event that is fixed before the first draw. In one step
a record is in at most one bin of each histogram (`FinerBins`). The edges come from released counts
alone, so a step is an adaptive choice among mechanisms with the same event, and the events compose
as if the edges were fixed (docs/decisions/profile.md). Everything else here is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.profiling.bins import (
    LARGEST_NUMBER,
    NUMBERS,
    YEARS,
    ZERO,
    consistent,
    nearest,
    occupied,
)
from sugarbush.profiling.layout import NO_CELL

MOST_PARTS: Final = 32  # of a bin, in one step
# Parts get so many standard deviations of noise each, if the records of a bin are spread evenly.
_PART: Final = 2.0
_OUTSIDE: Final = 1.0  # standard deviations of noise that lie outside the ends, on each side
_LEAST_OUTSIDE: Final = 0.005  # share of the values
# An end bin with more of the values, and wider than this part of the span, is too wide: nobody
# knows where its values are.
_MOST_OUTSIDE: Final = 0.15
_WIDE: Final = 0.05
_FIRST_DAY, _CENTURY = date(1900, 1, 1).toordinal(), date(2000, 1, 1).toordinal()
_END_OF_DAYS: Final = date(2101, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """DP counts of numbers or days in the bins [edge, next edge), at least 0.

    `edges` has one number more than `counts`. The numbers of days are ordinals. `is_whole` says
    that all values are whole. `stddev` is about the noise of a count.

    >>> ages = Distribution(
    ...     edges=(18, 19, 20, 22, 24), counts=(30, 30, 35, 5), stddev=1, is_whole=True
    ... )
    >>> ages.quantiles((0.1, 0.5, 0.9)), ages.ends
    ((18, 19, 21), (18, 21))
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    stddev: float
    is_whole: bool
    is_days: bool = False

    @property
    def total(self) -> float:
        return sum(self.counts)

    def quantiles(self, shares: tuple[float, ...]) -> tuple[float, ...]:
        """Return the quantiles, as if values were spread evenly inside a bin."""
        return tuple(self._quantile(share) for share in shares)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Two values with nearly all values between them, or None if the bins are too wide.

        Both ends are inner edges of bins: the whole bin in which the count exceeds one standard
        deviation of the noise lies outside. So the ends are mostly between the smallest and the
        largest value. Both ends are equal if nearly all values are equal.
        """
        outside = max(_LEAST_OUTSIDE * self.total, _OUTSIDE * self.stddev)
        cumulated = np.cumsum(self.counts)
        first = int(np.searchsorted(cumulated, outside))
        last = min(int(np.searchsorted(cumulated, self.total - outside)), len(cumulated) - 1)
        if first == last and self._has_one_value(first):
            return self._value(first), self._value(first)
        low, high = self.edges[first + 1], self.edges[last] - (1 if self.is_whole else 0)
        if self._has_one_value(first):
            low = self._value(first)
        if self._has_one_value(last):
            high = self._value(last)
        low, high = (0.0 if abs(end) <= ZERO else end for end in (low, high))
        beyond = {first: cumulated[first], last: self.total - cumulated[last] + self.counts[last]}
        are_wide = any(
            not self._has_one_value(index)
            and share > _MOST_OUTSIDE * self.total
            and self.edges[index + 1] - self.edges[index] > _WIDE * (high - low)
            for index, share in beyond.items()
        )
        return (low, high) if low < high and not are_wide else None

    def _has_one_value(self, index: int) -> bool:
        width = self.edges[index + 1] - self.edges[index]
        return width <= 1 if self.is_whole else width <= 2 * ZERO

    def _value(self, index: int) -> float:
        return math.ceil(self.edges[index]) if self.is_whole else 0.0

    def _quantile(self, share: float) -> float:
        cumulated = np.cumsum(self.counts)
        target = share * self.total
        index = min(int(np.searchsorted(cumulated, target)), len(self.counts) - 1)
        if self._has_one_value(index):
            return self._value(index)
        before = float(cumulated[index - 1]) if index else 0.0
        inside = min(max((target - before) / self.counts[index], 0.0), 1.0)
        low, high = self.edges[index], self.edges[index + 1]
        value = low + (high - low) * inside
        return math.floor(value) if self.is_whole else value


@dataclass(frozen=True, kw_only=True)
class CountEstimate:
    """The counts of a column after some steps. `variances` are those of the counts."""

    edges: NDArray[np.float64]
    counts: NDArray[np.float64]
    variances: NDArray[np.float64]
    total: float
    is_whole: bool
    is_days: bool

    @property
    def distribution(self) -> Distribution:
        return Distribution(
            edges=tuple(map(float, self.edges)),
            counts=tuple(float(round(count, 3)) for count in self.counts),
            stddev=float(np.sqrt(self.variances.max())),
            is_whole=self.is_whole,
            is_days=self.is_days,
        )

    def divided(self, *, stddev: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the edges of the next step, and into how many pieces each bin is divided.

        `stddev` is the noise of the next counts. Only bins from the first to the last occupied one
        are divided. An empty bin between them stays whole.
        """
        edges, pieces = [self.edges[:1]], list[int]()
        for low, high, count in zip(self.edges, self.edges[1:], self.counts, strict=False):
            number = int(min(MOST_PARTS, max(1, round(count / (_PART * stddev)))))
            number = number if high - low > 2 * ZERO else 1
            inner = np.linspace(low, high, number + 1)[1:-1]
            inner = np.ceil(inner) if self.is_whole else inner
            found = np.unique([*inner[(inner > low) & (inner < high)], high])
            edges.append(found)
            pieces.append(len(found))
        return np.concatenate(edges), np.array(pieces)

    def after(
        self,
        edges: NDArray[np.float64],
        pieces: NDArray[np.int64],
        counts: NDArray[np.float64],
        *,
        stddev: float,
    ) -> CountEstimate:
        """Return the estimate from this one and from new counts in the bins of `divided`.

        A bin has two counts: its own count and the sum of its pieces. Its estimate is their mean
        with the inverse variances as weights. Its pieces share the difference equally, which is the
        estimate with the smallest variance (Hay, Rastogi, Miklau, Suciu 2010, Theorem 3). The
        pieces are then the nearest counts that are at least 0 and add up to their bin.
        """
        starts = np.cumsum(pieces) - pieces
        sums = np.add.reduceat(counts, starts)
        weights, of_sums = 1 / self.variances, 1 / (pieces * stddev**2)
        mean = (weights * self.counts + of_sums * sums) / (weights + of_sums)
        is_used = self.counts > 0
        whole = np.zeros(len(mean))
        whole[is_used] = nearest(mean[is_used], total=self.total)
        counted = counts + np.repeat((whole - sums) / pieces, pieces)
        inside = [
            nearest(counts[start : start + number], total=total)
            for start, number, total in zip(starts, pieces, whole, strict=True)
        ]
        variances = stddev**2 * (1 - 1 / pieces) + 1 / (weights + of_sums) / pieces**2
        finer = replace(
            self,
            edges=edges,
            counts=np.concatenate(inside),
            variances=np.repeat(variances, pieces),
        )
        return finer.trimmed(counted, stddev=stddev)

    def trimmed(self, counted: NDArray[np.float64], *, stddev: float) -> CountEstimate:
        """Return the estimate without the outer bins that contain no more than noise.

        Their counts are small, but positive, and many of them together would move the ends.
        """
        inside = np.flatnonzero(occupied(counted, stddev=stddev))
        first, end = inside[0], inside[-1] + 1
        counts = self.counts[first:end]
        if counts.sum() <= 0:
            counts = np.ones(end - first)
        return replace(
            self,
            edges=self.edges[first : end + 1],
            counts=counts * (self.total / counts.sum()),
            variances=self.variances[first:end],
        )


def of_numbers(
    counts: NDArray[np.int64], *, total: float, stddev: float, whole: bool
) -> CountEstimate:
    """Return the first estimate, from counts in NUMBERS.

    `whole` leaves out the bins without a whole number. Otherwise, their noise hides the next
    occupied bin: there are 18 of them between 0 and 1.
    """
    edges = np.array([*NUMBERS.edges, LARGEST_NUMBER])
    if whole:
        used = NUMBERS.whole
        edges = np.ceil(np.array([*edges[used], LARGEST_NUMBER]))
        counts = counts[used]
    return _first(edges, counts, total=total, stddev=stddev, is_whole=whole)


def of_days(
    years: NDArray[np.int64],
    numbers: NDArray[np.int64],
    *,
    total: float,
    stddev: float,
    as_numbers: bool,
) -> CountEstimate:
    """Return the first estimate of the days of dates, from counts in YEARS, or from counts in
    NUMBERS if most dates are numbers such as 20240131."""
    if as_numbers:
        edges = np.array([_FIRST_DAY, _CENTURY, _END_OF_DAYS], dtype=np.float64)
        bins = [NUMBERS.of(1.9e7), NUMBERS.of(2e7)]
        counts = numbers[bins]
    else:
        days = [date(int(year), 1, 1).toordinal() for year in YEARS.edges]
        edges, counts = np.array([*days, _END_OF_DAYS], dtype=np.float64), years
    return _first(edges, counts, total=total, stddev=stddev, is_whole=True, is_days=True)


def _first(
    edges: NDArray[np.float64],
    counts: NDArray[np.int64],
    *,
    total: float,
    stddev: float,
    is_whole: bool,
    is_days: bool = False,
) -> CountEstimate:
    found = consistent(counts, total=total, stddev=stddev)
    (inside,) = np.nonzero(found)
    first, end = inside[0], inside[-1] + 1
    return CountEstimate(
        edges=edges[first : end + 1],
        counts=found[first:end],
        variances=np.full(end - first, stddev**2),
        total=total,
        is_whole=is_whole,
        is_days=is_days,
    )


def copies(quantities: int, *, histograms: int) -> int:
    """Return how often each quantity is counted, so that all have at most `histograms`."""
    return histograms // max(quantities, 1)


@dataclass(frozen=True, kw_only=True)
class FinerBins:
    """The bins of one step. `edges` maps the number of a quantity to its edges.

    A record is in at most one bin of each histogram. There are at most `histograms` of them. With
    fewer quantities, each is counted several times, and the mean of its counts has less noise.

    >>> bins = FinerBins(edges={1: np.array([0.0, 5.0, 9.0])}, histograms=2)
    >>> bins.cells(np.array([[7.0, 4.0], [7.0, 9.0], [7.0, np.nan]])).tolist()
    [[0, 2], [-1, -1], [-1, -1]]
    >>> bins.means(np.array([10, 3, 12, 5]))[1].tolist()
    [11.0, 4.0]
    """

    edges: Mapping[int, NDArray[np.float64]]
    histograms: int

    @property
    def copies(self) -> int:
        return copies(len(self.edges), histograms=self.histograms)

    @property
    def size(self) -> int:
        return self.copies * sum(len(edges) - 1 for edges in self.edges.values())

    def cells(self, quantities: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the bins of each record, a row each, for `mechanisms.noisy_counts`.

        Each row depends on its record alone. NaN and a number outside the edges are in no bin.
        """
        rows = np.full((len(quantities), self.histograms), NO_CELL, dtype=np.int32)
        start = at = 0
        for number, edges in self.edges.items():
            found = np.searchsorted(edges, quantities[:, number], side="right") - 1
            is_inside = (found >= 0) & (found < len(edges) - 1)
            for _ in range(self.copies):
                rows[:, at] = np.where(is_inside, start + found, NO_CELL)
                start, at = start + len(edges) - 1, at + 1
        return rows

    def means(self, counts: NDArray[np.int64]) -> dict[int, NDArray[np.float64]]:
        """Return the mean counts of each quantity in its bins."""
        means, start = {}, 0
        for number, edges in self.edges.items():
            end = start + self.copies * (len(edges) - 1)
            means[number] = counts[start:end].reshape(self.copies, -1).mean(axis=0)
            start = end
        return means
