"""Records in <state>/publications/<purpose>-<dataset>.json which releases were published.

Published releases cannot be taken back, and an observer may have all of them. So the record counts
them, and survives the project and the published folders. A publication is recorded before its
folder gets its name: a crash in between counts a publication too many, never too few.

Two publications are of the same release if the second has no ledger entry that an earlier one
lacks. Everything else is post-processing, which costs no privacy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from sugarbush.errors import StorageError
from sugarbush.paths import atomic_file, make_owner_only, reading

_ADVICE = (
    "Restore the file from a backup. Without it, nobody knows which releases of the dataset were "
    "published"
)
_LOCK_TIMEOUT_S = 120


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published release: its date, its ledger entries, and its epsilon and delta.

    `ledger_ids` are the entries of the texts.
    """

    date: str
    ledger_ids: tuple[str, ...]
    epsilon: float
    delta: float


class Publications:
    """The published releases of one dataset, oldest first. `opened` locks them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with reading(path, advice=_ADVICE):
            fields = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
            self.releases = tuple(
                Published(
                    date=str(each["date"]),
                    ledger_ids=tuple(map(str, each["ledger_ids"])),
                    epsilon=float(each["epsilon"]),
                    delta=float(each["delta"]),
                )
                for each in fields
            )

    def number_of(self, ledger_ids: Sequence[str]) -> int | None:
        """Return the number of the published release with these entries, or None if it is new.

        The first release has number 1. A release with entries of several published releases has the
        number of the last one.
        """
        for number, each in enumerate(self.releases, start=1):
            if set(ledger_ids) <= set(each.ledger_ids):
                return number
        published = {i for each in self.releases for i in each.ledger_ids}
        return len(self.releases) if self.releases and set(ledger_ids) <= published else None

    def add(self, release: Published) -> None:
        """Record a release. Raises StorageError."""
        self.releases = (*self.releases, release)
        with atomic_file(self._path) as temporary:
            content = [asdict(each) for each in self.releases]
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@contextmanager
def open_publications(state: Path, dataset: str) -> Iterator[Publications]:
    """Yield the publications of a dataset. Only one process has them at a time.

    Raises StorageError for a damaged file, or if another process has them for two minutes.
    """
    path = state / "publications" / f"{dataset}.json"
    try:
        make_owner_only(path.parent)
        with FileLock(f"{path}.lock", timeout=_LOCK_TIMEOUT_S):
            yield Publications(path)
    except Timeout:
        raise StorageError(f"{path}: another process publishes this dataset now") from None
