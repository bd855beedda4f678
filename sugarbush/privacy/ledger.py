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

Each entry is sealed: its last field is an HMAC over the entry and the seal of the entry before it.
The HMACs form a chain. An edited, reordered or deleted line breaks the chain. The .head file stores
the last seal, so the ledger detects missing last lines. Lines of version 0.1 have no seal; the
first sealed line covers them. Anyone with the key can forge a ledger. An older copy of a ledger has
valid seals, so the ledger also checks the results. If a released folder or a finished result names
a charge that the ledger lacks, the ledger accepts no new charge.
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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sugarbush.errors import BudgetExceededError, InvariantError, LedgerError, ParamsError
from sugarbush.paths import atomic_file, make_owner_only
from sugarbush.privacy.accounting import adaptive_epsilon, epsilon, gaussian_mu, rounded_up
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.events import Event, event_from_dict
from sugarbush.privacy.fingerprint import is_comparable, is_same_dataset, stored_part
from sugarbush.privacy.key import state_key
from sugarbush.privacy.settings import DATASET_NAME
from sugarbush.privacy.unit import Unit

_NAME = re.compile(DATASET_NAME)
_LOCK_TIMEOUT_S = 120
_SEAL_FIELD = b',"seal":"'
_FINGERPRINT_OF_0_2 = re.compile(rb'"sketch":\s*\["[0-9a-f]')
# A line that is not an entry raises one of these errors.
NOT_AN_ENTRY = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, InvariantError
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One charge. `run` is the random id of the stage's run (`privacy.results`).

    `user_column` is the column of the user, or None if the unit is a record.
    """

    id: str
    time: str
    unit: Unit
    user_column: str | None = None
    stage: str
    run: str
    event: Event
    delta: float
    dataset_fingerprint: tuple[str, ...]

    def public_fields(self) -> dict[str, Any]:
        """Return the fields that release.json shows: all except the fingerprint."""
        return {
            "id": self.id,
            "time": self.time,
            "unit": self.unit.value,
            **({} if self.user_column is None else {"whose": self.user_column}),
            "stage": self.stage,
            "run": self.run,
            "event": self.event.as_dict(),
            "delta": self.delta,
        }

    @classmethod
    def from_public_fields(cls, fields: Mapping[str, Any]) -> Entry:
        """Invert `public_fields`. Raises an error of `NOT_AN_ENTRY`."""
        entry = cls(
            id=str(fields["id"]),
            time=str(fields["time"]),
            unit=Unit(fields["unit"]),
            user_column=None if (column := fields.get("whose")) is None else str(column),
            stage=str(fields["stage"]),
            run=str(fields["run"]),
            event=event_from_dict(fields["event"]),
            delta=float(fields["delta"]),
            dataset_fingerprint=tuple(map(str, fields.get("sketch", ()))),
        )
        if not 0 < entry.delta < 1 or not all(entry.dataset_fingerprint):
            raise ValueError("delta is not a probability, or the fingerprint has an empty value")
        return entry

    def as_line(self) -> bytes:
        fields = {**self.public_fields(), "sketch": list(self.dataset_fingerprint)}
        return json.dumps(fields, separators=(",", ":")).encode()


class Ledger:
    """The charges on one dataset, under one cap.

    `cap` limits the total epsilon per `unit`, at `delta`. `user_column` is the column of the user,
    or None if the unit is a record. `paid_for` returns the charges that the project's released
    folders name. A ledger that lacks such a charge accepts no new charge.
    `different_from` names datasets that share no person with this dataset. Raises ParamsError on a
    bad dataset name, delta or cap.

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
        cap: float,
        delta: float,
        user_column: str | None = None,
        paid_for: Callable[[], Mapping[str, Path]] = dict,
        different_from: Collection[str] = (),
    ) -> None:
        if not _NAME.fullmatch(dataset):
            raise ParamsError(
                "params.yaml: privacy.dataset must be a short name of a-z, 0-9, '.', '_' and '-'"
            )
        if not _NAME.fullmatch(purpose):  # a ledger in a subfolder would not be compared
            raise ParamsError("a ledger's purpose must be a short name, such as release")
        if not (0 < delta < 1 and cap > 0):
            raise ParamsError(
                f"a ledger needs a delta between 0 and 1 and a cap above 0 (got {delta}, {cap})"
            )
        self.dataset, self.unit, self.cap, self.delta = dataset, unit, cap, delta
        self.user_column = user_column
        self.different_from = frozenset(different_from)
        self.state, self._purpose, self.paid_for = state, purpose, paid_for
        self.folder = state / "ledgers" / purpose
        self.path = self.folder / f"{dataset}.jsonl"
        # All purposes have one lock, because a charge reads all ledgers.
        self._lock_path = self.folder.parent / "lock"
        self.fixed_entries: tuple[Entry, ...] | None = None

    def entries(self) -> tuple[Entry, ...]:
        """Return every charge so far, oldest first."""
        return self._chain().entries if self.fixed_entries is None else self.fixed_entries

    def snapshot(self) -> Ledger:
        """Return a read-only copy of the present ledger, without later charges.

        The copy has no fingerprints, because anyone could compare the fingerprints of two releases.
        """
        found = copy.copy(self)
        found.fixed_entries = tuple(replace(e, dataset_fingerprint=()) for e in self.entries())
        found.paid_for = dict
        return found

    def total(self, *more: Event) -> float:
        """Compute epsilon of all charges and `more` together, at the smallest delta of all."""
        return self._total(self.entries(), more)

    def adaptive_total(self) -> float:
        """Compute an epsilon that is valid even if earlier results decided later runs."""
        entries = self.entries()
        self._refuse_other_units(entries)
        return adaptive_epsilon([e.event for e in entries], delta=self._smallest_delta(entries))

    def check(self, events: Iterable[Event], *, dataset_fingerprint: tuple[str, ...] = ()) -> None:
        """Raise the error that `charge` would raise for `events` together. Charge nothing."""
        with self._locked():
            entries = self.entries()
            self._refuse_missing_charges(entries)
            self._admit(entries, tuple(events), "this run", dataset_fingerprint)

    def charge(
        self, event: Event, *, stage: str, run: str, dataset_fingerprint: tuple[str, ...] = ()
    ) -> str:
        """Append `event` if the cap allows it, and return the entry's id.

        Call this method before the mechanism runs. Raises BudgetExceededError. Raises LedgerError
        if the ledger knows the corpus under another dataset name. An error leaves the ledger
        unchanged.
        """
        if self.fixed_entries is not None:
            raise InvariantError("a snapshot of a ledger cannot be charged")
        with self._locked():
            chain = self._chain()
            self._refuse_missing_charges(chain.entries)
            self._admit(chain.entries, (event,), f"stage '{stage}'", dataset_fingerprint)
            stored = stored_part(dataset_fingerprint)
            is_known = any(entry.dataset_fingerprint == stored for entry in chain.entries)
            entry = Entry(
                id=secrets.token_hex(8),
                time=datetime.now(UTC).date().isoformat(),
                unit=self.unit,
                user_column=self.user_column,
                stage=stage,
                run=run,
                event=event,
                delta=self.delta,
                dataset_fingerprint=() if is_known else stored,
            )
            self._append(entry, chain)
        return entry.id

    def add_missing(self, entries: Iterable[Entry]) -> int:
        """Append the `entries` that the ledger lacks, and return their number.

        The cap is not checked, because the results of the missing charges already exist.
        """
        added = 0
        with self._locked():
            for entry in entries:
                chain = self._chain()
                if entry.id not in {known.id for known in chain.entries}:
                    self._append(entry, chain)
                    added += 1
        return added

    def missing_charges(self) -> dict[str, Path]:
        """Find charges that a finished result or a released folder names but no ledger contains.

        Returns the path of the result or folder, by id.
        """
        return self._missing(self.entries())

    def _missing(self, entries: tuple[Entry, ...]) -> dict[str, Path]:
        named = _ids_of_results(self.state / "draws", f"{self._purpose}-{self.dataset}")
        named |= _ids_of_trainings(self.state / "draws" / self.dataset)
        named |= self.paid_for()
        known = {entry.id for entry in entries}
        if named.keys() <= known:
            return {}
        for path in self.folder.parent.glob(f"*/{self.dataset}.jsonl"):
            known |= {entry.id for entry in _read(path, self.state).entries}
        return {i: place for i, place in named.items() if i not in known}

    def of(self, ids: Iterable[str]) -> tuple[Entry, ...]:
        """Return the entries with these ids. Raises LedgerError if an id is missing."""
        known = {entry.id: entry for entry in self.entries()}
        try:
            return tuple(known[i] for i in dict.fromkeys(ids))
        except KeyError as error:
            raise LedgerError(
                f"{self.path}: has no entry {error.args[0]!r}, which a released result names. "
                "Set SUGARBUSH_STATE to the state folder of this release."
            ) from None

    def _total(self, entries: Iterable[Entry], more: Iterable[Event]) -> float:
        entries = tuple(entries)
        self._refuse_other_units(entries)
        events = [*(entry.event for entry in entries), *more]
        return epsilon(events, delta=self._smallest_delta(entries))

    def _smallest_delta(self, entries: Iterable[Entry]) -> float:
        # A larger delta would understate epsilon.
        return min([self.delta, *(entry.delta for entry in entries)])

    def _refuse_other_units(self, entries: tuple[Entry, ...]) -> None:
        own = _per(self.unit, self.user_column)
        others = {_per(entry.unit, entry.user_column) for entry in entries} - {own}
        if others:
            raise LedgerError(
                f"{self.path}: has charges per {'/'.join(sorted(others))}, which cannot be added "
                f"to charges per {own}. Set `privacy.unit` and `prepare.user_column` back to the "
                "earlier values."
            )

    def _admit(
        self,
        entries: tuple[Entry, ...],
        events: tuple[Event, ...],
        who: str,
        dataset_fingerprint: tuple[str, ...],
    ) -> None:
        if dataset_fingerprint:
            self._refuse_other_names(dataset_fingerprint)
        self._refuse_other_units(entries)
        if self.cap == math.inf or self._clearly_below_cap(entries, events):
            return  # skips the exact total, which takes seconds
        after = self._total(entries, events)
        if after > self.cap:
            raise BudgetExceededError(
                f"{who} would bring epsilon of dataset '{self.dataset}' to {rounded_up(after)} at "
                f"delta={self.delta:g} (spent so far {rounded_up(self._total(entries, ()))}, "
                f"cap {self.cap:g}).\n"
                "  Lower privacy.epsilon, or raise privacy.cap if you are allowed to."
            )

    def _clearly_below_cap(self, entries: tuple[Entry, ...], events: tuple[Event, ...]) -> bool:
        """Return whether the bound by Gaussian DP, which is fast, is below the cap."""
        delta = self._smallest_delta(entries)
        mu = gaussian_mu([*(entry.event for entry in entries), *events])
        return mu == 0 or (mu < math.inf and mu <= mu_of(epsilon=self.cap, delta=delta))

    def _refuse_other_names(self, dataset_fingerprint: tuple[str, ...]) -> None:
        """Raise LedgerError if another ledger knows the corpus. A corpus has one budget."""
        paths = set(self.folder.parent.glob("*/*.jsonl")) - {self.path}
        different = self.different_from - {self.dataset}
        for path in sorted(path for path in paths if path.stem not in different):
            for known in {e.dataset_fingerprint for e in _read(path, self.state).entries}:
                if not is_comparable(dataset_fingerprint, known):
                    raise LedgerError(
                        f"{path}: this ledger of version 0.2 was added after the corpus was "
                        "prepared, so it cannot be compared with the corpus. Delete the private "
                        "folder `prepared` and run again, or call prepare again in Python. "
                        "Preparing again costs no budget."
                    )
                if is_same_dataset(dataset_fingerprint, known):
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
        return _read(self.path, self.state)

    def _refuse_missing_charges(self, entries: tuple[Entry, ...]) -> None:
        missing = self._missing(entries)
        if missing:
            place = next(iter(missing.values()))
            raise LedgerError(
                f"{self.path}: lacks {len(missing)} charges that results name, the first in "
                f"{place}. The ledger is an older copy or belongs to other results. Set "
                "SUGARBUSH_STATE to the folder of these results, restore the ledger from "
                "a backup, or add the missing charges with `sugarbush budget --repair`"
            )

    def _append(self, entry: Entry, chain: _Chain) -> None:
        """Append a sealed entry, wait for the disk, and store its seal in the .head file.

        An incomplete last line is removed first. The line is written before its seal is stored, so
        that after a crash every stored seal has its line. The .head file is written before the
        first sealed line. If the .head file of sealed lines is missing, somebody edited the ledger.
        """
        body = entry.as_line()
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
            path.chmod(0o600)


def _per(unit: Unit, user_column: str | None) -> str:
    return unit.value if user_column is None else f"{unit} by column '{user_column}'"


@dataclass(frozen=True)
class _Chain:
    """The entries of a file, and the last seal."""

    entries: tuple[Entry, ...]
    last: str


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
    entries: list[Entry] = []
    unsealed = hashlib.sha256()
    seals: list[str] = []
    key = state_key(state) if lines else b""
    for number, line in enumerate(lines, start=1):
        body, mark, seal = line.rpartition(_SEAL_FIELD)
        if mark:
            found = seal.removesuffix(b'"}').decode("ascii", "replace")
            before = seals[-1] if seals else unsealed.hexdigest()
            expected = _seal(key, path, before, body + b"}")
            if not hmac.compare_digest(expected.encode(), found.encode()):
                raise _edited(path, f"line {number} or a line before it does not match its seal")
            seals.append(found)
        elif seals:
            raise _edited(path, f"line {number} is not an entry that this program sealed")
        else:
            unsealed.update(line + b"\n")
        try:
            entries.append(Entry.from_public_fields(json.loads(line)))
        except NOT_AN_ENTRY:
            raise LedgerError(
                f"{path}, line {number}: not an entry, so no mechanism can run. Restore the file "
                "from a backup."
            ) from None
    if seals and head is None and _head(path).exists():
        return _read(path, state)  # another process wrote the first charge after the read of `head`
    if seals if head is None else head not in (unsealed.hexdigest(), *seals):
        raise _edited(path, "the last lines or the .head file are missing")
    return _Chain(tuple(entries), seals[-1] if seals else unsealed.hexdigest())


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
    found: dict[str, Path] = {}
    for path in (folder / dataset).glob("*/generation-*/[!.]*/ledger_ids.json"):
        try:
            found |= {str(i): path for i in json.loads(path.read_text())}
        except (OSError, *NOT_AN_ENTRY):
            raise LedgerError(
                f"{path}: is damaged, so the charges of this result are unknown. Restore the file "
                "from a backup, or delete the folder of the result. The ledger keeps its charges"
            ) from None
    return found


def _ids_of_trainings(folder: Path) -> dict[str, Path]:
    """Map each charge of `sugarbush.train_dpsgd` to the file that counts the steps."""
    counts = folder.glob("train_dpsgd-*/generation-*/draws-*")
    return {path.name.removeprefix("draws-"): path for path in counts}
