"""Trains the redactor of the default recipe once on a machine, and later reads it from a cache.

    <cache>/redactor/<digest of the recipe>/    weights, tokenizer, redactor.json

The cache is SUGARBUSH_STATE if it is set, else the user's cache folder. The redactor is trained on
public text only.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import platformdirs
from filelock import FileLock

from sugarbush.errors import StorageError
from sugarbush.paths import STATE_VARIABLE, make_owner_only, named_state, reading
from sugarbush.redactor.detector import LearnedDetector
from sugarbush.redactor.train import Recipe, train_redactor
from sugarbush.training.crt.findings import DESCRIPTION
from sugarbush.training.device import open_device


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
                    print("The redactor is trained once on this machine", flush=True)
                    made = train_redactor(Recipe(), folder, device=open_device("auto"))
                    print(
                        f"The redactor was trained in {made.description['seconds']:.0f} s",
                        flush=True,
                    )
        except OSError as error:
            raise StorageError(f"{folder.parent}: {error.strerror}") from None
    with reading(folder, advice="Delete the folder. The next use trains the redactor again"):
        return LearnedDetector(folder)
