"""Mechanisms convert Private to Released values. The charge comes before the noise.

`session` is a `PrivacySession`, which charges each draw, or the `PlannedDraws` of
`PrivacySession.planned` or `PrivacySession.parallel`, which pay for many draws at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.privacy.data_types import Private, Released, as_released_array
from sugarbush.privacy.events import DiscreteGaussian, NonPrivate, ThresholdedGaussian
from sugarbush.privacy.noise import discrete_gaussian
from sugarbush.privacy.session import ChargingSession
from sugarbush.privacy.shards import Shards
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
    session.check([event], block=bins.block)
    counts = _counts(bins, size)
    charge = session.charge(event, block=bins.block)
    noisy = discrete_gaussian(counts, stddev=stddev, sensitivity=float(sensitivity))
    return as_released_array(noisy, (charge,))


def noisy_counts(
    cells: Private[NDArray[np.int32]],
    *,
    size: int,
    cells_per_record: int,
    stddev: float,
    session: ChargingSession,
) -> Released[NDArray[np.int64]]:
    """Count the records in each of `size` cells, with noise: `(size,)` int64.

    A record may be in several cells, for example in one bin of each of several histograms.

    Guarantee: the function checks that a record is in at most k = `cells_per_record` distinct
    cells. A unit has at most m = `session.records_per_unit` records. So one unit changes the counts
    by at most m*sqrt(k) in L2: if it adds c_j <= m to cell j, then sum c_j^2 <= m * sum c_j <=
    m * m*k. The event is k histograms with sensitivity m each, which has the same mu. The charge is
    on disk before the noise is drawn.

    `cells` contains one row of k integers below `size` per record; -1 is no cell. The row must
    depend on its record alone. Raises InvariantError for another shape, a cell outside the range or
    a repeated cell. Raises BudgetExceededError before anything is counted.
    """
    units = session.records_per_unit
    event = DiscreteGaussian(stddev=stddev, sensitivity=units, count=cells_per_record)
    session.check([event], block=cells.block)
    counts = _cell_counts(cells, size, cells_per_record)
    charge = session.charge(event, block=cells.block)
    # each of the k histograms has its own event, so one count is compared with sensitivity m
    noisy = discrete_gaussian(counts, stddev=stddev, sensitivity=float(units))
    return as_released_array(noisy, (charge,))


def noisy_set(
    items: Private[tuple[str, ...]],
    *,
    items_per_record: int,
    stddev: float,
    delta: float,
    session: ChargingSession,
) -> Released[dict[str, int]]:
    """Release the items that many records have, with noisy counts, sorted by item.

    The items come from the private records, so nobody needs to list them before (DP set union).
    Items with a noisy count below `set_threshold` stay unknown.

    Guarantee: a record counts at most k = `items_per_record` distinct items, and a unit has at most
    m = `session.records_per_unit` records. Let D' have one unit more than D. *Items that D has,
    too*: as in `noisy_counts`, their counts change by at most m*sqrt(k) in L2, which k histograms
    with sensitivity m pay for. Selecting the counts above the threshold is post-processing. *Items
    that only this unit has*: on D, they are never released. On D', item i with count c_i is
    released with probability f(c_i) = P(c_i + N_Z >= T). The c_i are at most m and add up to at
    most m*k. So the probability of any release is at most sum f(c_i) = sum c_i * f(c_i)/c_i <=
    m*k * max_{1<=c<=m} f(c)/c, and `set_threshold` chooses T so that this is at most `delta`. The
    noise of different items is independent, so the mechanism is the composition of the Gaussian
    part and of a (0, delta)-DP part. Source: Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin
    2020, "Differentially Private Set Union", for continuous noise; here with the exact tail of
    N_Z. OpenDP's `make_gaussian_threshold` states a smaller delta than it has (0.14;
    docs/decisions/profile.md), so it is not used.

    `items` contains one tuple of items per record, which must depend on this record alone. Raises
    InvariantError if a tuple is longer than k or repeats an item. Raises BudgetExceededError before
    anything is counted.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import sugarbush as sb
    >>> stars = sb.Private([("good",)] * 500 + [("bad",)] * 400 + [("rare",)])
    >>> with tempfile.TemporaryDirectory() as state:
    ...     session = sb.PrivacySession(
    ...         ledger=sb.open_ledger("reviews", state=Path(state)), stage="values", run="1")
    ...     found = noisy_set(stars, items_per_record=1, stddev=8.0, delta=1e-8, session=session)
    >>> list(found.value)
    ['bad', 'good']
    """
    units = session.records_per_unit
    event = ThresholdedGaussian(
        stddev=stddev, delta=delta, sensitivity=units, count=items_per_record
    )
    threshold = set_threshold(
        stddev=stddev, delta=delta, items_per_record=items_per_record, records_per_unit=units
    )
    session.check([event], block=items.block)
    counts = _counts_of_items(items._per_unit, items_per_record)
    names = sorted(counts)
    charge = session.charge(event, block=items.block)
    exact = np.array([counts[name] for name in names], dtype=np.int64)
    noisy = discrete_gaussian(exact, stddev=stddev, sensitivity=float(units))
    released = {
        name: int(count) for name, count in zip(names, noisy, strict=True) if count >= threshold
    }
    return Released(released, (charge,))


@lru_cache(maxsize=64)
def set_threshold(
    *, stddev: float, delta: float, items_per_record: int, records_per_unit: int = 1
) -> int:
    """Return the smallest noisy count that `noisy_set` releases.

    >>> set_threshold(stddev=10.0, delta=1e-9, items_per_record=1)
    62
    """
    total = items_per_record * records_per_unit

    def probability(threshold: int) -> float:
        return max(
            total / count * _tail(stddev, threshold - count)
            for count in range(1, records_per_unit + 1)
        )

    low, high = records_per_unit, records_per_unit + 1
    while probability(high) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if probability(middle) <= delta else (middle, high)
    return high


def _tail(stddev: float, least: int) -> float:
    """Return P(N_Z(0, stddev^2) >= `least`), rounded up."""
    if least <= 0:
        return 1.0
    far = least + math.ceil(12 * stddev) + 2
    numbers = np.arange(max(far, math.ceil(40 * stddev)), dtype=np.float64)
    weights = np.exp(-(numbers**2) / (2 * stddev**2))
    whole = 2 * weights[1:].sum() + 1.0  # one number beyond the range adds less than a rounding
    tail = weights[least:].sum()
    # the rest of the tail is a fraction exp(-12^2/2) of it, because the weights fall faster
    return min(1.0, float(tail / whole) * (1 + 1e-9) + 1e-300)


def _cell_counts(cells: Private[Any], size: int, per_record: int) -> NDArray[np.int64]:
    count_shard = partial(_counts_of_cells, size=size, per_record=per_record)
    per_unit = cells._per_unit
    if isinstance(per_unit, Shards):
        return per_unit.total(count_shard)
    return count_shard(np.asarray(per_unit))


def _counts_of_cells(rows: NDArray[Any], size: int, per_record: int) -> NDArray[np.int64]:
    if not len(rows):
        return np.zeros(size, dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != per_record or rows.dtype.kind != "i":
        raise InvariantError(f"every record must have {per_record} cells")
    ordered = np.sort(rows, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if ordered[:, 0].min() < -1 or ordered[:, -1].max() >= size or repeated.any():
        raise InvariantError("the cells of a record must be distinct, and between 0 and size-1")
    counted: NDArray[np.int64] = np.bincount(rows[rows >= 0].ravel(), minlength=size)
    return counted


def _counts_of_items(rows: Iterable[tuple[str, ...]], per_record: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in rows:
        if len(row) > per_record or len(set(row)) < len(row):
            raise InvariantError(f"a record must have at most {per_record} distinct items")
        counts.update(row)
    return counts


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
    session.check([event], block=records.block)
    sums = _summed(records, scores, size, record_l2_sensitivity)
    charge = session.charge(event, block=records.block)
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
    sum_shard = partial(_summed_here, scores=scores, size=size, norm=norm)
    per_unit = records._per_unit
    return per_unit.total(sum_shard) if isinstance(per_unit, Shards) else sum_shard(per_unit)


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
    count_shard, per_unit = partial(_counts_here, size=size), bins._per_unit
    return per_unit.total(count_shard) if isinstance(per_unit, Shards) else count_shard(per_unit)


def _counts_here(bins: Any, *, size: int) -> NDArray[Any]:
    chosen = np.asarray(bins, dtype=np.int64)
    if chosen.ndim != 1 or (len(chosen) and not (chosen.min() >= 0 and chosen.max() < size)):
        raise InvariantError("every record must have one bin between 0 and size-1")
    counts: NDArray[Any] = np.bincount(chosen, minlength=size)
    return counts
