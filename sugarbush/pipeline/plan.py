"""Joins the mechanisms of the methods, of the first look and of the public figures in one plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sugarbush.errors import InvariantError
from sugarbush.evaluation.figures_plan import figure_requests
from sugarbush.evaluation.first_look import CENTRE, FIT, KINDS, LENGTHS, STYLE, look_requests
from sugarbush.methods.plan import plan_beside, plan_for
from sugarbush.paths import atomic_file, checkout_root
from sugarbush.pipeline.code import code_digest
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest
from sugarbush.privacy.results import digest_of
from sugarbush.run.context import Project
from sugarbush.run.ledgers import profile_charges

FILE: Final = ".cache/plan.json"


def kept_plan(project: Project) -> BudgetPlan:
    """Return `plan_of`, computed by the first process that needs it and read by the others.

    The file is public, because the plan follows from the settings alone. It is read only for the
    same settings, schema and code. A plan beside a profile depends on the ledger, so it is computed
    in each process.
    """
    if profile_charges(project):
        return plan_of(project)
    key = digest_of(
        code=code_digest(),
        settings=project.settings.model_dump(mode="json"),
        schema=project.schema.model_dump(mode="json"),
    )
    path = checkout_root(project.base) / FILE
    if (plan := _read_plan(path, key)) is None:
        plan = plan_of(project)
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps({"key": key, "plan": plan.as_dict()}) + "\n")
    return plan


def _read_plan(path: Path, key: str) -> BudgetPlan | None:
    """Return the stored plan, or None for another key or a damaged file."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return BudgetPlan.from_dict(fields["plan"]) if fields["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError, InvariantError):
        return None


def plan_of(project: Project) -> BudgetPlan:
    """Return the budget share of every mechanism of a run, beside the profiles of the dataset."""
    settings, profile = project.settings, profile_charges(project)
    figures = measured_requests(project)
    if not profile:
        return plan_for(settings.privacy, settings.chosen, figures=figures)
    ledger = project.ledger(rehearse=False)
    return plan_beside(
        settings.privacy,
        settings.chosen,
        figures=figures,
        total=lambda plan: ledger.epsilon_with(profile, (plan.events, plan)),
    )


def measured_requests(project: Project) -> tuple[BudgetRequest, ...]:
    """Return the mechanisms of the first look and of the public figures."""
    return (*look_requests(_cells_of_look(project)), *requests_of_figures(project))


def requests_of_figures(project: Project) -> tuple[BudgetRequest, ...]:
    """Return the mechanisms of the public figures, by the settings and the schema.

    Raises ParamsError for a rule about an attribute that the schema lacks.
    """
    share = project.settings.figures_share
    if not share:
        return ()
    schema = project.schema
    for rule in project.settings.rules:
        rule.require_measured(schema.names)
    names = [method.name for method in project.settings.released]
    return figure_requests(schema, names, share=share)


def _cells_of_look(project: Project) -> Mapping[str, int]:
    """Return the groups of counts of the first look, each with the most cells of a record.

    Settings and the schema decide it, never the records.
    """
    settings = project.settings
    if not settings.looks:
        return {}
    schema = project.schema
    cells = {CENTRE: 1, FIT: 1, KINDS: len(schema.names)}
    has_lengths = settings.initialise.length.numbers or (
        schema.shape is not None and schema.shape.requested
    )
    if settings.prepare.donated is None and not (has_lengths and schema.style):
        from sugarbush.profiling.form import FormReader  # slow

        reader = FormReader(schema.shape)
        cells |= {LENGTHS: reader.lengths.cells, STYLE: reader.style.cells}
    return cells
