"""Reserves the budget of a run that has started, so that no other run can spend it.

    <state>/ledgers/<purpose>/<dataset>.reserved/<random>.json   the entries that the run may add
                                                /<random>.lock   locked while the run lives

The operating system frees the lock of a dead process. A reservation without a locked file is
ignored and removed. All functions are called under the lock of the ledger.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sugarbush.paths import atomic_file, make_owner_only
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.events import Event, single_events


class Reservation:
    """The entries that one run may still add to a ledger. An empty reservation has no file."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self.path: Path | None = None
        self._lock: FileLock | None = None

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def covers(self, events: Sequence[Event]) -> bool:
        """Return whether all `events` are reserved."""
        required = Counter(single for event in events for single in single_events(event))
        return bool(self._entries) and required <= Counter(entry.event for entry in self._entries)

    def of(self, event: Event) -> tuple[Entry, ...]:
        """Return the reserved entries that a charge of `event` uses, or none.

        Each planned draw is reserved separately. An event of several draws uses as many entries of
        one group with one slack number, so its draws cost the same together.
        """
        for entry in self._entries:
            if entry.event == event:
                return (entry,)
        singles = single_events(event)
        alike: dict[tuple[str, int], list[Entry]] = {}
        for entry in self._entries:
            if entry.plan and entry.event == singles[0]:
                alike.setdefault((entry.plan, entry.slack), []).append(entry)
        whole = (entries for entries in alike.values() if len(entries) >= len(singles))
        return tuple(next(whole, [])[: len(singles)])

    def store(self, folder: Path, entries: Sequence[Entry]) -> None:
        """Replace the reservation."""
        self.close()
        if not entries:
            return
        make_owner_only(folder)
        self.path = folder / f"{secrets.token_hex(12)}.json"
        self._lock = FileLock(self.path.with_suffix(".lock"), timeout=0, thread_local=False)
        self._lock.acquire()
        self._write([replace(entry, id=secrets.token_hex(12)) for entry in entries])

    def remove(self, entries: Sequence[Entry]) -> None:
        """Remove entries that are now charged."""
        charged = {entry.id for entry in entries}
        self._write([entry for entry in self._entries if entry.id not in charged])
        if not self._entries:
            self.close()

    def close(self) -> None:
        """Remove the reservation."""
        path, lock = self.path, self._lock
        self._entries, self.path, self._lock = [], None, None
        if path is not None and lock is not None:
            path.unlink(missing_ok=True)
            lock.release()
            with suppress(OSError):
                path.with_suffix(".lock").unlink(missing_ok=True)

    def _write(self, entries: list[Entry]) -> None:
        assert self.path is not None
        with atomic_file(self.path) as path:
            path.write_text(json.dumps([entry.public_fields() for entry in entries]))
            path.chmod(0o600)
        self._entries = entries

    @staticmethod
    def others(folder: Path, own_path: Path | None) -> Iterator[dict[str, Any]]:
        """Yield the entries that other live runs have reserved. Remove dead reservations."""
        for path in sorted(folder.glob("[!.]*.json")):
            if path == own_path:
                continue
            lock = FileLock(path.with_suffix(".lock"), timeout=0, thread_local=False)
            try:
                with lock:
                    path.unlink(missing_ok=True)
                    path.with_suffix(".lock").unlink(missing_ok=True)
            except Timeout:
                with suppress(FileNotFoundError):  # the run has just ended
                    yield from json.loads(path.read_text())
