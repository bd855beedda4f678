"""`sugarbush clean --private`: removes the private files of a project and of its copies."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import typer
from rich.console import Console

from sugarbush.errors import MissingInputError, ParamsError, StorageError
from sugarbush.paths import OWN_LABELS, Roots, checkout_root
from sugarbush.run.settings import FILE

_PRIVATE = {("data", "private"), ("reports", "internal")}  # the last parts of their paths


def clean_private(base: Path, console: Console, *, yes: bool) -> None:
    """Remove `data/private` and `reports/internal`, also in copies of killed DVC experiments.

    The command follows no link. Raises ParamsError for a folder behind a link, and without `yes`
    if nobody can confirm. Raises StorageError if a folder cannot be removed.
    """
    base = checkout_root(base)
    if not (base / FILE).exists():
        raise MissingInputError(f"{base}: has no {FILE}. Run this command in a project's folder")
    refuse_own_files(base)
    folders: list[Path] = []
    links: list[Path] = []
    for folder in private_folders(base):
        (links if _has_link(folder, base) else folders).append(folder)
    for folder in folders:
        console.print(str(folder), markup=False, soft_wrap=True)
    if not folders:
        console.print("No private files.")
    elif not yes:
        if not sys.stdin.isatty():
            raise ParamsError("nobody can confirm the removal. Add --yes")
        typer.confirm("Remove these folders with all files?", abort=True)
    for folder in folders:
        try:
            shutil.rmtree(folder)  # unlinks a link inside, and does not follow it
        except OSError as error:
            raise StorageError(f"{folder}: could not be removed: {error.strerror}") from None
    if folders:
        console.print(
            "Removed. The state folder (ledger, key, noisy results), published files and files "
            "outside these folders are unchanged.",
            soft_wrap=True,
        )
    if links:
        names = ", ".join(map(str, links))
        raise ParamsError(f"{names}: is behind a link, so it was not removed. Remove it yourself")


def refuse_own_files(base: Path) -> None:
    """Raise ParamsError if the private folders contain the user's labels, or a file that
    params.yaml names.

    Such a file is the user's own, and Sugarbush cannot write it again. The file of settings is
    searched as text, because it may be damaged.
    """
    settings = (base / FILE).read_text(encoding="utf-8", errors="replace")
    roots = Roots(base)
    if (base / OWN_LABELS).exists():
        raise ParamsError(
            f"{OWN_LABELS}: the command would remove your labels. Move this file out of the "
            "private folders, or remove the folders yourself"
        )
    for folder in (roots.private, roots.internal):
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(base))
            if re.search(rf"(?<![\w.-]){re.escape(name)}/?(?![\w./-])", settings):
                raise ParamsError(
                    f"{name}: {FILE} names this file, and the command would remove it. Move it "
                    "out of the private folders, or remove the folders yourself"
                )


def private_folders(base: Path) -> Iterator[Path]:
    """Yield the private folders of the project, and those in temporary copies of DVC."""
    roots = Roots(base)
    for folder in (roots.private, roots.internal):
        if folder.is_symlink() or folder.exists():
            yield folder
    for parent in (base, *base.parents):
        for name, names, _ in os.walk(parent / ".dvc" / "tmp" / "exps"):  # follows no link
            path = Path(name)
            if path.parts[-2:] in _PRIVATE and checkout_root(path.parents[1]) == base:
                yield path
                names.clear()


def _has_link(folder: Path, base: Path) -> bool:
    """Return whether a folder of the path below the project's repository is a link."""
    shared = Path(os.path.commonpath([folder, base]))
    return any(each.is_symlink() for each in (folder, *folder.parents) if shared in each.parents)
