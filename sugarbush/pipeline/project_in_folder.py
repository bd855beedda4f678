"""Opens the project in a folder, with the rehearsal that a charge needs."""

from __future__ import annotations

from pathlib import Path

from sugarbush.pipeline.preflight import check_without_metadata
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.rehearsal import require_rehearsal
from sugarbush.pipeline.settings import ProjectSettings


def open_project(base: Path, *, settings: ProjectSettings | None = None) -> Project:
    """Open the project in `base`. Without `settings`, they are read from its params.yaml.

    Before its first charge, the project checks and rehearses what the run needs.
    """
    return Project(base, settings=settings, rehearse=_before_first_charge)


def _before_first_charge(project: Project) -> None:
    check_without_metadata(project)
    require_rehearsal(project)
