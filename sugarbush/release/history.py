"""Remembers the present release of a dataset and the one before it, to say what is new.

    <state>/releases/<purpose>-<dataset>.json     charges and digests of the texts of both

Everything in the file is released. It is in the state folder, because every run replaces the
project's folders. A report of an unchanged release changes nothing. If the ledger has charges of a
run that the present release does not count, that run has not finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sugarbush.paths import atomic_file, make_owner_only, reading

_DIGITS = 16
_ADVICE = "Delete it: then the next report does not say what is new"


@dataclass(frozen=True, kw_only=True)
class PastRelease:
    """The charges of a release, the digests of its texts, and all charges when it was finished."""

    charges: frozenset[str]
    texts: frozenset[str]
    counted: frozenset[str]

    def new_texts(self, texts: Iterable[str]) -> int:
        """Return how many of `texts` this release does not have."""
        return sum(_digest(text) not in self.texts for text in texts)


class ReleaseHistory:
    """The present release of a dataset and the one before it. Raises StorageError for a damaged
    file."""

    def __init__(self, state: Path, dataset: str) -> None:
        self._path = state / "releases" / f"{dataset}.json"

    def counts(self, charges: Iterable[str]) -> bool:
        """Return whether there is a finished release, and all `charges` came before its end."""
        known = self._read()
        return bool(known) and known[-1].counted.issuperset(charges)

    def finish(
        self, *, charges: Iterable[str], texts: Iterable[str], counted: Iterable[str]
    ) -> PastRelease | None:
        """Store the present release, and return the one before it, or None.

        `charges` are those of the release, and `counted` all of the dataset.
        """
        known = self._read()
        now = PastRelease(
            charges=frozenset(charges),
            texts=frozenset(map(_digest, texts)),
            counted=frozenset(counted),
        )
        if known and (known[-1].charges, known[-1].texts) == (now.charges, now.texts):
            known = known[:-1]  # another report of the present release
        kept = [*known[-1:], now]
        make_owner_only(self._path.parent)
        with atomic_file(self._path) as temporary:
            rows = [{name: sorted(ids) for name, ids in vars(each).items()} for each in kept]
            temporary.write_text(json.dumps(rows) + "\n", encoding="utf-8")
        return kept[0] if len(kept) > 1 else None

    def _read(self) -> list[PastRelease]:
        with reading(self._path, advice=_ADVICE):
            text = self._path.read_text(encoding="utf-8") if self._path.exists() else "[]"
            return [
                PastRelease(**{name: frozenset(ids) for name, ids in row.items()})
                for row in json.loads(text)
            ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
