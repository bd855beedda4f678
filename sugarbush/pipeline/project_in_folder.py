"""Opens the project in a folder, with the rehearsal that a charge needs."""

from __future__ import annotations

from pathlib import Path

from sugarbush.pipeline.project import Project
from sugarbush.pipeline.rehearsal import require_rehearsal
from sugarbush.pipeline.settings import ProjectSettings


def open_project(base: Path, *, settings: ProjectSettings | None = None) -> Project:
    """Open the project in `base`. Without `settings`, they are read from its params.yaml.

    The project rehearses before its first charge (`rehearsal.require_rehearsal`).
    """
    return Project(base, settings=settings, rehearse=require_rehearsal)
