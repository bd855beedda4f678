"""Joins the mechanisms of the methods, of the first look and of the public figures in one plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Final

from sugarbush.evaluation.figures_plan import figure_requests
from sugarbush.evaluation.first_look import CENTRE, FIT, KINDS, LENGTHS, STYLE, look_requests
from sugarbush.methods.plan import plan_beside, plan_for
from sugarbush.paths import atomic_file, checkout_root
from sugarbush.pipeline.code import code_digest
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest
from sugarbush.privacy.entries import NOT_AN_ENTRY
from sugarbush.privacy.results import digest_of
from sugarbush.run.context import Project
from sugarbush.run.ledgers import profile_charges

FILE: Final = ".cache/plan.json"


def store_plan(project: Project) -> BudgetPlan:
    """Return the plan, and store it, because planning takes most of a run without changes.

    The stored plan only decides which stages are stale. A stage that draws noise computes its own
    plan, so an edited file changes no noise.
    """
    key, path = _key(project), _file(project)
    if (plan := _read_plan(path, key)) is None:
        plan = project.plan
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps({"key": key, "plan": plan.as_dict()}) + "\n")
    return plan


def _file(project: Project) -> Path:
    return checkout_root(project.base) / FILE


def _key(project: Project) -> str:
    """Return a digest of everything that the plan depends on."""
    settings = project.settings
    return digest_of(
        privacy=settings.privacy.model_dump(mode="json"),
        requests=[[asdict(r) for r in m.budget_requests()] for m in settings.chosen],
        methods={method.name: method.output_settings() for method in settings.chosen},
        measured=[asdict(request) for request in measured_requests(project)],
        profile=profile_charges(project),
        code=code_digest(),
        library=version("dp-accounting"),
    )


def _read_plan(path: Path, key: str) -> BudgetPlan | None:
    """Return the stored plan, or None for another key or a damaged file."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return BudgetPlan.from_dict(fields["plan"]) if fields["key"] == key else None
    except (OSError, *NOT_AN_ENTRY):
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
