"""Makes a small project in a folder without git or DVC, and runs its stages in this process."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from sugarbush.methods import dpft
from sugarbush.pipeline import budget
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.project import Project
from sugarbush.privacy.budget import BudgetAllocation, BudgetPlan
from sugarbush.privacy.events import DpSgdBound
from sugarbush.privacy.rounding import as_charged
from sugarbush.training.crt import confidentiality
from tests.integration.project import SCHEMA, as_lines, letters, small_settings

# These stages only measure and report: they draw no noise, charge nothing and change no text.
AFTERWARDS = frozenset({"evaluate", "report"})


def write_project(folder: Path, **changes: Any) -> Project:
    """Write the settings and the three input files of a project with 140 invented letters."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = small_settings(**changes)
    corpus = letters(146)
    (folder / "params.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))
    (folder / "letters.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    (folder / "letters.jsonl").write_text(as_lines(corpus[6:]))
    (folder / "donated.jsonl").write_text(as_lines(corpus[:6]))
    return Project(folder)


def run_stages(
    base: Path,
    *,
    without: frozenset[str] = AFTERWARDS,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Run every stage in order, each with newly read settings. `before` is called before each
    stage."""
    for stage in STAGES:
        if stage.name in without or stage.name == "make_example":
            continue
        project = Project(base)
        for method in project.settings.chosen if stage.by_method else (None,):
            before()
            stage.run(project, method)


def seed_everything() -> None:
    """Seed the global random generators of libraries. Private noise never comes from them."""
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)


def round_noise_as_charged(monkeypatch: pytest.MonkeyPatch, charged: frozenset[float]) -> None:
    """Give plans the `charged` noise, where it differs from the planned noise only by rounding.

    CPUs without AVX-512 round differently, by a relative 1e-12, and cache keys contain the noise.
    The noise of DpSgdBound differs by up to 5e-4, the tolerance of its search.
    """

    def noise(own: BudgetAllocation) -> float:
        if own.subsampled is not None:
            return own.subsampled.noise_multiplier
        return own.stddev if own.count else own.mu

    def rounded(own: BudgetAllocation) -> BudgetAllocation:
        if own.subsampled is not None:
            event = own.subsampled
            others = as_charged(event.noise_multiplier, charged)
            if isinstance(event, DpSgdBound):
                # A search with tolerance _NOISE_TOLERANCE finds this noise.
                sigma = event.noise_multiplier
                others = (c for c in charged if math.isclose(c, sigma, rel_tol=5e-4))
                mus = as_charged(event.mu, charged)
                event = replace(event, mu=next((mu for mu in mus if mu in charged), event.mu))
            candidates = (
                replace(own, subsampled=replace(event, noise_multiplier=value)) for value in others
            )
        else:
            candidates = (replace(own, mu=value) for value in as_charged(own.mu, charged))
        return next((found for found in candidates if noise(found) in charged), own)

    def rounding(planning: Callable[..., BudgetPlan]) -> Callable[..., BudgetPlan]:
        def planned(*parts: Any, **promise: Any) -> BudgetPlan:
            plan = planning(*parts, **promise)
            return replace(plan, allocations=tuple(map(rounded, plan.allocations)))

        return planned

    def noise_for(*args: Any, **promise: Any) -> float:
        planned = planned_noise(*args, **promise)
        return next((own for own in as_charged(planned, charged) if own in charged), planned)

    planned_noise = confidentiality.noise_for
    monkeypatch.setattr(confidentiality, "noise_for", noise_for)
    monkeypatch.setattr(budget, "make_plan", rounding(budget.make_plan))
    monkeypatch.setattr(dpft, "with_subsampling", rounding(dpft.with_subsampling))
    monkeypatch.setattr(dpft, "with_bound", rounding(dpft.with_bound))
