"""The ledger records every charge on a dataset, before the mechanism runs.

    <state>/key                         32 random bytes that key every fingerprint and digest
    <state>/ledgers/<purpose>/<dataset>.jsonl     one entry per line, appended and never rewritten
    <state>/ledgers/<purpose>/<dataset>.head      the seal of the last entry

The ledger is outside the checkout, because DVC deletes outputs and users delete clones. `charge`
takes the lock, reads the file again, checks the cap, appends and waits for the disk. The mechanism
may run only after the charge is on disk. A crash between charge and result wastes budget, but never
releases an uncharged result.

Entries contain events, ids and keyed fingerprints, but no text, count or record number. An entry
has a date but no time, because the duration of a sum depends on the number of records.

A repair adds charges of released folders that a lost ledger lacks. A folder without a valid seal
proves nothing, so its charges are added only if the user accepts each one. A further line can
cancel accepted charges, and no other charge.

Each line is sealed: its last field is an HMAC over the entry and the seal of the entry before it.
The HMACs form a chain. An edited, reordered or deleted line breaks the chain. The .head file stores
the last seal, so the ledger detects missing last lines. Lines of version 0.1 have no seal; the
first sealed line covers them. Anyone with the key can forge a ledger. An older copy of a ledger has
valid seals, so the ledger also checks the results. If a released folder or a finished result names
a charge that the ledger lacks, the ledger accepts no new charge, and no card states its total.

Entries of one plan form a group: their events were fixed before the first of them was drawn. The
total of one group is the epsilon of its composition. The total of several groups is the bound for
adaptive choices (docs/decisions/adaptive-composition.md). Lines of other kinds raise the cap,
record that exact figures on real texts were shown, or record what the settings of a run assume.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import math
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sugarbush.errors import BudgetExceededError, InvariantError, LedgerError, ParamsError
from sugarbush.html_table import html_counts
from sugarbush.paths import atomic_file, make_owner_only
from sugarbush.privacy.accounting import (
    SLACK_SHARE,
    adaptive_epsilon,
    gaussian_mu,
    needs_slack,
    rounded_up,
    slack_fraction,
)
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.entries import (
    ACCEPTED,
    NOT_AN_ENTRY,
    SEALED,
    CapRaise,
    Entry,
    composed_epsilon,
    filtered_total,
    singles,
    steps_of,
)
from sugarbush.privacy.events import (
    Event,
    PlannedEvents,
    single_events,
)
from sugarbush.privacy.fingerprint import is_comparable, is_same_dataset, stored_values
from sugarbush.privacy.key import state_key
from sugarbush.privacy.reservation import Reservation
from sugarbush.privacy.settings import DATASET_NAME, DEFAULT_CAP, LARGEST_CAP
from sugarbush.privacy.unit import Unit

_NAME = re.compile(DATASET_NAME)
_LOCK_TIMEOUT_S = 120
_HEAD_DIGITS = 16
_SHOWN_CHARGES = 12  # rows in a notebook
_SEAL_FIELD = b',"seal":"'
PROFILE = "profile"  # the stage of the charges of a DP profile
_CANCEL = "cancel"  # the field of a line that cancels accepted charges
_SHOWN = "shown"  # the field of a line that records figures on real texts
_DECLARED = "declared"  # the field of a line that records an assumption of a run
_NO_ASSUMPTION: Mapping[str, tuple[str, ...]] = {}
_FINGERPRINT_OF_0_2 = re.compile(rb'"sketch":\s*\["[0-9a-f]')


def _nothing() -> None:
    """Check nothing."""


class Ledger:
    """The charges on one dataset, under one cap.

    `cap` limits the total epsilon per `unit`, at `delta`. The ledger stores the smallest cap that a
    charge declared, and a larger `cap` does not raise it. With `cap=None`, the stored cap is valid,
    or 4 for a new dataset. `user_column` is the column of the user, or None if the unit is a
    record. The charges in the `reservation` are already admitted. `paid_for` returns the charges
    that the project's released folders name. A ledger that lacks such a charge accepts no new
    charge. `different_from` names datasets that share no person with this dataset.
    `assumes` contains what the settings declare and nobody can check, by the name of the setting. A
    charge records it, because all later cards count the charge and so have its assumptions, too.
    `before_charge` may raise an error, and then nothing is charged. Raises ParamsError on a bad
    dataset name, delta or cap.

    >>> import tempfile
    >>> from sugarbush.privacy.events import DiscreteGaussian
    >>> with tempfile.TemporaryDirectory() as state:
    ...     ledger = Ledger(
    ...         Path(state), dataset="tickets", purpose="release", unit=Unit.RECORD,
    ...         cap=1.0, delta=1e-6,
    ...     )
    ...     _ = ledger.charge(DiscreteGaussian(stddev=10.0), stage="votes", run="1")
    ...     print(len(ledger.entries()), f"{ledger.total():.2f}")
    1 0.40
    """

    def __init__(
        self,
        state: Path,
        *,
        dataset: str,
        purpose: str,
        unit: Unit,
        cap: float | None,
        delta: float,
        user_column: str | None = None,
        reservation: Reservation | None = None,
        paid_for: Callable[[], Mapping[str, Path]] = dict,
        different_from: Collection[str] = (),
        assumes: Mapping[str, tuple[str, ...]] = _NO_ASSUMPTION,
        before_charge: Callable[[], None] = _nothing,
    ) -> None:
        if not _NAME.fullmatch(dataset):
            raise ParamsError(
                "params.yaml: privacy.dataset must be a short name of a-z, 0-9, '.', '_' and '-'"
            )
        if not _NAME.fullmatch(purpose):  # a ledger in a subfolder would not be compared
            raise ParamsError("a ledger's purpose must be a short name, such as release")
        if not (0 < delta < 1 and (cap is None or 0 < cap <= LARGEST_CAP or cap == math.inf)):
            raise ParamsError(
                "a ledger needs a delta between 0 and 1, and a cap above 0 and at most "
                f"{LARGEST_CAP} (got {delta}, {cap})"
            )
        self.dataset, self.unit, self.delta = dataset, unit, delta
        self.before_charge = before_charge
        self.user_column = user_column
        self._declared_cap, self.reservation = cap, reservation
        self.different_from, self.assumes = frozenset(different_from), assumes
        self.state, self._purpose, self.paid_for = state, purpose, paid_for
        self.folder = state / "ledgers" / purpose
        self.path = self.folder / f"{dataset}.jsonl"
        self._reserved = self.folder / f"{dataset}.reserved"
        # All purposes have one lock, because a charge reads all ledgers.
        self._lock_path = self.folder.parent / "lock"
        self.fixed_chain: _Chain | None = None

    def entries(self) -> tuple[Entry, ...]:
        """Return every charge so far, oldest first."""
        return self._chain().entries

    def head(self) -> str:
        """Return 16 digits that change with every line of the ledger. The card names them.

        They are the start of an HMAC over all lines without fingerprints and seals. A seal covers a
        fingerprint, so after a leak of the key a published seal could confirm a guess of the
        corpus.
        """
        return self._chain().head[:_HEAD_DIGITS]

    @property
    def cap(self) -> float:
        """The cap in force: the smallest cap that a charge declared since the last raise."""
        return self._cap_after(self._chain())

    def note_shown(self, what: str, *, of: Iterable[str] = ("",)) -> None:
        """Record that exact figures on real texts are shown, for example by an `evaluation`.

        `of` names what the figures are of: digests of released texts. Call this method before the
        figures are computed. Each pair of `what` and `of` is recorded once.
        """
        with self._locked():
            self._note(_SHOWN, what, of)

    def _note(self, kind: str, what: str, of: Iterable[str]) -> _Chain:
        """Append notes that the ledger lacks, and return the new chain. The lock is held."""
        chain = _read(self.path, self.state)
        for name in of:
            if (kind, what, name) not in chain.notes:
                fields = {kind: what, "of": name, "time": _today()}
                self._append(json.dumps(fields, separators=(",", ":")).encode(), chain)
                chain = _read(self.path, self.state)
        return chain

    def declared(self) -> Mapping[str, tuple[str, ...]]:
        """Return what the settings of all charged runs declared, as in `assumes`."""
        declared: dict[str, tuple[str, ...]] = {}
        for kind, what, name in self._chain().notes:
            if kind == _DECLARED:
                declared[what] = (*declared.get(what, ()), name)
        return declared

    def shown(self) -> Mapping[str, int]:
        """Return how often exact figures on real texts were shown, by `what` of `note_shown`.

        Figures that a run with another purpose showed count, too. Somebody who saw them can choose
        by them, even if the settings declared the data public at that time.
        """
        others = set(self.folder.parent.glob(f"*/{self.dataset}.jsonl")) - {self.path}
        chains = [self._chain(), *(_read(path, self.state) for path in sorted(others))]
        notes = (note for chain in chains for note in chain.notes)
        return dict(Counter(what for kind, what, _ in notes if kind == _SHOWN))

    def cap_raises(self) -> tuple[CapRaise, ...]:
        """Return every raise of the stored cap, oldest first."""
        return self._chain().raises

    def _repr_html_(self) -> str:
        """Show the total and the charges in a notebook. A ledger contains no private value."""
        charges = [(e.time[:10], e.stage, e.event.kind.replace("_", " ")) for e in self.entries()]
        return html_counts(
            f"Ledger of {self.dataset}: epsilon {rounded_up(self.total())} of "
            f"{rounded_up(self.cap)} at delta {rounded_up(self.delta)}, per {self.unit}",
            charges,
            header=("charged (UTC)", "stage", "mechanism", "charges"),
            most=_SHOWN_CHARGES,
        )

    def snapshot(self) -> Ledger:
        """Return a read-only copy of the present ledger, without later charges.

        Every function that states an epsilon reads a snapshot. So this method raises LedgerError if
        the ledger is an older copy, which lacks charges that results name: its total would be too
        small. A snapshot of a snapshot reads the file again. The copy has no fingerprints, because
        anyone could compare the fingerprints of two releases.
        """
        ledger = copy.copy(self)
        named = self._named()  # before the charges, because another process may charge in between
        chain = _read(self.path, self.state)
        entries = tuple(replace(entry, dataset_fingerprint=()) for entry in chain.entries)
        self._refuse_missing_charges(entries, named)
        ledger.fixed_chain, ledger.reservation = replace(chain, entries=entries), None
        ledger.before_charge = _nothing
        ledger.paid_for = dict
        return ledger

    def total(self, *more: Event, runs: int = 1) -> float:
        """Compute epsilon of all charges and of further `runs`, each with the events `more`.

        The total is computed at the smallest delta of all charges.
        """
        entries = self.entries()
        self._refuse_other_units(entries)
        plan = PlannedEvents(id=secrets.token_hex(8), events=more)
        return self._total((*entries, *self._planned_entries(entries, singles(more) * runs, plan)))

    def check(
        self,
        events: Iterable[Event],
        *,
        plan: PlannedEvents | None = None,
        dataset_fingerprint: tuple[str, ...] = (),
    ) -> None:
        """Raise the error that `charge` would raise for `events` together. Charge nothing.

        `plan` contains all events of the run. A ledger with a reservation also reserves `events`,
        so that other runs cannot spend their budget.
        """
        with self._locked():
            chain, events = self._chain(), tuple(events)
            self._refuse_missing_charges(chain.entries, self._named())
            if self.reservation is not None and self.reservation.covers(events):
                return
            others = self._reserved_by_others()
            entries = (*chain.entries, *others)
            planned = self._planned_entries(entries, singles(events), plan)
            self._admit(chain, others, planned, "this run", dataset_fingerprint)
            if self.reservation is not None:
                self.reservation.store(self._reserved, planned)

    def charge(
        self,
        event: Event,
        *,
        stage: str,
        run: str,
        plan: PlannedEvents | None = None,
        records_per_unit: int = 1,
        dataset_fingerprint: tuple[str, ...] = (),
    ) -> str:
        """Append `event` if the cap allows it, and return the entry's id.

        Call this method before the mechanism runs. `plan` contains all events of the run. Without a
        plan, the charge is valid for an event that was chosen after all earlier releases. Raises
        BudgetExceededError. Raises LedgerError if the ledger knows the corpus under another dataset
        name. An error leaves the ledger unchanged.
        """
        if self.fixed_chain is not None:
            raise InvariantError("a snapshot of a ledger cannot be charged")
        self.before_charge()
        with self._locked():
            chain = self._chain()
            self._refuse_missing_charges(chain.entries, self._named())
            others = self._reserved_by_others()
            reserved = () if self.reservation is None else self.reservation.of(event)
            if reserved:
                self._refuse_other_names(dataset_fingerprint)
                self._refuse_other_units(chain.entries)
                # The first entry of a group names its plan, in whatever order events are charged.
                is_first = all(each.plan != reserved[0].plan for each in chain.entries)
                is_needed = is_first or needs_slack(event)
                planned = plan.events if plan is not None and is_needed else ()
                planned_entry = replace(reserved[0], event=event, planned=planned)
            else:
                entries = (*chain.entries, *others)
                (planned_entry,) = self._planned_entries(entries, (event,), plan)
                self._admit(
                    chain, others, (planned_entry,), f"stage '{stage}'", dataset_fingerprint
                )
            cap, stored = self._cap_after(chain), stored_values(dataset_fingerprint)
            is_known = any(entry.dataset_fingerprint == stored for entry in chain.entries)
            entry = replace(
                planned_entry,
                id=secrets.token_hex(8),
                time=_today(),
                stage=stage,
                run=run,
                records_per_unit=records_per_unit,
                dataset_fingerprint=() if is_known else stored,
                cap=None if cap in (chain.cap, math.inf) else cap,
            )
            for what, of in self.assumes.items():
                chain = self._note(_DECLARED, what, of)
            self._append(entry.as_line(), chain)
            if self.reservation is not None:
                if reserved:
                    self.reservation.remove(reserved)
                else:
                    self.reservation.close()
        return entry.id

    def raise_cap(self, cap: float) -> CapRaise:
        """Replace the stored cap by a larger one, and record the date.

        Raises ParamsError if the ledger stores no cap, or if `cap` is not larger.
        """
        with self._locked():
            chain = self._chain()
            before = chain.cap
            if before is None:
                raise ParamsError(
                    f"{self.path}: has no stored cap yet. Set `privacy.cap` before the first run"
                )
            if not before < cap <= LARGEST_CAP:
                raise ParamsError(
                    f"the new cap must be above the stored cap {rounded_up(before)} and at most "
                    f"{LARGEST_CAP} (got {rounded_up(cap)})"
                )
            cap_raise = CapRaise(time=_today(), raised_from=before, raised_to=cap)
            self._append(cap_raise.as_line(), chain)
        return cap_raise

    def add_missing(self, entries: Iterable[Entry], *, sealed: bool) -> int:
        """Append the `entries` that the ledger lacks, and return their number.

        `sealed` says whether this installation sealed the files that name the entries. The cap is
        not checked, because the results of the missing charges already exist. Raises LedgerError
        for a charge per another unit.
        """
        added = 0
        with self._locked():
            for entry in entries:
                self._refuse_other_units((entry,))
                chain = self._chain()
                is_sealed = sealed and entry.repair != ACCEPTED
                stored = {each.id: each for each in chain.entries}.get(entry.id)
                if stored is not None and is_sealed and stored.repair == ACCEPTED:
                    self._append(_cancel_line([entry.id]), chain)  # the sealed charge replaces it
                    stored, chain = None, self._chain()
                if stored is None:
                    new_entry = replace(entry, repair=SEALED, dataset_fingerprint=())
                    if not is_sealed:  # nobody vouches for its plan, so it is its own group
                        new_entry = replace(
                            new_entry, repair=ACCEPTED, plan="", planned=(), slack=0, cap=None
                        )
                    self._append(new_entry.as_line(), chain)
                    added += 1
        return added

    def cancel_accepted(self, ids: Collection[str]) -> None:
        """Append a line that cancels charges which a repair added without a valid seal.

        Raises LedgerError for every other charge, because it was made before a draw.
        """
        with self._locked():
            chain = self._chain()
            accepted = {entry.id for entry in chain.entries if entry.repair == ACCEPTED}
            if others := sorted(set(ids) - accepted):
                raise LedgerError(
                    f"{self.path}: {', '.join(others)}: not a charge that a repair added without a "
                    "valid seal. Only such a charge can be cancelled. `sugarbush budget` lists them"
                )
            line = _cancel_line(ids)
            self._append(line, chain)

    def cancelled(self) -> tuple[Entry, ...]:
        """Return the accepted charges that the user cancelled."""
        return self._chain().cancelled

    def missing_charges(self) -> dict[str, Path]:
        """Find charges that a finished result or a released folder names but no ledger contains.

        Returns the path of the result or folder, by id.
        """
        named = self._named()
        return self._missing(self.entries(), named)

    def _named(self) -> dict[str, Path]:
        """Return the charges that finished results and released folders name."""
        named = _ids_of_results(self.state / "draws", f"{self._purpose}-{self.dataset}")
        named |= _ids_of_trainings(self.state / "draws" / self.dataset)
        return named | dict(self.paid_for())

    def _missing(self, entries: tuple[Entry, ...], named: Mapping[str, Path]) -> dict[str, Path]:
        ids = {entry.id for entry in entries}
        if named.keys() <= ids:
            return {}
        for path in self.folder.parent.glob(f"*/{self.dataset}.jsonl"):
            ids |= {entry.id for entry in _read(path, self.state).entries}
        return {i: file for i, file in named.items() if i not in ids}

    def of(self, ids: Iterable[str]) -> tuple[Entry, ...]:
        """Return the entries with these ids. Raises LedgerError if an id is missing."""
        entries = {entry.id: entry for entry in self.entries()}
        try:
            return tuple(entries[i] for i in dict.fromkeys(ids))
        except KeyError as error:
            raise LedgerError(
                f"{self.path}: has no entry {error.args[0]!r}, which a released result names. "
                "Set SUGARBUSH_STATE to the state folder of this release."
            ) from None

    def profiles(self) -> tuple[str, ...]:
        """Return the ids of all charges of DP profiles.

        A schema or a setting may come from a profile, and nothing shows whether it does. So every
        run and every card counts all profiles of the dataset.
        """
        return tuple(entry.id for entry in self.entries() if entry.stage == PROFILE)

    def next_slack(self) -> float:
        """Return the share of delta that a new group of charges with a slack may use."""
        entries = (*self.entries(), *self._reserved_by_others())
        number = 1 + max((entry.slack for entry in entries), default=0)
        return slack_fraction(number) * self._smallest_delta(entries)

    def epsilon_with(
        self, ids: Iterable[str], *further: tuple[Iterable[Event], PlannedEvents]
    ) -> float:
        """Compute epsilon of the entries `ids` and of further events, each with the plan of its
        run, if they are charged next."""
        chosen, every = self.of(ids), (*self.entries(), *self._reserved_by_others())
        for events, plan in further:  # their slack numbers follow those of all charges
            planned = self._planned_entries(every, singles(events), plan)
            chosen, every = (*chosen, *planned), (*every, *planned)
        return self._total(chosen)

    def total_with(self, *further: tuple[Iterable[Event], PlannedEvents]) -> float:
        """Compute epsilon of all charges and of further events, each with the plan of its run."""
        return self.epsilon_with((entry.id for entry in self.entries()), *further)

    def _total(self, entries: Sequence[Entry]) -> float:
        return composed_epsilon(entries, delta=self._smallest_delta(entries))

    def _smallest_delta(self, entries: Iterable[Entry]) -> float:
        # A larger delta would understate epsilon.
        return min([self.delta, *(entry.delta for entry in entries)])

    def _cap_after(self, chain: _Chain) -> float:
        """Return the cap in force if this ledger's next charge follows `chain`."""
        if self._declared_cap is None:
            return DEFAULT_CAP if chain.cap is None else chain.cap
        return min(self._declared_cap, math.inf if chain.cap is None else chain.cap)

    def _reserved_by_others(self) -> tuple[Entry, ...]:
        """Return the events that other running processes and threads have reserved."""
        path = None if self.reservation is None else self.reservation.path
        return tuple(
            Entry.from_public_fields(fields) for fields in Reservation.others(self._reserved, path)
        )

    def _planned_entries(
        self, entries: Sequence[Entry], events: Iterable[Event], plan: PlannedEvents | None
    ) -> tuple[Entry, ...]:
        """Return the entries that charging `events` after `entries` would add.

        An event joins the newest group of its plan if the group has not yet used the event.
        Otherwise the event opens a new group, because its repetition may depend on results.
        """
        name = "" if plan is None else plan.id
        allowed = Counter(() if plan is None else singles(plan.events))
        number = max((_number_of(entry, name) for entry in entries), default=0)
        newest = f"{name}.{number}"
        used = Counter(singles(entry.event for entry in entries if entry.plan == newest))
        slacks = {entry.filter_step[0]: entry.slack for entry in entries}
        new_entries: list[Entry] = []
        for event in events:
            counts = Counter(single_events(event))
            is_planned = counts <= allowed  # an event that the plan lacks is its own group
            if is_planned and (number == 0 or not used + counts <= allowed):
                number, used = number + 1, Counter()
            is_needed = is_planned and (needs_slack(event) or not used)
            used += counts if is_planned else Counter()
            entry = Entry(
                id=f"planned-{len(new_entries)}",
                time=_today(),
                unit=self.unit,
                user_column=self.user_column,
                stage="",
                run="",
                event=event,
                delta=self.delta,
                dataset_fingerprint=(),
                plan=f"{name}.{number}" if is_planned else "",
                planned=plan.events if plan is not None and is_needed else (),
            )
            if needs_slack(event):
                slack = slacks.get(entry.filter_step[0]) or 1 + max(slacks.values(), default=0)
                entry = replace(entry, slack=slack)
            slacks[entry.filter_step[0]] = entry.slack
            new_entries.append(entry)
        return tuple(new_entries)

    def _refuse_other_units(self, entries: tuple[Entry, ...]) -> None:
        unit = _per(self.unit, self.user_column)
        others = {_per(entry.unit, entry.user_column) for entry in entries} - {unit}
        if others:
            raise LedgerError(
                f"{self.path}: has charges per {'/'.join(sorted(others))}, which cannot be added "
                f"to charges per {unit}. Set `privacy.unit` and `prepare.user_column` back to the "
                "earlier values."
            )

    def _admit(
        self,
        chain: _Chain,
        others: tuple[Entry, ...],
        planned: tuple[Entry, ...],
        who: str,
        dataset_fingerprint: tuple[str, ...],
    ) -> None:
        """Raise BudgetExceededError if `planned` would exceed the cap.

        `others` are charges that other runs have reserved.
        """
        self._refuse_other_names(dataset_fingerprint)
        self._refuse_other_units(chain.entries)
        cap = self._cap_after(chain)
        earlier = (*chain.entries, *others)
        entries = (*earlier, *planned)
        # A result decides whether the rest of the first plan is drawn, so the whole plan counts. A
        # second group is only valid if the filter also allows the rest of the first group.
        several = len({entry.group for entry in entries}) > 1
        first = entries[0].planned if entries else ()
        plan = PlannedEvents(id="first", events=first)
        whole = self._planned_entries((), singles(first), plan)
        delta = self._smallest_delta(entries)
        if cap == math.inf or all(_clearly_below(cap, each, delta) for each in (entries, whole)):
            return  # skips the exact total, which takes seconds
        after = self._total(entries)
        rest = filtered_total(whole, delta=delta) if several else self._total(whole)
        if max(after, rest) <= cap:
            return
        if not several:  # part of a plan is only valid if it may be chosen by earlier results
            after = max(after, adaptive_epsilon((e.event for e in entries), delta=delta))
            if after <= cap:
                return
        advice = (
            "raise privacy.cap if you are allowed to"
            if chain.cap is None or cap < chain.cap
            else "raise the cap that the ledger stores, if you are allowed to: "
            "`sugarbush budget --raise-cap N`"
        )
        why = (
            ""
            if after > cap or not several
            else "  The first run was planned to use the whole cap, so no other run is possible "
            f"below epsilon {rounded_up(rest)}.\n"
        )
        reserved = ", including what other runs have reserved" if others else ""
        raise BudgetExceededError(
            f"{who} would bring epsilon of dataset '{self.dataset}' to {rounded_up(after)} at "
            f"delta={rounded_up(self.delta)} (spent so far {rounded_up(self._total(earlier))}"
            f"{reserved}, cap {rounded_up(cap)}).\n{why}"
            f"  Lower privacy.epsilon, or {advice}."
        )

    def _refuse_other_names(self, dataset_fingerprint: tuple[str, ...]) -> None:
        """Raise LedgerError if another ledger knows the corpus. A corpus has one budget."""
        if not dataset_fingerprint:
            return
        paths = set(self.folder.parent.glob("*/*.jsonl")) - {self.path}
        different = self.different_from - {self.dataset}
        for path in sorted(path for path in paths if path.stem not in different):
            for stored in {e.dataset_fingerprint for e in _read(path, self.state).entries}:
                if not is_comparable(dataset_fingerprint, stored):
                    raise LedgerError(
                        f"{path}: this ledger of version 0.2 was added after the corpus was "
                        "prepared, so it cannot be compared with the corpus. Delete the private "
                        "folder `prepared` and run again, or call prepare again in Python. "
                        "Preparing again costs no budget."
                    )
                if is_same_dataset(dataset_fingerprint, stored):
                    confirm = (
                        f" If no person is in both, set `privacy.different_from: [{path.stem}]`"
                        if path.stem != self.dataset
                        else ""
                    )
                    raise LedgerError(
                        f"the corpus of dataset '{self.dataset}' is known to the ledger as "
                        f"'{path.stem}' ({path.parent.name}). It has the same texts, phrases, "
                        "users or ids, and a dataset has one budget.\n"
                        f"  Set `privacy.dataset: {path.stem}` and `privacy.purpose: "
                        f"{path.parent.name}`.{confirm}"
                    )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            make_owner_only(self.folder)
            with FileLock(self._lock_path, timeout=_LOCK_TIMEOUT_S):
                yield
        except Timeout:
            raise LedgerError(
                f"{self._lock_path}: another run held the lock for {_LOCK_TIMEOUT_S} s. Run again"
            ) from None
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be used: {error.strerror}") from None

    def _chain(self) -> _Chain:
        return _read(self.path, self.state) if self.fixed_chain is None else self.fixed_chain

    def _refuse_missing_charges(
        self, entries: tuple[Entry, ...], named: Mapping[str, Path]
    ) -> None:
        missing = self._missing(entries, named)
        if missing:
            file = next(iter(missing.values()))
            raise LedgerError(
                f"{self.path}: lacks {len(missing)} charges that results name, the first in "
                f"{file}. The ledger is an older copy or belongs to other results. Set "
                "SUGARBUSH_STATE to the folder of these results, restore the ledger from "
                "a backup, or add the missing charges with `sugarbush budget --repair`"
            )

    def _append(self, body: bytes, chain: _Chain) -> None:
        """Append a sealed line, wait for the disk, and store its seal in the .head file.

        An incomplete last line is removed first. The line is written before its seal is stored, so
        that after a crash every stored seal has its line. The .head file is written before the
        first sealed line. If the .head file of sealed lines is missing, somebody edited the ledger.
        """
        seal = _seal(state_key(self.state), self.path, chain.last, body)
        line = body[:-1] + _SEAL_FIELD + seal.encode() + b'"}\n'
        if not _head(self.path).exists():
            self._store_seal(chain.last)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            whole = self.path.read_bytes().rfind(b"\n") + 1
            if whole != os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, whole)
            if os.write(descriptor, line) != len(line):
                raise LedgerError(f"{self.path}: the disk accepted only a part of the entry")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._store_seal(seal)

    def _store_seal(self, seal: str) -> None:
        with atomic_file(_head(self.path)) as path:
            path.write_text(seal)


def _per(unit: Unit, user_column: str | None) -> str:
    return unit.value if user_column is None else f"{unit} by column '{user_column}'"


def _cancel_line(ids: Iterable[str]) -> bytes:
    return json.dumps({_CANCEL: sorted(set(ids))}, separators=(",", ":")).encode()


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _clearly_below(cap: float, entries: Iterable[Entry], delta: float) -> bool:
    """Return whether the bound by Gaussian DP, which is fast, is below the cap."""
    mu = gaussian_mu(event for events in steps_of(entries).values() for event in events)
    most = mu_of(epsilon=cap, delta=(1 - SLACK_SHARE) * delta)
    return mu == 0 or (mu < math.inf and mu <= most)


def _number_of(entry: Entry, plan: str) -> int:
    """Return the number of the entry's group among the groups of `plan`, or 0."""
    name, _, number = entry.plan.rpartition(".")
    return int(number) if name == plan and name and number.isdecimal() else 0


@dataclass(frozen=True)
class _Chain:
    """The entries of a file, the last seal, the digest of `Ledger.head`, the cancelled entries, the
    stored cap and its raises, and the notes: their kind, what they say, and of what."""

    entries: tuple[Entry, ...]
    last: str
    head: str
    cancelled: tuple[Entry, ...] = ()
    cap: float | None = None
    raises: tuple[CapRaise, ...] = ()
    notes: tuple[tuple[str, str, str], ...] = ()


def _read(path: Path, state: Path) -> _Chain:
    """Read the entries of a file, and check their seals.

    An incomplete last line is ignored, because it comes from a crash before the mechanism ran. A
    complete line with a wrong seal raises LedgerError.
    """
    lines: list[bytes] = []
    try:
        # The stored seal is read first, because the other file may grow between the two reads.
        head = _head(path).read_text("ascii", "replace") if _head(path).exists() else None
        with suppress(FileNotFoundError):
            *lines, _unfinished = path.read_bytes().split(b"\n")
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from None
    entries: dict[str, Entry] = {}
    cancelled: list[Entry] = []
    raises: list[CapRaise] = []
    notes: list[tuple[str, str, str]] = []
    cap: float | None = None
    unsealed = hashlib.sha256()
    seals: list[str] = []
    key = state_key(state) if lines else b""
    public = hmac.new(key, b"head", "sha256")
    for number, line in enumerate(lines, start=1):
        body, mark, seal = line.rpartition(_SEAL_FIELD)
        if mark:
            stored_seal = seal.removesuffix(b'"}').decode("ascii", "replace")
            before = seals[-1] if seals else unsealed.hexdigest()
            expected = _seal(key, path, before, body + b"}")
            if not hmac.compare_digest(expected.encode(), stored_seal.encode()):
                raise _edited(path, f"line {number} or a line before it does not match its seal")
            seals.append(stored_seal)
        elif seals:
            raise _edited(path, f"line {number} is not an entry that this program sealed")
        else:
            unsealed.update(line + b"\n")
        try:
            fields = json.loads(line)
            public.update(_without_fingerprint(fields))
            if mark and _CANCEL in fields:
                named = _accepted_entries(entries.values(), fields[_CANCEL])
                cancelled += named
                entries = {id_: entry for id_, entry in entries.items() if entry not in named}
            elif mark and "raised_to" in fields:
                raises.append(CapRaise.from_fields(fields))
                cap = raises[-1].raised_to
            elif mark and (kinds := {_SHOWN, _DECLARED} & fields.keys()):
                notes += [(kind, str(fields[kind]), str(fields["of"])) for kind in kinds]
            else:
                entry = _new_entry(fields, entries)
                entries[entry.id] = entry
                cap = min((c for c in (cap, entry.cap) if c is not None), default=None)
        except NOT_AN_ENTRY:
            raise LedgerError(
                f"{path}, line {number}: not an entry, so no mechanism can run. Restore the file "
                "from a backup."
            ) from None
    if seals and head is None and _head(path).exists():
        return _read(path, state)  # another process wrote the first charge after the read of `head`
    _require_last_lines(path, head, unsealed.hexdigest(), seals)
    last = seals[-1] if seals else unsealed.hexdigest()
    return _Chain(
        _with_slack_numbers(entries.values()), last, public.hexdigest(), tuple(cancelled), cap,
        tuple(raises), tuple(notes),
    )  # fmt: skip


def _require_last_lines(path: Path, head: str | None, unsealed: str, seals: Sequence[str]) -> None:
    """Raise LedgerError if the stored seal `head` is of no line of the file."""
    if seals if head is None else head not in (unsealed, *seals):
        raise _edited(path, "the last lines or the .head file are missing")


def _new_entry(fields: Mapping[str, Any], ids: Collection[str]) -> Entry:
    """Read an entry. Raises an error of `NOT_AN_ENTRY`, also if its id is in `ids`."""
    entry = Entry.from_public_fields(fields)
    if entry.id in ids:
        raise ValueError("two entries have one id")
    return entry


def _without_fingerprint(fields: Mapping[str, Any]) -> bytes:
    public_fields = {
        name: value for name, value in fields.items() if name not in ("sketch", "seal")
    }
    return json.dumps(public_fields, sort_keys=True).encode() + b"\n"


def _accepted_entries(entries: Iterable[Entry], ids: Collection[str]) -> list[Entry]:
    """Return the entries with these ids. Raises ValueError if one of them is not accepted."""
    named = [entry for entry in entries if entry.id in ids and entry.repair == ACCEPTED]
    if len(named) != len(ids):
        raise ValueError("the line cancels a charge that was made before a draw")
    return named


def _with_slack_numbers(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Give a number to each step that needs a slack and has none (an old entry), or that has the
    number of an earlier step (a repaired ledger). A number depends on earlier entries only."""
    numbered: list[Entry] = []
    numbers: dict[str, int] = {}
    for entry in entries:
        number, (name, _) = 0, entry.filter_step
        if needs_slack(entry.event):
            is_new = entry.slack not in {0, *numbers.values()}
            numbers.setdefault(
                name, entry.slack if is_new else 1 + max(numbers.values(), default=0)
            )
            number = numbers[name]
        numbered.append(replace(entry, slack=number))
    return tuple(numbered)


def has_fingerprint_of_0_2(state: Path) -> bool:
    """Return whether a ledger of the state folder has a fingerprint of version 0.1 or 0.2."""
    ledgers = (state / "ledgers").glob("*/*.jsonl")
    return any(_FINGERPRINT_OF_0_2.search(ledger.read_bytes()) for ledger in ledgers)


def _edited(path: Path, what: str) -> LedgerError:
    return LedgerError(
        f"{path}: {what}, so no mechanism can run. Somebody edited the file, or the state folder "
        "has another key. Restore the file and the key from a backup."
    )


def _seal(key: bytes, path: Path, before: str, body: bytes) -> str:
    """Compute the seal of the entry `body`, given the seal `before`."""
    said = b"\x1f".join(
        [b"ledger", f"{path.parent.name}/{path.stem}".encode(), before.encode(), body]
    )
    return hmac.digest(key, said, "sha256").hex()


def _head(path: Path) -> Path:
    return path.with_suffix(".head")


def _ids_of_results(folder: Path, dataset: str) -> dict[str, Path]:
    """Map each charge of a finished result to the file that names the charge.

    A folder with a name that starts with a dot is skipped, because it is incomplete.
    """
    files: dict[str, Path] = {}
    for path in (folder / dataset).glob("*/generation-*/[!.]*/ledger_ids.json"):
        try:
            files |= {str(i): path for i in json.loads(path.read_text())}
        except (OSError, *NOT_AN_ENTRY):
            raise LedgerError(
                f"{path}: is damaged, so the charges of this result are unknown. Restore the file "
                "from a backup, or delete the folder of the result. The ledger keeps its charges"
            ) from None
    return files


def _ids_of_trainings(folder: Path) -> dict[str, Path]:
    """Map each charge of `sugarbush.train_dpsgd` to the file that counts the steps."""
    counts = folder.glob("train_dpsgd-*/generation-*/draws-*")
    return {path.name.removeprefix("draws-"): path for path in counts}
