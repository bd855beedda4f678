"""`sugarbush cache`: the answers that models have given, which are paid for."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sugarbush.generators.answer_cache import FOLDER, open_cache
from sugarbush.pipeline.project import Project

ANSWERS, LABELS = "generator", "labels"


def show_cache(base: Path, console: Console) -> None:
    """Print how many answers are kept, where, and how large they are on disk."""
    for name, folder in _folders(base).items():
        if not (folder / FOLDER).exists():
            console.print(f"{name}: none kept")
            continue
        with open_cache(folder) as cache:
            size = cache.size()
        megabytes = size.size_bytes / 1e6
        console.print(
            f"{name}: {size.answers:,} answers, {megabytes:.1f} MB in {folder / FOLDER}",
            soft_wrap=True,
        )


def clear_cache(base: Path, console: Console, *, labels: bool) -> None:
    """Forget the generator's answers, and those about private texts where `labels` says so."""
    for name, folder in _folders(base).items():
        if (name == LABELS and not labels) or not (folder / FOLDER).exists():
            continue
        with open_cache(folder) as cache:
            forgotten = cache.clear()
        console.print(f"{name}: {forgotten:,} answers forgotten")


def _folders(base: Path) -> dict[str, Path]:
    """The generator's answers are released text and outlive the project; labels are private."""
    project = Project(base)
    return {ANSWERS: project.state, LABELS: project.label_answers}
