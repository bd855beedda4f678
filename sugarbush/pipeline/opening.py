"""Opens the project in a folder, with the rehearsal that a charge needs."""

from __future__ import annotations

from pathlib import Path

from sugarbush.rehearsal.preflight import check_without_metadata
from sugarbush.rehearsal.rehearse import require_rehearsal
from sugarbush.run.context import Project
from sugarbush.run.settings import ProjectSettings


def open_project(base: Path, *, settings: ProjectSettings | None = None) -> Project:
    """Open the project in `base`. Without `settings`, they are read from its params.yaml.

    Before its first charge, the project checks and rehearses what the run needs.
    """
    return Project(base, settings=settings, rehearse=_before_first_charge)


def _before_first_charge(project: Project) -> None:
    check_without_metadata(project)
    require_rehearsal(project)
