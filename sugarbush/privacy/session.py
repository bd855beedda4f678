"""The sessions through which a mechanism charges its cost.

`PrivacySession` charges each draw on its own. `PlannedDraws` charges many draws together, before
the first of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NoReturn, Protocol

from sugarbush.errors import ParamsError, PrivacyError
from sugarbush.privacy.data_types import Block, Private
from sugarbush.privacy.events import DiscreteGaussian, Event, GaussianDp, PlannedEvents
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit


class ChargingSession(Protocol):
    """The session of a mechanism: `PrivacySession` or `PlannedDraws`.

    A mechanism calls `check` before slow work, and `charge` before it draws noise. `block` is the
    block of the private values that the mechanism reads (`Private.block`).
    """

    @property
    def records_per_unit(self) -> int: ...

    def check(self, events: Iterable[Event], *, block: Block | None = None) -> None: ...

    def charge(self, event: Event, *, block: Block | None = None) -> str: ...


@dataclass(frozen=True, kw_only=True)
class PrivacySession:
    """Gives a stage access to the ledger during a run.

    `run` is the random id of the stage's run. If `dataset_fingerprint` is empty, the ledger does
    not compare the corpus with other corpora. A unit has at most `records_per_unit` records. `plan`
    contains all events of the run, if they are fixed before the first charge. Raises ParamsError if
    a unit has several records but the unit of the ledger is a record.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import sugarbush as sb
    >>> from sugarbush.privacy.mechanisms import noisy_histogram
    >>> with tempfile.TemporaryDirectory() as state:
    ...     ledger = sb.open_ledger("tickets", state=Path(state))
    ...     session = PrivacySession(ledger=ledger, stage="count", run="1")
    ...     counts = noisy_histogram(sb.Private([0, 2, 2]), size=4, stddev=5.0, session=session)
    ...     [entry.id for entry in ledger.entries()] == list(counts.ledger_ids)
    True
    """

    ledger: Ledger
    stage: str
    run: str
    dataset_fingerprint: tuple[str, ...] = ()
    records_per_unit: int = 1
    plan: PlannedEvents | None = None
    record: Callable[[str], None] | None = None  # called with the id of each charge

    def __post_init__(self) -> None:
        if self.records_per_unit != 1 and self.ledger.unit is Unit.RECORD:
            raise ParamsError(
                f"a unit with up to {self.records_per_unit} records is a user, but the unit of the "
                "ledger is a record. Open the ledger with unit user and the name of the user column"
            )

    def check(self, events: Iterable[Event], *, block: Block | None = None) -> None:
        """Raise the error that charging all `events` would raise. Charge nothing.

        `block` has no effect, because each draw has its own charge.
        """
        self.ledger.check(events, plan=self.plan, dataset_fingerprint=self.dataset_fingerprint)

    def charge(self, event: Event, *, block: Block | None = None) -> str:
        """Charge `event`, wait for the disk, and return the id of the ledger entry.

        `block` has no effect, because each draw has its own charge. Raises the errors of
        `Ledger.charge`.
        """
        entry = self.ledger.charge(
            event,
            stage=self.stage,
            run=self.run,
            plan=self.plan,
            records_per_unit=self.records_per_unit,
            dataset_fingerprint=self.dataset_fingerprint,
        )
        if self.record is not None:
            self.record(entry)
        return entry

    def planned(self, event: Event) -> PlannedDraws:
        """Charge all `event.count` draws of `event` in one ledger entry, before the first draw.

        The result is the session of these draws. Use it for a method with many equal draws, such as
        one noisy sum per token. The guarantee is that of `PlannedDraws`. Raises ParamsError if
        `event` cannot be planned, and the errors of `Ledger.charge`.

        >>> import tempfile
        >>> from pathlib import Path
        >>> import sugarbush as sb
        >>> from sugarbush.privacy import DiscreteGaussian, noisy_histogram
        >>> with tempfile.TemporaryDirectory() as state:
        ...     ledger = sb.open_ledger("tickets", state=Path(state))
        ...     session = sb.PrivacySession(ledger=ledger, stage="tokens", run="1")
        ...     draws = session.planned(DiscreteGaussian(stddev=50.0, count=20))
        ...     for _ in range(20):
        ...         votes = noisy_histogram(sb.Private([0, 2]), size=4, stddev=50.0, session=draws)
        ...     [entry.event.count for entry in ledger.entries()]
        [20]
        """
        return PlannedDraws(self, event)

    def parallel(self, event: Event, blocks: Sequence[Private[Any]]) -> PlannedDraws:
        """Charge `event` once for draws on disjoint `blocks` (`Private.partition`).

        Each block may be drawn from `event.count` times. The total cost is that of one block. The
        guarantee is that of `PlannedDraws`. Raises ParamsError if `blocks` are not distinct blocks
        of one partition or `event` is not valid for them, and the errors of `Ledger.charge`.

        >>> import tempfile
        >>> from pathlib import Path
        >>> import sugarbush as sb
        >>> from sugarbush.privacy import DiscreteGaussian, noisy_histogram
        >>> stars = sb.Private([1, 5, 4, 1])
        >>> blocks = stars.partition(lambda rows: [row % 2 for row in rows], size=2)
        >>> with tempfile.TemporaryDirectory() as state:
        ...     ledger = sb.open_ledger("reviews", state=Path(state))
        ...     session = sb.PrivacySession(ledger=ledger, stage="stars", run="1")
        ...     draws = session.parallel(DiscreteGaussian(stddev=9.0), blocks)
        ...     counts = [noisy_histogram(p, size=6, stddev=9.0, session=draws) for p in blocks]
        ...     len(ledger.entries()), counts[0].ledger_ids == counts[1].ledger_ids
        (1, True)
        """
        return PlannedDraws(self, event, blocks=blocks)


class PlannedDraws:
    """The session of draws that one ledger entry pays for.

    `PrivacySession.planned` and `PrivacySession.parallel` make it. A mechanism takes it as its
    `session`. Each draw uses one of the `event.count` draws. A draw is refused before its noise if
    its event is not the planned event, or if no draw is left. Draws with `blocks` are counted per
    block, and are refused on other private values.

    Guarantee without `blocks`: all draws together cost what the ledger entry says, even if earlier
    results decide what a later draw sums up, or whether it is made. *Proof.* Each draw has the same
    dominating pair of distributions for every choice of its sum, because the pair depends on the
    stddev and the sensitivity only: for sensitivity 1, one count changes by at most 1; otherwise
    the draw is mu-Gaussian DP. Adaptive composition of mechanisms with fixed dominating pairs is
    dominated by the product of the pairs (Zhu, Dong, Wang 2022, arXiv 2106.08567, Theorem 10). The
    entry's event is this product. A draw that is not made equals a draw that is not looked at. The
    total with other charges between the draws: docs/decisions/adaptive-composition.md.

    Guarantee with `blocks`, if the unit is a record: the block of a record depends on this record
    alone. So one more record changes one block, and the draws on all other blocks have the same
    distribution given the earlier results. Only the draws on one block remain, at most
    `event.count`.

    Guarantee with `blocks`, if the unit is a user with m records: the user has m_k records in block
    k, and the m_k add up to at most m. An event with sensitivity m*s covers a mechanism with a sum
    that changes by at most s per record. So a draw on block k changes by at most m_k*s and is
    (m_k*s*mu_1)-Gaussian DP, with mu_1 = `discrete_gaussian_mu(stddev)`. The m_k are fixed before
    the first draw, so the draws compose to sqrt(sum m_k^2)*s*mu_1 <= m*s*mu_1, which is the event
    (docs/decisions/planned-draws.md). Other events say nothing about a block of a user's records,
    so they are refused for m > 1.

    After a crash, the draws that are left are lost: a new run charges all draws again. So store the
    results of all draws together. Copies and pickles are refused, and so is the use in a process
    that was forked, because they would spend a draw twice. Several threads may draw.
    """

    __slots__ = ("_event", "_id", "_left", "_lock", "_process", "_records_per_unit")

    def __init__(
        self,
        session: PrivacySession,
        event: Event,
        *,
        blocks: Sequence[Private[Any]] | None = None,
    ) -> None:
        self._records_per_unit = session.records_per_unit
        self._event, count = _single(event, session.records_per_unit, in_blocks=blocks is not None)
        self._left = dict.fromkeys([None] if blocks is None else _distinct(blocks), count)
        self._lock, self._process = Lock(), os.getpid()
        self._id = session.charge(event)

    @property
    def records_per_unit(self) -> int:
        """The largest number of records of a unit."""
        return self._records_per_unit

    def check(self, events: Iterable[Event], *, block: Block | None = None) -> None:
        """Raise PrivacyError if the draws with `events` were not planned. Spend nothing."""
        events = tuple(events)
        self._refuse_other_process()
        with self._lock:
            self._refuse_unplanned(events, block)

    def charge(self, event: Event, *, block: Block | None = None) -> str:
        """Spend one planned draw, and return the id of the ledger entry. Raises PrivacyError."""
        self._refuse_other_process()
        with self._lock:
            counted = self._refuse_unplanned((event,), block)
            self._left[counted] -= 1
        return self._id

    def _refuse_other_process(self) -> None:
        if os.getpid() != self._process:
            raise PrivacyError(
                "planned draws belong to the process that charged them. Draw there, or charge "
                "draws in this process"
            )

    def _refuse_unplanned(self, events: Sequence[Event], block: Block | None) -> Block | None:
        """Return the key of the draws in `_left`."""
        if others := [event for event in events if event != self._event]:
            raise PrivacyError(
                f"the planned draws are {self._event}, but this draw is {others[0]}. Charge it "
                "with another session"
            )
        counted = None if None in self._left else block
        if counted not in self._left:
            raise PrivacyError(
                "these draws were charged for the blocks of one partition, but this draw reads "
                "other private values. Pass a block, or charge the draw with another session"
            )
        if self._left[counted] < len(events):
            where = "" if counted is None else f" on {counted}"
            raise PrivacyError(
                f"all planned draws{where} are spent. Plan more draws before the first one, or "
                "charge this draw with another session"
            )
        return counted

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("planned draws cannot be copied or pickled: they would be spent twice")

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse


def _single(event: Event, records_per_unit: int, *, in_blocks: bool) -> tuple[Event, int]:
    """Return one draw of `event`, and their number. Raises ParamsError for other events."""
    if not isinstance(event, DiscreteGaussian | GaussianDp):
        raise ParamsError(f"only draws of Gaussian noise can be planned, not {event.kind}")
    if isinstance(event, DiscreteGaussian) and event.sensitivity % records_per_unit:
        raise ParamsError(
            f"a unit has up to {records_per_unit} records, so the sensitivity of planned draws is "
            f"a multiple of {records_per_unit} (got {event.sensitivity})"
        )
    if in_blocks and records_per_unit > 1 and not isinstance(event, DiscreteGaussian):
        raise ParamsError(
            f"a unit may have records in several blocks, and {event.kind} does not say what a "
            "block of them costs. Use discrete Gaussian noise, or charge each block on its own"
        )
    return replace(event, count=1), event.count


def _distinct(blocks: Sequence[Private[Any]]) -> list[Block]:
    """Return the block of each private value. Raises ParamsError if two may share a record."""
    all_blocks = [private.block for private in blocks]
    distinct = [block for block in dict.fromkeys(all_blocks) if block is not None]
    if (
        not distinct
        or len(distinct) < len(all_blocks)
        or len({block.partition for block in distinct}) > 1
    ):
        raise ParamsError("parallel draws need distinct blocks of one `Private.partition`")
    return distinct
