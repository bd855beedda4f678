"""`sugarbush publish` writes a dataset folder that others can open."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sugarbush.pipeline.project_in_folder import open_project
from sugarbush.pipeline.publish import describe, publish_project


def publish_release(base: Path, target: Path, *, another: bool, console: Console) -> None:
    """Publish the finished release of the project in `base`, and print what was published."""
    publication = publish_project(open_project(base), target, another=another)
    for label, text in describe(publication, target).items():
        console.print(f"{label:<12} {text}", markup=False, highlight=False, soft_wrap=True)
