"""The ledger: what has been spent on a dataset, charged before each mechanism runs.

    <state>/key                         32 random bytes that key every fingerprint and digest
    <state>/ledgers/<purpose>/<dataset>.jsonl     one entry a line, appended and never rewritten

It is outside the checkout, because DVC deletes a stage's outputs, experiments run in copies, and
clones are deleted. `charge` takes the lock, reads the file again, checks the cap, appends and waits
for the disk; only then may a mechanism run. A crash in between wastes budget but never releases an
uncharged result. Entries contain events, ids and keyed fingerprints: no text, no count, no record
number.
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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sugarbush.errors import BudgetExceededError, InvariantError, LedgerError, ParamsError
from sugarbush.paths import make_owner_only
from sugarbush.privacy.accounting import epsilon, gaussian_mu
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.events import Event, event_from_dict
from sugarbush.privacy.unit import Unit

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_LOCK_TIMEOUT_S = 120
_MINIMA = 64
# Two corpora that share more than about this fraction of their records count as one dataset: 3 of
# the 64 minima. A corpus that has grown tenfold still shares 3 minima with probability 0.96; two
# corpora without a common record share none.
_SAME_DATASET = 0.04


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One charge. `run` is the digest of the stage's settings and inputs.

    `user_column` names the column of the user, if the unit is a user.
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

    def as_line(self) -> bytes:
        fields = {
            "id": self.id,
            "time": self.time,
            "unit": self.unit.value,
            **({} if self.user_column is None else {"whose": self.user_column}),
            "stage": self.stage,
            "run": self.run,
            "event": self.event.as_dict(),
            "delta": self.delta,
            "sketch": list(self.dataset_fingerprint),
        }
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def make_dataset_fingerprint(texts: Iterable[str], *, key: bytes) -> tuple[str, ...]:
    """A keyed MinHash of a corpus: 64 minima.

    The share of equal minima estimates the share of common texts. It recognises a corpus under
    another name, also after some records were added or removed. Without the key nobody can test
    whether a text is in the corpus.
    """
    minima = [b"\xff" * 16] * _MINIMA
    for text in texts:
        plain = " ".join(text.lower().split())  # white space and case do not make another corpus
        digest = hmac.digest(key, plain.encode("utf-8", "surrogatepass"), "sha256")
        for block in range(_MINIMA // 4):
            wide = hashlib.sha512(digest + bytes([block])).digest()
            for part in range(4):
                value, place = wide[16 * part : 16 * part + 16], 4 * block + part
                minima[place] = min(minima[place], value)
    return tuple(value[:8].hex() for value in minima)


class Ledger:
    """The charges on one dataset, under one cap.

    `cap` and `delta` limit the total: epsilon at `delta`, per `unit`. `user_column` names the
    column of the user, if the unit is a user. Raises ParamsError for a dataset name that is not
    allowed.

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
    ) -> None:
        if not _NAME.fullmatch(dataset):
            raise ParamsError(
                "params.yaml: privacy.dataset must be a short name of a-z, 0-9, '.', '_' and '-'"
            )
        self.dataset, self.unit, self.cap, self.delta = dataset, unit, cap, delta
        self.user_column = user_column
        self.folder = state / "ledgers" / purpose
        self.path = self.folder / f"{dataset}.jsonl"
        self._lock_path = self.folder / "lock"
        self.fixed_entries: tuple[Entry, ...] | None = None

    def entries(self) -> tuple[Entry, ...]:
        """Every charge so far, oldest first."""
        return _read(self.path) if self.fixed_entries is None else self.fixed_entries

    def snapshot(self) -> Ledger:
        """A read-only copy of this ledger as it is now: it refuses charges and does not see later
        ones."""
        found = copy.copy(self)
        found.fixed_entries = self.entries()
        return found

    def total(self, *more: Event) -> float:
        """Epsilon at the ledger's delta of all charges so far and of `more`."""
        return self._total(self.entries(), more)

    def check(self, events: Iterable[Event], *, dataset_fingerprint: tuple[str, ...] = ()) -> None:
        """Raise the error that `charge` would raise for `events` together; charge nothing."""
        with self._locked():
            self._admit(self.entries(), tuple(events), "this run", dataset_fingerprint)

    def charge(
        self, event: Event, *, stage: str, run: str, dataset_fingerprint: tuple[str, ...] = ()
    ) -> str:
        """Append `event` if the cap allows it and return the entry's id. Then run the mechanism.

        Raises BudgetExceededError, or LedgerError when the ledger knows the corpus under another
        dataset name. Both leave the ledger unchanged.
        """
        if self.fixed_entries is not None:
            raise InvariantError("a snapshot of a ledger cannot be charged")
        with self._locked():
            self._admit(self.entries(), (event,), f"stage '{stage}'", dataset_fingerprint)
            entry = Entry(
                id=secrets.token_hex(8),
                time=datetime.now(UTC).isoformat(timespec="seconds"),
                unit=self.unit,
                user_column=self.user_column,
                stage=stage,
                run=run,
                event=event,
                delta=self.delta,
                dataset_fingerprint=dataset_fingerprint,
            )
            self._append(entry.as_line())
        return entry.id

    def of(self, ids: Iterable[str]) -> tuple[Entry, ...]:
        """The entries with these ids. Raises LedgerError when one is missing."""
        known = {entry.id: entry for entry in self.entries()}
        try:
            return tuple(known[i] for i in dict.fromkeys(ids))
        except KeyError as error:
            raise LedgerError(
                f"{self.path}: has no entry {error.args[0]!r}, which a released result names. "
                "Set SUGARBUSH_STATE to the folder that this release was made with."
            ) from None

    def _total(self, entries: Iterable[Entry], more: Iterable[Event]) -> float:
        entries = tuple(entries)
        self._refuse_other_units(entries)
        # A larger delta makes epsilon smaller, so the smallest delta is used.
        delta = min([self.delta, *(entry.delta for entry in entries)])
        return epsilon([*(entry.event for entry in entries), *more], delta=delta)

    def _refuse_other_units(self, entries: tuple[Entry, ...]) -> None:
        own = _per(self.unit, self.user_column)
        others = {_per(entry.unit, entry.user_column) for entry in entries} - {own}
        if others:
            raise LedgerError(
                f"{self.path}: has charges per {'/'.join(sorted(others))}, which cannot be added "
                f"to charges per {own}: neither promise follows from the other. Set privacy.unit "
                "and prepare.user_column back; a dataset has one unit."
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
            return  # this saves the total, which takes seconds to compute
        after = self._total(entries, events)
        if after > self.cap:
            raise BudgetExceededError(
                f"{who} would bring epsilon of dataset '{self.dataset}' to {after:.4g} at "
                f"delta={self.delta:g}; spent so far {self._total(entries, ()):.4g}, "
                f"cap {self.cap:g}.\n"
                "  Lower privacy.epsilon, or raise privacy.cap if you may."
            )

    def _clearly_below_cap(self, entries: tuple[Entry, ...], events: tuple[Event, ...]) -> bool:
        """Whether the cap holds by Gaussian DP, an upper bound that is quick to compute."""
        delta = min([self.delta, *(entry.delta for entry in entries)])
        mu = gaussian_mu([*(entry.event for entry in entries), *events])
        return mu == 0 or (mu < math.inf and mu <= mu_of(epsilon=self.cap, delta=delta))

    def _refuse_other_names(self, dataset_fingerprint: tuple[str, ...]) -> None:
        """A corpus has one name and one purpose, and so one budget."""
        paths = set(self.folder.parent.glob("*/*.jsonl")) - {self.path}
        for path in sorted(paths):
            for known in {entry.dataset_fingerprint for entry in _read(path)}:
                if known and _agreement(known, dataset_fingerprint) > _SAME_DATASET:
                    raise LedgerError(
                        f"the corpus of dataset '{self.dataset}' is known to the ledger as "
                        f"'{path.stem}' ({path.parent.name}): one dataset has one budget.\n"
                        f"  Set privacy.dataset: {path.stem} and "
                        f"privacy.purpose: {path.parent.name}"
                    )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            make_owner_only(self.folder)
            with FileLock(self._lock_path, timeout=_LOCK_TIMEOUT_S):
                yield
        except Timeout:
            raise LedgerError(
                f"{self._lock_path}: another run held the lock for {_LOCK_TIMEOUT_S} s"
            ) from None
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be used: {error.strerror}") from None

    def _append(self, line: bytes) -> None:
        """Append one line and wait for the disk. An incomplete last line is removed first."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            whole = self.path.read_bytes().rfind(b"\n") + 1
            if whole != os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, whole)
            if os.write(descriptor, line) != len(line):
                raise LedgerError(f"{self.path}: only a part of the entry could be written")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _per(unit: Unit, user_column: str | None) -> str:
    """The unit of a charge, in words."""
    return unit.value if user_column is None else f"{unit} by column '{user_column}'"


def _agreement(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def _read(path: Path) -> tuple[Entry, ...]:
    """The entries of a file.

    An incomplete last line comes from a crash before its mechanism ran, so it is ignored. Any other
    line that does not parse means that somebody edited the file.
    """
    try:
        *lines, _unfinished = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return ()
    entries = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(_parse(json.loads(line)))
        except (ValueError, KeyError, TypeError, AssertionError):
            raise LedgerError(
                f"{path}, line {number}: not an entry. Restore the file from a backup; "
                "no mechanism runs while the ledger cannot be read."
            ) from None
    return tuple(entries)


def _parse(fields: dict[str, Any]) -> Entry:
    return Entry(
        id=str(fields["id"]),
        time=str(fields["time"]),
        unit=Unit(fields["unit"]),
        user_column=None if (user_column := fields.get("whose")) is None else str(user_column),
        stage=str(fields["stage"]),
        run=str(fields["run"]),
        event=event_from_dict(fields["event"]),
        delta=float(fields["delta"]),
        dataset_fingerprint=tuple(map(str, fields["sketch"])),
    )
