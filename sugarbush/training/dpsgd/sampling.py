"""Draws Poisson samples of units, and plans a public schedule.

This module is on the audit list. The number of units is private. So the sampling rate and the
number of steps depend on the *DP* record count or on a setting. Sums are divided by the expected
batch size, which is public. No function reports the number of sampled units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sugarbush.errors import ParamsError
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.noise import poisson_sample, secret_choice, secret_order

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A plan of `steps` Poisson samples at `rate`. Each sum is divided by `expected_batch_size`."""

    rate: float
    steps: int
    expected_batch_size: float


def make_schedule(*, batch_size: float, epochs: float, unit_count: float) -> Schedule:
    """Plan `epochs` passes over about `unit_count` units, with `batch_size` units per step.

    `unit_count` is public, because it is a DP estimate or a setting. If `unit_count` is below
    `batch_size`, every unit is in every step. Raises ParamsError when there is nothing to train on.
    """
    if not unit_count >= 1:
        raise ParamsError(
            f"the DP record count is {unit_count:.0f} records or users, too few to fine-tune on. "
            "Set methods.dpft.records, or leave dpft out of methods."
        )
    rate = min(1.0, batch_size / unit_count)
    return Schedule(
        rate=rate, steps=max(1, round(epochs / rate)), expected_batch_size=rate * unit_count
    )


class PoissonSampler(Generic[T]):
    """Draws a secret batch for each step.

    A unit has one or more examples. Each unit is in the batch independently with probability
    `rate`. A unit in the batch contributes one of its examples. The choice of the example is also
    secret. So a unit adds at most one clipped gradient to a step. The units are divided among
    `world_size` processes. The samples of all processes together are one Poisson sample.
    """

    def __init__(
        self, units: Private[Sequence[T]], *, rate: float, rank: int = 0, world_size: int = 1
    ) -> None:
        self._units = units._per_unit[rank::world_size]
        self._rate = rate

    def draw(self) -> list[T]:
        """Return the private batch of one step. The batch may be empty."""
        drawn = (self._units[i] for i in poisson_sample(len(self._units), rate=self._rate))
        return [unit[secret_choice(len(unit))] for unit in drawn if unit]


def micro_batches(
    batch: Sequence[T], *, size_of: Callable[[T], int], capacity: int
) -> Iterator[Sequence[T]]:
    """Split a batch so that each micro-batch fits into the device's memory.

    In each micro-batch, the number of examples times the largest size is at most `capacity`.
    Examples of similar size are in the same micro-batch, so that little padding is needed. An
    example that is larger than `capacity` is the only one of its micro-batch. An empty batch has
    none.
    """
    ordered = sorted(batch, key=size_of, reverse=True)
    start = 0
    while start < len(ordered):
        number = max(1, capacity // max(1, size_of(ordered[start])))
        yield ordered[start : start + number]
        start += number


@dataclass(frozen=True)
class BatchShape:
    """The shape of a micro-batch: the number of rows, and the number of tokens of each.

    At most `capacity` rows have a record.
    """

    records: int
    length: int

    @property
    def capacity(self) -> int:
        return max(1, self.records - 1)


def batch_shapes(*, max_length: int, capacity: int) -> tuple[BatchShape, ...]:
    """Return the shapes of micro-batches for records of up to `max_length` tokens, shortest first.

    The lengths are a quarter and a half of `max_length`, rounded up to a multiple of 8, and
    `max_length` itself, which the model can read.
    Both arguments are public settings. A shape has at most `capacity` tokens, or one record.
    """
    lengths = sorted(
        {min(max_length, -(-max_length // (8 * divisor)) * 8) for divisor in (4, 2, 1)}
    )
    return tuple(BatchShape(max(1, capacity // length), length) for length in lengths)


def batches_of_fixed_shape(
    batch: Sequence[T], *, size_of: Callable[[T], int], shapes: Sequence[BatchShape]
) -> Iterator[tuple[BatchShape, Sequence[T]]]:
    """Split a batch into micro-batches of public shapes, in a secret uniform order.

    A record is in the shortest shape that is long enough, so its shape depends on this record
    alone. One row of a micro-batch with several rows never has a record, because transformers
    computes in another way if no row has padding. The last micro-batch of a shape may have fewer
    records.

    Guarantee: one record more changes at most two rows of all micro-batches, if both orders are
    drawn in a suitable joint way. The record takes a uniform row, and the record of this row moves
    to the first free row. If the order of n records is uniform, the order of the n + 1 records is
    also uniform, so this is the distribution that this function draws.
    """
    by_shape: dict[BatchShape, list[T]] = {shape: [] for shape in shapes}
    for example in batch:
        by_shape[next(s for s in shapes if size_of(example) <= s.length)].append(example)
    for shape, examples in by_shape.items():
        order = secret_order(len(examples))
        for start in range(0, len(examples), shape.capacity):
            yield shape, [examples[i] for i in order[start : start + shape.capacity]]
