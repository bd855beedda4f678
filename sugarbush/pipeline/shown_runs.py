"""Records in <state>/shown/<purpose>-<dataset>.json which runs showed metrics on held-out texts.

An operator may compare the metrics of many runs and release the best run. This choice depends on
private texts, but no budget is charged for this choice. So the card states the number of runs. The
file contains digests of released texts and of random ids, but no metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock

from sugarbush.errors import StorageError
from sugarbush.paths import atomic_file, make_owner_only, reading

_ADVICE = (
    "Restore the file from a backup, or delete it. After a deletion, the count of shown runs "
    "starts again"
)


def note_shown(state: Path, dataset: str, runs: Iterable[str]) -> None:
    """Record `runs`, before their metrics are computed. Raises StorageError."""
    path = _path(state, dataset)
    try:
        make_owner_only(path.parent)
        with FileLock(f"{path}.lock"):
            known = _read(path)
            if new := sorted(set(runs) - set(known)):
                with atomic_file(path) as temporary:
                    temporary.write_text(json.dumps([*known, *new]))
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from None


def shown_count(state: Path, dataset: str) -> int:
    """Return the number of recorded runs. Raises StorageError for a damaged file."""
    return len(_read(_path(state, dataset)))


def _read(path: Path) -> list[str]:
    with reading(path, advice=_ADVICE):
        return [str(run) for run in json.loads(path.read_text())] if path.exists() else []


def _path(state: Path, dataset: str) -> Path:
    return state / "shown" / f"{dataset}.json"
