"""Noisy distances between private records and public histograms.

A histogram with noise on every cell shows more than its distance from a reference needs, and the
noise of many cells makes a small distance look large. This mechanism computes the distance first
and adds the noise of one number. It computes with fractions of integers, so no rounding of a float
can exceed the sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.privacy.data_types import Private, Released, as_released_array
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.noise import discrete_gaussian
from sugarbush.privacy.session import ChargingSession
from sugarbush.privacy.shards import Shards

Histogram = NDArray[np.int64]  # public counts of the values of a reference, `(values,)`


def noisy_histogram_distances(
    cells: Private[NDArray[np.int32]],
    *,
    queries: Sequence[Sequence[Histogram]],
    counted: bool,
    stddev: float,
    session: ChargingSession,
) -> Released[NDArray[np.int64]]:
    """Measure the distance of records from public histograms, one number per query, `(q,)` int64.

    With `counted`, the first number is the number of records, `(1 + q,)`. A query is a list of
    histograms, and its number is the mean of their distances, rounded down. The distance from a
    histogram with shares q_v is sum_v |c_v - n q_v| / 2, where c_v records are in cell v, and n in
    any cell. This is n times the total variation distance: the number of records that must move to
    another cell until the shares agree.

    Guarantee: adding one record to cell v changes the vector (c_w - n q_w) by 1 - q_v at w = v, and
    by -q_w at every other w. So the L1 norm changes by at most (1 - q_v) + (1 - q_v) <= 2, and the
    distance by at most 1. A record without a cell changes nothing. A mean of such distances changes
    by at most 1, too. A unit has at most m = `session.records_per_unit` records, so it changes the
    mean by at most m. If x changes by at most the integer m, so does floor(x). The number of
    records changes by at most m, too. So the event is one histogram with sensitivity m for each
    number. Distances are computed as fractions, without rounding. The charge is on disk before the
    noise is drawn.

    `cells` contains one row per record: for each histogram of all queries in order, the record's
    cell, or -1 for none. The row must depend on its record alone. Raises InvariantError for another
    shape, a cell outside its histogram, or a histogram without positive counts. Raises
    BudgetExceededError before anything is counted.
    """
    units = session.records_per_unit
    histograms = [histogram for query in queries for histogram in query]
    if not queries or not all(queries):
        raise InvariantError("every query needs a histogram")
    for histogram in histograms:
        if histogram.ndim != 1 or histogram.dtype.kind != "i" or histogram.sum() <= 0:
            raise InvariantError("a histogram needs integers with a positive sum")
        if histogram.min() < 0:
            raise InvariantError("a public count is negative")
    event = DiscreteGaussian(stddev=stddev, sensitivity=units, count=counted + len(queries))
    session.check([event], block=cells.block)
    count_shard = partial(_counts, sizes=[len(histogram) for histogram in histograms])
    per_unit = cells._per_unit
    if isinstance(per_unit, Shards):
        counts = per_unit.total(count_shard)
    else:
        counts = count_shard(np.asarray(per_unit))
    distances = _distances(counts[1:], histograms)
    numbers = [int(counts[0])] if counted else []
    for query in queries:
        mean = sum((next(distances) for _ in query), Fraction()) / len(query)
        numbers.append(math.floor(mean))
    charge = session.charge(event, block=cells.block)
    # each number has its own event, so one number is compared with sensitivity m
    noisy = discrete_gaussian(np.array(numbers), stddev=stddev, sensitivity=float(units))
    return as_released_array(noisy, (charge,))


def _counts(rows: NDArray[Any], *, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the number of rows, and then the exact histograms, one after the other."""
    if not len(rows):
        rows = np.empty((0, len(sizes)), dtype=np.int32)
    if rows.ndim != 2 or rows.shape[1] != len(sizes) or rows.dtype.kind != "i":
        raise InvariantError(f"every record must have {len(sizes)} cells")
    counts = [np.array([len(rows)])]
    for column, size in zip(rows.T, sizes, strict=True):
        if len(column) and (column.min() < -1 or column.max() >= size):
            raise InvariantError("every record must have one cell of each histogram, or -1")
        counts.append(np.bincount(column[column >= 0], minlength=size))
    return np.concatenate(counts)


def _distances(counts: NDArray[np.int64], histograms: Sequence[Histogram]) -> Iterator[Fraction]:
    ends = np.cumsum([len(histogram) for histogram in histograms])
    for exact, histogram in zip(np.split(counts, ends[:-1]), histograms, strict=True):
        private, public = exact.tolist(), histogram.tolist()
        records, total = sum(private), sum(public)
        moved = sum(
            abs(total * own - records * other) for own, other in zip(private, public, strict=True)
        )
        yield Fraction(moved, 2 * total)
