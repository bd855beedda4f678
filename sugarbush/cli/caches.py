"""`sugarbush cache`: shows or deletes the cached answers of models."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sugarbush.generators.answer_cache import FOLDER, open_cache
from sugarbush.pipeline.opening import open_project
from sugarbush.run.inputs import label_answers, rehearsal_file

ANSWERS, LABELS = "generator", "labels"


def show_cache(base: Path, console: Console) -> None:
    """Print the number of cached answers, their folders, and their size on disk."""
    for name, folder in _folders(base).items():
        if not (folder / FOLDER).exists():
            console.print(f"{name}: none cached")
            continue
        with open_cache(folder) as cache:
            size = cache.size()
        megabytes = size.size_bytes / 1e6
        console.print(
            f"{name}: {size.answers:,} answers, {megabytes:.1f} MB in {folder / FOLDER}",
            soft_wrap=True,
        )


def clear_cache(base: Path, console: Console, *, labels: bool) -> None:
    """Delete the generator's answers and, with `labels`, the answers about private texts."""
    for name, folder in _folders(base).items():
        if (name == LABELS and not labels) or not (folder / FOLDER).exists():
            continue
        with open_cache(folder) as cache:
            deleted = cache.clear()
        if name == ANSWERS:
            rehearsal_file(base).unlink(
                missing_ok=True
            )  # another run pays for its texts again, and judges them again
        console.print(f"{name}: {deleted:,} answers deleted")


def _folders(base: Path) -> dict[str, Path]:
    project = open_project(base)
    return {ANSWERS: project.state, LABELS: label_answers(project.base)}
