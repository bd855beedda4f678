"""The entries of a ledger, and the epsilon of several entries together."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sugarbush.errors import InvariantError
from sugarbush.privacy.accounting import epsilon, filtered_epsilon, needs_slack
from sugarbush.privacy.events import (
    DpSgd,
    Event,
    event_from_dict,
    single_events,
)
from sugarbush.privacy.unit import Unit

SEALED, ACCEPTED = "sealed", "accepted"  # the kinds of `Entry.repair`
_MOST_SLACKS = 2**40
# A line that is not an entry raises one of these errors.
NOT_AN_ENTRY = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, InvariantError
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One charge. `run` is the random id of the stage's run (`privacy.results`).

    `user_column` is the column of the user, or None if the unit is a record. A unit had at most
    `records_per_unit` records (None: an old entry does not say how many). `plan` names the group of
    entries whose events were fixed together. An entry without `plan` is its own group. `planned`
    contains all events of the plan, if the total needs them. `slack` is the slack number of an
    event that is not exactly Gaussian (`accounting.filtered_epsilon`), else 0. `cap` is the cap
    that the charge declared, if no cap or a larger cap was stored before. `repair` is None for a
    charge before a draw, SEALED for a charge that a repair found in a sealed release.json, and
    ACCEPTED for a charge that the user accepted without a seal.
    """

    id: str
    time: str
    unit: Unit
    user_column: str | None = None
    records_per_unit: int | None = None
    stage: str
    run: str
    event: Event
    delta: float
    dataset_fingerprint: tuple[str, ...]
    repair: str | None = None
    plan: str = ""
    planned: tuple[Event, ...] = ()
    slack: int = 0
    cap: float | None = None

    @property
    def group(self) -> str:
        return self.plan or self.id

    @property
    def filter_step(self) -> tuple[str, tuple[Event, ...]]:
        """The name and the planned events of the step of the filter to which the entry belongs.

        Each exactly Gaussian event and each training is a separate step. All other events of a plan
        are one step. It counts in full from its first charge, because a result may decide whether
        the rest is drawn.
        """
        if isinstance(self.event, DpSgd) or not needs_slack(self.event):
            return self.id, (self.event,)
        events = tuple(
            event
            for event in singles(self.planned)
            if needs_slack(event) and not isinstance(event, DpSgd)
        )
        return self.group, events

    def public_fields(self) -> dict[str, Any]:
        """Return the fields that release.json shows: all except the fingerprint."""
        optional = {
            "whose": self.user_column,
            "records_per_unit": self.records_per_unit,
            "plan": self.plan or None,
            "planned": [event.as_dict() for event in self.planned] or None,
            "slack": self.slack or None,
            "cap": self.cap,
            "repair": self.repair,
        }
        return {
            "id": self.id,
            "time": self.time,
            "unit": self.unit.value,
            "stage": self.stage,
            "run": self.run,
            "event": self.event.as_dict(),
            "delta": self.delta,
            **{name: value for name, value in optional.items() if value is not None},
        }

    @classmethod
    def from_public_fields(cls, fields: Mapping[str, Any]) -> Entry:
        """Invert `public_fields`. Raises an error of `NOT_AN_ENTRY`."""
        unit, records = Unit(fields["unit"]), fields.get("records_per_unit")
        entry = cls(
            id=str(fields["id"]),
            time=str(fields["time"]),
            unit=unit,
            user_column=None if (column := fields.get("whose")) is None else str(column),
            records_per_unit=int(records or 1) if records or unit is Unit.RECORD else None,
            stage=str(fields["stage"]),
            run=str(fields["run"]),
            event=event_from_dict(fields["event"]),
            delta=float(fields["delta"]),
            dataset_fingerprint=tuple(map(str, fields.get("sketch", ()))),
            repair=fields.get("repair"),
            plan=str(fields.get("plan", "")),
            planned=tuple(event_from_dict(event) for event in fields.get("planned", ())),
            slack=int(fields.get("slack", 0)),
            cap=None if (cap := fields.get("cap")) is None else float(cap),
        )
        if entry.repair not in (None, SEALED, ACCEPTED):
            raise ValueError("a repair of an unknown kind")
        if not 0 < entry.delta < 1 or not all(entry.dataset_fingerprint):
            raise ValueError("delta is not a probability, or the fingerprint has an empty value")
        if not 0 <= entry.slack < _MOST_SLACKS or not (entry.cap is None or entry.cap > 0):
            raise ValueError("the slack number or the cap is wrong")
        return entry

    def as_line(self) -> bytes:
        fields = {**self.public_fields(), "sketch": list(self.dataset_fingerprint)}
        return json.dumps(fields, separators=(",", ":")).encode()


@dataclass(frozen=True, kw_only=True)
class CapRaise:
    """A line of the ledger that says when somebody raised the stored cap."""

    time: str
    raised_from: float
    raised_to: float

    def as_line(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> CapRaise:
        cap_raise = cls(
            time=str(fields["time"]),
            raised_from=float(fields["raised_from"]),
            raised_to=float(fields["raised_to"]),
        )
        if not 0 < cap_raise.raised_from < cap_raise.raised_to:
            raise ValueError("the caps are wrong")
        return cap_raise


def composed_epsilon(entries: Sequence[Entry], *, delta: float) -> float:
    """Compute the epsilon of `entries` together at `delta`.

    If all entries belong to one group, this is `accounting.epsilon`. Otherwise it is the bound for
    adaptive choices.
    """
    if len({entry.group for entry in entries}) <= 1:
        return epsilon([entry.event for entry in entries], delta=delta)
    return filtered_total(entries, delta=delta)


def filtered_total(entries: Iterable[Entry], *, delta: float) -> float:
    """Compute the epsilon of `entries` as the bound for adaptive choices."""
    entries = tuple(entries)
    slacks = {entry.filter_step[0]: entry.slack for entry in entries}
    steps = [(events, slacks[name]) for name, events in steps_of(entries).items()]
    return filtered_epsilon(steps, delta=delta)


def steps_of(entries: Iterable[Entry]) -> dict[str, tuple[Event, ...]]:
    """Return the events of each step: its plan, and charges that exceed the plan."""
    planned: dict[str, Counter[Event]] = {}
    charged: defaultdict[str, Counter[Event]] = defaultdict(Counter)
    for entry in entries:
        name, events = entry.filter_step
        planned[name] = Counter(singles(events))
        charged[name].update(single_events(entry.event))
    return {name: tuple((planned[name] | charged[name]).elements()) for name in planned}


def singles(events: Iterable[Event]) -> list[Event]:
    """Return the single mechanisms of all `events`."""
    return [single for event in events for single in single_events(event)]
