"""Gives private inputs random names, so that no released file shows whether two inputs are equal.

    <state>/snapshots/<dataset>.json     name and keyed digest of each input, and all earlier names

DVC, cache keys and release.json contain the name and no digest. Equal inputs have equal digests,
even with a key. With digests, anyone could compare two releases and learn exactly whether a record
was added or removed. No finite epsilon allows exact knowledge.

An input keeps its name while its content stays the same. If the content changes and later changes
back, the input gets a new name, and old results are not restored. An input also gets a new name if
settings or public files change. If the name stayed, it would reveal whether a record equals a newly
donated text.

The file also contains every name that was ever given. So a project can find out whether this state
folder made the releases in its dvc.lock.

The names still show whether an input changed since the last run. A schedule that forces every run
also hides such a change, because a forced run renews the names. A forced run spends budget.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sugarbush.errors import StorageError
from sugarbush.paths import atomic_file, make_owner_only
from sugarbush.privacy.key import random_id

_LOCK_TIMEOUT_S = 120
_GIVEN = "given"  # maps every name that was ever given to its input


class Snapshots:
    """The names of the private inputs of one dataset, such as "release-tickets".

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     names = Snapshots(Path(state), "release-tickets")
    ...     first, same = names.of("corpus", digest="a"), names.of("corpus", digest="a")
    ...     other, back = names.of("corpus", digest="b"), names.of("corpus", digest="a")
    >>> first == same, len({first, other, back})
    (True, 3)
    """

    def __init__(self, state: Path, dataset: str) -> None:
        self._path = state / "snapshots" / f"{dataset}.json"

    def of(
        self, name: str, *, digest: str, within: str = "", public: str = "", renew: bool = False
    ) -> str:
        """Return the random name of the input `name`, which has the keyed digest `digest`.

        `within` is the name of the input from which this input was computed. `public` is a digest
        of the settings and public files for the computation. The result is a new name if `digest`,
        `within` or `public` changed, or if `renew` is set. Raises StorageError if
        the state folder cannot be used.
        """
        with self._open() as inputs:
            content = {"digest": digest, "within": within, "public": public}
            entry = inputs.get(name)
            same = entry is not None and all(entry[k] == v for k, v in content.items())
            given = entry["name"] if entry is not None and same and not renew else random_id()
            inputs[name] = {**content, "name": given}
            inputs.setdefault(_GIVEN, {})[given] = name
            return given

    def given(self) -> frozenset[str]:
        """Return every name that this state folder has given to an input."""
        with self._open() as inputs:
            return frozenset(inputs.get(_GIVEN, {}))

    def now(self, name: str) -> str | None:
        """Return the current name of an input, or None."""
        with self._open() as inputs:
            return inputs[name]["name"] if name in inputs else None

    def kept(self, name: str, *, within: str, public: str) -> str | None:
        """Return the current name of an input, or None if `within` or `public` changed since."""
        with self._open() as inputs:
            entry = inputs.get(name, {})
        same = entry.get("within") == within and entry.get("public") == public
        return entry["name"] if entry and same else None

    def seen(self, name: str, *, digest: str) -> str:
        """Return the current name of an input if its digest is still `digest`, otherwise a random
        name. Store nothing."""
        with self._open() as inputs:
            entry = inputs.get(name)
        return entry["name"] if entry is not None and entry["digest"] == digest else random_id()

    @contextmanager
    def _open(self) -> Iterator[dict[str, dict[str, str]]]:
        try:
            make_owner_only(self._path.parent)
            with FileLock(f"{self._path}.lock", timeout=_LOCK_TIMEOUT_S):
                before = self._path.read_text() if self._path.exists() else "{}"
                inputs: dict[str, dict[str, str]] = json.loads(before)
                yield inputs
                if (after := json.dumps(inputs)) != before:
                    with atomic_file(self._path) as path:
                        path.write_text(after)
        except Timeout:
            raise StorageError(
                f"{self._path}.lock: another run held the lock for {_LOCK_TIMEOUT_S} s. Run again"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StorageError(
                f"{self._path}: is damaged. Restore the file from a backup, or delete it and "
                "dvc.lock. After a deletion, the next run draws and charges all results again"
            ) from None
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror or error}") from None
