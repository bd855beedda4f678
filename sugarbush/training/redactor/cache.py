"""Trains the redactor of the default recipe once on a machine, and later reads it from a cache.

    <cache>/redactor/<digest of the recipe>/    weights, tokenizer, redactor.json

The cache is SUGARBUSH_STATE if it is set, else the user's cache folder. The redactor is trained on
public text only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import platformdirs
from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sugarbush.errors import StorageError
from sugarbush.paths import STATE_VARIABLE, make_owner_only, named_state, reading
from sugarbush.training.crt.findings import DESCRIPTION
from sugarbush.training.device import open_device
from sugarbush.training.redactor.detector import LearnedDetector
from sugarbush.training.redactor.train import Recipe, Report, train_redactor

_LINES = 10  # number of progress lines without a terminal


def redactor_folder(recipe: Recipe) -> Path:
    """Return the folder for the redactor of a recipe."""
    named = os.environ.get(STATE_VARIABLE)
    cache = named_state(Path(), named) if named else Path(platformdirs.user_cache_dir("sugarbush"))
    return cache / "redactor" / recipe.digest


def default_redactor() -> LearnedDetector:
    """Open the redactor of the default recipe.

    The first call on a machine trains the redactor, which takes some minutes. Raises StorageError
    when the cache cannot be written.
    """
    return _open(redactor_folder(Recipe()))


@lru_cache(maxsize=1)
def _open(folder: Path) -> LearnedDetector:
    if not (folder / DESCRIPTION).exists():
        try:
            make_owner_only(folder.parent)
            lock = FileLock(folder.with_suffix(".lock"))
            # A second process waits, and then reads the redactor that the first process wrote.
            with lock:
                if not (folder / DESCRIPTION).exists():
                    with progress("The redactor is trained once on this machine") as report:
                        made = train_redactor(
                            Recipe(), folder, device=open_device("auto"), report=report
                        )
                    print(
                        f"The redactor was trained in {made.description['seconds']:.0f} s",
                        flush=True,
                    )
        except OSError as error:
            raise StorageError(f"{folder.parent}: {error.strerror}") from None
    with reading(folder, advice="Delete the folder. The next use trains the redactor again"):
        return LearnedDetector(folder)


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show a progress bar with the remaining time. Without a terminal, print some lines."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def line(done: int, total: int) -> None:
            if done == 1 or done * _LINES // total > (done - 1) * _LINES // total:
                print(f"{what}: step {done} of {total}", flush=True)

        yield line
        return
    columns = (TextColumn(what), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)
