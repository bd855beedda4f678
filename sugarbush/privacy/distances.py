"""Noisy distances between private records and a public reference.

A histogram with noise on every cell shows more than its distance from a reference needs, and the
noise of many cells makes a small distance look large. These mechanisms compute the distance first
and add the noise of one number. Both compute in integers, so no rounding of a float can exceed a
sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.privacy.data_types import Private, Released, as_released_array
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.mechanisms import _summed
from sugarbush.privacy.noise import discrete_gaussian
from sugarbush.privacy.parts import Parts
from sugarbush.privacy.session import ChargingSession

Histogram = NDArray[np.int64]  # public counts of the values of a reference, `(values,)`


def noisy_histogram_distances(
    cells: Private[NDArray[np.int32]],
    *,
    queries: Sequence[Sequence[Histogram]],
    stddev: float,
    session: ChargingSession,
) -> Released[NDArray[np.int64]]:
    """Count the records, and measure their distance from public histograms: `(1 + q,)` int64.

    The first number is the number of records. A query is a list of histograms, and its number is
    the mean of their distances, rounded down. The distance from a histogram with shares q_v is
    sum_v |c_v - n q_v| / 2, where c_v records are in cell v, and n in any cell. This is n times the
    total variation distance: as many records must move to another cell, so that the shares agree.

    Guarantee: adding one record to cell v changes the vector (c_w - n q_w) by 1 - q_v at w = v, and
    by -q_w at every other w. So the L1 norm changes by at most (1 - q_v) + (1 - q_v) <= 2, and the
    distance by at most 1. A record without a cell changes nothing. A mean of such distances changes
    by at most 1, too. A unit has at most m = `session.records_per_unit` records, which change it by
    at most m. If two real numbers differ by at most the integer m, then so do the integers below
    them. So each of the 1 + q numbers changes by at most m, and the event is 1 + q histograms with
    sensitivity m. Distances are computed as fractions, without rounding. The charge is on disk
    before the noise is drawn.

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
    event = DiscreteGaussian(stddev=stddev, sensitivity=units, count=1 + len(queries))
    session.check([event], part=cells.part)
    rows = np.asarray(cells._per_unit)
    distances = iter(_distances(rows, histograms))
    numbers = [len(rows)]
    for query in queries:
        mean = sum((next(distances) for _ in query), Fraction()) / len(query)
        numbers.append(math.floor(mean))
    charge = session.charge(event, part=cells.part)
    # each number has its own event, so one number is compared with sensitivity m
    noisy = discrete_gaussian(np.array(numbers), stddev=stddev, sensitivity=float(units))
    return as_released_array(noisy, (charge,))


def _distances(rows: NDArray[Any], histograms: Sequence[Histogram]) -> Iterator[Fraction]:
    if not len(rows):
        rows = np.empty((0, len(histograms)), dtype=np.int32)
    if rows.ndim != 2 or rows.shape[1] != len(histograms) or rows.dtype.kind != "i":
        raise InvariantError(f"every record must have {len(histograms)} cells")
    for column, histogram in zip(rows.T, histograms, strict=True):
        if len(column) and (column.min() < -1 or column.max() >= len(histogram)):
            raise InvariantError("every record must have one cell of each histogram, or -1")
        counts = np.bincount(column[column >= 0], minlength=len(histogram)).tolist()
        public = histogram.tolist()
        records, total = sum(counts), sum(public)
        moved = sum(
            abs(total * own - records * other) for own, other in zip(counts, public, strict=True)
        )
        yield Fraction(moved, 2 * total)


def distance_sensitivity(record_l2_norm: int) -> int:
    """Return the sensitivity of `noisy_mean_distance` to one record: sqrt(2) norms, rounded up.

    >>> distance_sensitivity(1), distance_sensitivity(4096)
    (2, 5793)
    """
    return math.isqrt(2 * record_l2_norm**2 - 1) + 1


def noisy_mean_distance(
    records: Private[Any],
    *,
    scores: Callable[[Any], Iterable[NDArray[Any]]],
    reference: Histogram,
    reference_records: int,
    record_l2_norm: int,
    stddev: float,
    session: ChargingSession,
) -> Released[NDArray[np.int64]]:
    """Measure |sum_i s_i - n r| with noise, `(1,)` int64, in the unit of the scores.

    s_i are the `scores` of record i, n is the number of records, and r = `reference` /
    `reference_records` is a public mean score. Divided by n, the result is the distance of two mean
    scores: the maximum mean discrepancy of the kernel <s_i, s_j> (Gretton et al. 2012, Lemma 4).

    Guarantee: the function checks that all scores are integers that are not negative, with an L2
    norm of at most b = `record_l2_norm`, and that r has such a norm, too. One more record x changes
    the vector by s_x - r. Both have no negative coordinate, so |s_x - r|^2 = |s_x|^2 + |r|^2 -
    2<s_x, r> <= 2 b^2. By the triangle inequality, a unit with m = `session.records_per_unit`
    records changes the norm by at most m sqrt(2) b <= m k, where k = `distance_sensitivity(b)` is
    an integer. So the norm rounded down changes by at most m k. It is computed exactly, because
    floor(sqrt(a) / t) = isqrt(floor(a / t^2)) for integers a and t. The charge is on disk before
    the noise is drawn.

    `scores` and its errors are those of `mechanisms.noisy_sum`. Raises InvariantError for a
    negative score, or a reference that is not a mean of such scores. Raises BudgetExceededError
    before anything is summed.
    """
    bound, norm = distance_sensitivity(record_l2_norm), record_l2_norm
    public = [int(value) for value in reference]
    if reference_records < 1 or min(public, default=-1) < 0:
        raise InvariantError("the reference needs records, and scores that are not negative")
    if sum(value**2 for value in public) > (norm * reference_records) ** 2:
        raise InvariantError("the L2 norm of the reference is above the bound")

    def checked(batch: Any) -> Iterator[NDArray[Any]]:
        for rows in scores(batch):
            if rows.min(initial=0) < 0:
                raise InvariantError("a score is negative")
            yield rows

    sensitivity = bound * session.records_per_unit
    event = DiscreteGaussian(stddev=stddev, sensitivity=sensitivity)
    session.check([event], part=records.part)
    sums = _summed(records, checked, len(public), norm).tolist()
    count = _length(records)
    squares = sum(
        (reference_records * own - count * other) ** 2
        for own, other in zip(sums, public, strict=True)
    )
    exact = math.isqrt(squares // reference_records**2)
    charge = session.charge(event, part=records.part)
    noisy = discrete_gaussian(np.array([exact]), stddev=stddev, sensitivity=float(sensitivity))
    return as_released_array(noisy, (charge,))


def _length(records: Private[Any]) -> int:
    per_unit = records._per_unit
    return sum(per_unit.sizes) if isinstance(per_unit, Parts) else len(per_unit)
