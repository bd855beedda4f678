"""Mechanisms convert Private to Released values. The charge comes before the noise.

`session` is a `PrivacySession`, which charges each draw, or the `PlannedDraws` of
`PrivacySession.planned` or `PrivacySession.parallel`, which pay for many draws at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.privacy.data_types import Private, Released, as_released_array
from sugarbush.privacy.events import DiscreteGaussian, NonPrivate
from sugarbush.privacy.noise import discrete_gaussian
from sugarbush.privacy.parts import Parts
from sugarbush.privacy.session import ChargingSession
from sugarbush.threads import blocks, run_in_threads, thread_count

_BLOCK_ROWS = 512  # records per call of `scores`
_LARGEST_NORM = 2**26


def noisy_histogram(
    bins: Private[int], *, size: int, stddev: float, session: ChargingSession
) -> Released[NDArray[np.int64]]:
    """Count the records in each of `size` bins, with noise: `(size,)` int64.

    Noisy counts may be negative.

    Guarantee: a unit has at most m = `session.records_per_unit` records, and a record is in one
    bin. Adding or removing a unit therefore changes the histogram by at most m in L2. Each count
    gets noise N_Z(0, stddev^2). With continuous noise, the mechanism would be (m/stddev)-GDP; the
    accounting also covers the discreteness. The charge is on disk before the noise is drawn. The
    charge comes after the slow count, because a crash while counting must not spend budget.

    `bins` contains one integer in [0, size) per record. The integer must depend on its record
    alone. Raises BudgetExceededError before anything is counted.

    >>> import math, tempfile
    >>> from pathlib import Path
    >>> from sugarbush.privacy.ledger import Ledger
    >>> from sugarbush.privacy.session import PrivacySession
    >>> from sugarbush.privacy.unit import Unit
    >>> with tempfile.TemporaryDirectory() as state:
    ...     ledger = Ledger(
    ...         Path(state), dataset="tickets", purpose="release", unit=Unit.RECORD,
    ...         cap=math.inf, delta=1e-6,
    ...     )
    ...     session = PrivacySession(ledger=ledger, stage="count", run="1")
    ...     counts = noisy_histogram(Private([0, 2, 2]), size=4, stddev=5.0, session=session)
    >>> counts.value.shape, len(counts.ledger_ids)
    ((4,), 1)
    """
    sensitivity = session.records_per_unit
    event = DiscreteGaussian(stddev=stddev, sensitivity=sensitivity)
    session.check([event], part=bins.part)
    counts = _counts(bins, size)
    charge = session.charge(event, part=bins.part)
    noisy = discrete_gaussian(counts, stddev=stddev, sensitivity=float(sensitivity))
    return as_released_array(noisy, (charge,))


def exact_histogram(
    bins: Private[int], *, size: int, session: ChargingSession
) -> Released[NDArray[np.int64]]:
    """Count as in `noisy_histogram`, but without noise: `(size,)` int64.

    Guarantee: none. Every finite cap refuses the `NonPrivate` charge, because its epsilon is
    infinite.
    """
    session.check([NonPrivate()])
    counts = _counts(bins, size)
    return as_released_array(counts, (session.charge(NonPrivate()),))


def noisy_sum(
    records: Private[Any],
    *,
    scores: Callable[[Any], Iterable[NDArray[Any]]],
    size: int,
    record_l2_sensitivity: int,
    stddev: float,
    session: ChargingSession,
) -> Released[NDArray[np.int64]]:
    """Sum the `scores` of all records, with noise: `(size,)` int64. Sums may be negative.

    Guarantee: the function checks that a record adds integers with L2 norm at most
    `record_l2_sensitivity`. The sensitivity to one unit is `record_l2_sensitivity` *
    `session.records_per_unit`. Each sum gets noise N_Z(0, stddev^2). Each coordinate is Gaussian
    DP, and the squares of the coordinates' mu add up to (sensitivity / stddev)^2
    (docs/decisions/kernel-scores.md). The charge is on disk before the noise is drawn. The charge
    comes after the slow sum, because a crash while summing must not spend budget.

    `scores` maps a slice of `records` (an array, or a batch with slices) to integers (n, size), in
    consecutive arrays of some rows. Row i must depend on record i alone. Several threads call
    `scores`. `stddev` is in the unit of the scores. Raises BudgetExceededError before anything is
    summed. Raises InvariantError if rows are missing, are not integers or have a larger L2 norm
    than `record_l2_sensitivity`. Also raises InvariantError if `record_l2_sensitivity` > 2^26.
    """
    sensitivity = record_l2_sensitivity * session.records_per_unit
    event = DiscreteGaussian(stddev=stddev, sensitivity=sensitivity)
    session.check([event], part=records.part)
    sums = _summed(records, scores, size, record_l2_sensitivity)
    charge = session.charge(event, part=records.part)
    noisy = discrete_gaussian(sums, stddev=stddev, sensitivity=float(sensitivity))
    return as_released_array(noisy, (charge,))


def exact_sum(
    records: Private[Any],
    *,
    scores: Callable[[Any], Iterable[NDArray[Any]]],
    size: int,
    record_l2_sensitivity: int,
    session: ChargingSession,
) -> Released[NDArray[np.int64]]:
    """Sum as in `noisy_sum`, but without noise. Guarantee: none, as for `exact_histogram`."""
    session.check([NonPrivate()])
    sums = _summed(records, scores, size, record_l2_sensitivity)
    charge = session.charge(NonPrivate())
    return as_released_array(sums, (charge,))


def _summed(
    records: Private[Any],
    scores: Callable[[Any], Iterable[NDArray[Any]]],
    size: int,
    norm: int,
) -> NDArray[np.int64]:
    if norm > _LARGEST_NORM:
        raise InvariantError(
            f"record_l2_sensitivity is above {_LARGEST_NORM}: sums of squares would be inexact"
        )
    sum_part = partial(_summed_here, scores=scores, size=size, norm=norm)
    per_unit = records._per_unit
    return per_unit.total(sum_part) if isinstance(per_unit, Parts) else sum_part(per_unit)


def _summed_here(
    vectors: Any, *, scores: Callable[[Any], Iterable[NDArray[Any]]], size: int, norm: int
) -> NDArray[np.int64]:
    total, lock = np.zeros(size, dtype=np.int64), Lock()

    def add(span: slice) -> None:
        block, done = _rows(vectors[span]), 0
        sums = np.zeros(size, dtype=np.int64)
        for rows in scores(block):
            if rows.dtype.kind != "i" or rows.shape[1:] != (size,):
                raise InvariantError("scores must be integers, `size` of them per record")
            sums += _sum_of_bounded(rows, norm)
            done += len(rows)
        if done != len(block):
            raise InvariantError("scores must have one row per record")
        with lock:
            np.add(total, sums, out=total)

    every = blocks(len(vectors), _BLOCK_ROWS)
    run_in_threads(add, every, threads=thread_count(), what="scores of the records")
    return total


def _rows(batch: Any) -> Any:
    """Return a slice of the records. A list of rows becomes an array."""
    return np.asarray(batch) if isinstance(batch, list) else batch


def _sum_of_bounded(rows: NDArray[Any], norm: int) -> NDArray[np.int64]:
    """Check the L2 norms of integer rows, and sum the rows.

    float64 arithmetic suffices for norm <= 2^26. A squared norm below 2^53 is computed exactly. A
    larger squared norm is above 2^52 after rounding, so the row is refused. The sum of at most 512
    accepted rows has entries of at most 2^35, which are exact in any order.
    """
    numbers = rows.astype(np.float64)
    if not np.vecdot(numbers, numbers).max(initial=0) <= norm**2:
        raise InvariantError("the L2 norm of a record's scores is above the bound")
    sums = np.ones(len(rows)) @ numbers
    return sums.astype(np.int64)


def _counts(bins: Private[int], size: int) -> NDArray[Any]:
    count_part, per_unit = partial(_counts_here, size=size), bins._per_unit
    return per_unit.total(count_part) if isinstance(per_unit, Parts) else count_part(per_unit)


def _counts_here(bins: Any, *, size: int) -> NDArray[Any]:
    chosen = np.asarray(bins, dtype=np.int64)
    if chosen.ndim != 1 or (len(chosen) and not (chosen.min() >= 0 and chosen.max() < size)):
        raise InvariantError("every record must have one bin between 0 and size-1")
    counts: NDArray[Any] = np.bincount(chosen, minlength=size)
    return counts
