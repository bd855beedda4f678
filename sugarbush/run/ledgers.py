"""Opens the ledgers and the stores of finished results of a project."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import ResultStore, open_result_store
from sugarbush.run.context import Project


def uncapped_ledger(project: Project, kind: str) -> Ledger:
    """Return the separate ledger of results without a DP epsilon.

    Whoever sees such results can choose by them, so the card says that there are some.
    """
    project.ledger(rehearse=False).note_shown("results without DP", of=[kind])
    privacy = project.settings.privacy
    return Ledger(
        project.state,
        dataset=project.dataset,
        unit=privacy.unit,
        delta=privacy.delta,
        purpose=f"{privacy.purpose.value}-{kind}",
        cap=math.inf,
    )


def open_store(
    project: Project,
    stage: str,
    key: Mapping[str, Any],
    *,
    forced: bool,
    dataset_prefix: str | None = None,
) -> AbstractContextManager[ResultStore]:
    """Open the finished results of a stage for a cache key. `forced` forgets them."""
    return open_result_store(
        project.state,
        dataset=f"{dataset_prefix or project.settings.privacy.purpose}-{project.dataset}",
        stage=stage,
        key=key,
        forced=forced,
    )


def profile_charges(project: Project) -> tuple[str, ...]:
    """Return the ledger ids of the dataset's profiles. The settings may lack the dataset's name."""
    if not project.settings.privacy.dataset:
        return ()
    return project.ledger(rehearse=False).profiles()


def planned_line(project: Project) -> str:
    """Return the epsilon that a run plans, with that of its profile, for the terminal."""
    line = f"epsilon {rounded_up(project.plan.epsilon)}"
    if charges := profile_charges(project):
        planned = project.plan.planned
        ledger = project.ledger(rehearse=False)
        both = ledger.epsilon_with(charges, (planned.events, planned))
        line += f", and {rounded_up(both)} together with its profile"
    return line
