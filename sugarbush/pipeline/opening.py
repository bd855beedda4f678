"""Opens the project in a folder, with the plan of a run and the rehearsal that a charge needs."""

from __future__ import annotations

from pathlib import Path

from sugarbush.data.schema import Schema
from sugarbush.pipeline.draws import refuse_charge_beside_reuse
from sugarbush.pipeline.plan import plan_of
from sugarbush.rehearsal.preflight import check_without_metadata
from sugarbush.rehearsal.rehearse import require_rehearsal
from sugarbush.run.context import Gate, Project
from sugarbush.run.inputs import FolderInputs
from sugarbush.run.settings import FILE, ProjectSettings, load_params


def open_project(
    base: Path,
    *,
    settings: ProjectSettings | None = None,
    schema: Schema | None = None,
    state: Path | None = None,
) -> Project:
    """Open the project in `base`. Without `settings`, they are read from its params.yaml.

    `schema` replaces the schema of the settings, and `state` the folder of the ledger.

    Before its first charge, the project checks and rehearses what the run needs.
    """
    own = load_params(base / FILE) if settings is None else settings
    gate = Gate(rehearse=_before_first_charge, plan=plan_of)
    return Project(base, own, inputs=FolderInputs(base, own, schema=schema), gate=gate, state=state)


def _before_first_charge(project: Project) -> None:
    refuse_charge_beside_reuse(project)
    check_without_metadata(project)
    require_rehearsal(project)
