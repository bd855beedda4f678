"""Stores the results of finished mechanisms, so that no mechanism is run and charged twice.

    <state>/draws/<dataset>/<stage>-<digest>/generation-<n>/<name>/
                                                           /run     the random id of the generation

The digest covers settings, the names of the inputs (`privacy.snapshots`) and the method's version.
A comment or a log level does not change the digest. A forced run opens a new generation. Only
released results are stored.

A crash at any line is safe because of the order: charge the ledger, run the mechanism, write the
result, use the result. If the result of a charge is missing, the mechanism is charged again,
because somebody may have seen the result and deleted it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from sugarbush.errors import PrivacyError, StorageError
from sugarbush.paths import atomic_directory, make_owner_only, reading
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.key import random_id

_LOCK_TIMEOUT_S = 6 * 3600
LEDGER_IDS = "ledger_ids.json"  # the file of a result with the ids of its charges
DAMAGED = (
    "Restore it from a backup, or delete its folder. The next run then draws and charges again"
)


def digest_of(**fields: Any) -> str:
    """Compute a digest of settings and inputs. Equal values have equal digests on every machine."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def digest_of_folder(folder: Path) -> str:
    """Compute a digest of the names and contents of all files in a folder, except hidden files."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(each.startswith(".") for each in name.parts):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            whole.update(json.dumps([name.as_posix(), content]).encode())
    return whole.hexdigest()


class ResultStore:
    """The results of one stage at one digest, by name. A stored result is always complete."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder = folder
        self.run = run

    @property
    def digest(self) -> str:
        """The digest of the key."""
        return self.folder.parent.name.rpartition("-")[2]

    def finished(self, name: str) -> Path | None:
        path = self.folder / name
        return path if path.is_dir() else None

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a folder that becomes the finished result `name` when the block succeeds."""
        if self.finished(name) is not None:
            raise PrivacyError(f"{self.folder / name}: is finished and must not be overwritten")
        with atomic_directory(self.folder / name, private=True) as folder:
            yield folder

    def drawn(self, name: str, draw: Callable[[Path], Sequence[str]]) -> Released[Path]:
        """Return the folder of the finished result `name`, with the ledger ids of its charges.

        A missing result is drawn: `draw` writes its files into a folder and returns the ledger ids.
        The ledger refuses charges as long as it lacks an id of a stored result.
        """
        if self.finished(name) is None:
            with self.writing(name) as folder:
                (folder / LEDGER_IDS).write_text(json.dumps(draw(folder)))
        done = self.folder / name
        with reading(done, advice=DAMAGED):
            return Released(done, tuple(map(str, json.loads((done / LEDGER_IDS).read_text()))))

    def array(
        self, name: str, draw: Callable[[], Released[NDArray[Any]]]
    ) -> Released[NDArray[Any]]:
        """Return the finished array `name`, or else call `draw` and store the result."""

        def save(folder: Path) -> tuple[str, ...]:
            array = draw()
            np.save(folder / f"{name}.npy", array.value)
            return array.ledger_ids

        done = self.drawn(name, save)
        with (
            reading(done.value, advice=DAMAGED),
            (done.value / f"{name}.npy").open("rb") as file,
        ):
            return done.map(lambda _: np.lib.format.read_array(file, allow_pickle=False))


@contextmanager
def open_result_store(
    state: Path, *, dataset: str, stage: str, key: Mapping[str, Any], forced: bool
) -> Iterator[ResultStore]:
    """Open the newest generation of a stage's results, or a new generation if `forced`.

    `key` contains everything that the results depend on, as values of JSON. Only one process uses
    the store at a time. A second process waits, and then finds the results of the first process.
    Raises PrivacyError after six hours of waiting. Raises StorageError if the folder cannot be
    used.
    """
    folder = state / "draws" / dataset / f"{stage}-{digest_of(**key)}"
    lock = FileLock(folder / "lock", timeout=_LOCK_TIMEOUT_S)
    try:
        make_owner_only(folder)
        lock.acquire()
    except Timeout:
        raise PrivacyError(
            f"{folder}: another run of this stage held the lock for {_LOCK_TIMEOUT_S // 3600} hours"
        ) from None
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror or error}") from None
    try:
        numbers = (path.name.removeprefix("generation-") for path in folder.glob("generation-*"))
        newest = max((int(number) for number in numbers if number.isdecimal()), default=0)
        generation = newest + 1 if forced or not newest else newest
        generation_folder = folder / f"generation-{generation}"
        if not generation_folder.exists():
            with atomic_directory(generation_folder, private=True) as made:
                (made / "run").write_text(random_id())
        run = generation_folder / "run"
        with reading(run, advice=DAMAGED):
            run_id = run.read_text()
        yield ResultStore(generation_folder, run_id)
    finally:
        lock.release()
