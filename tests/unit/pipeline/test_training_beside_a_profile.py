"""Tests that a profile costs a training what it costs other methods, and that cards count it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import TRAINING
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import epsilon, gaussian_mu, slack_fraction
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.events import (
    DiscreteGaussian,
    DpSgdGaussianBound,
    Event,
    PlannedEvents,
    PoissonGaussian,
    ThresholdedGaussian,
)
from sugarbush.run.context import Project
from sugarbush.run.ledgers import profile_charges
from tests.settings import params
from tests.unit.pipeline.small_project import run_stages, write_project

DELTA = 1e-6
COUNTS = (2.0, 300.0, 4_000.0, 300_000.0, 3e6, 1e9)


def profile_events(target: float) -> tuple[Event, ...]:
    """Return the events of a profile with epsilon `target`: counts, and a set of values."""
    mu = mu_of(epsilon=target, delta=0.99 * DELTA)
    half = (2 / mu**2) ** 0.5
    return (
        DiscreteGaussian(stddev=half * 2, count=4),
        ThresholdedGaussian(stddev=half * 2, count=4, delta=0.4 * slack_fraction(1) * DELTA),
    )


def with_profile(project: Project, *events: Event) -> Project:
    """Charge a profile, and return the project as the next command opens it."""
    ledger = project.ledger(rehearse=False)
    plan = PlannedEvents(id="profile", events=events)
    for event in events:
        ledger.charge(event, stage="profile", run="1", plan=plan)
    return open_project(project.base, settings=project.settings)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return write_project(tmp_path / "project").base


def project_of(base: Path, *methods: str, of_run: float = 1.0, **changes: Any) -> Project:
    fields = {
        "privacy__purpose": "release",
        "privacy__dataset": "letters",
        "privacy__epsilon": of_run,
        "privacy__cap": 50.0,
        "prepare__schema": "letters.schema.yaml",
    }
    return open_project(base, settings=params(methods=list(methods), **fields | changes))


def training_of(project: Project, count: float) -> PoissonGaussian:
    """Return the training that follows a DP count, with its steps and their noise."""
    method = project.settings.method("dpft")
    assert isinstance(method, DPFT)
    inputs: Any = SimpleNamespace(
        private=SimpleNamespace(budget=project.plan, privacy=project.settings.privacy),
        public=SimpleNamespace(metadata=MetadataRelease(record_count=count)),
    )
    mechanism = method._mechanism(inputs)
    assert mechanism.charge == project.plan.of(TRAINING).event
    event = mechanism.event
    assert isinstance(event, PoissonGaussian)
    return event


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_run", "of_profile", "changes"),
    [
        (1.0, 0.2, {}),
        (1.0, 0.2, {"methods__dpft__records": 4000.0}),
        (1.0, 0.2, {"methods__dpft__preset": "lora"}),
        (1.0, 0.2, {"methods__dpft__batch_size": 20, "methods__dpft__epochs": 2}),
        (1.0, 0.2, {"methods__dpft__scored_texts": 5000, "release__texts": 1000}),
        (1.0, 0.2, {"evaluate__public": True}),
        (1.0, 0.9, {}),
        (4.0, 1.0, {}),
        (0.3, 0.1, {}),
    ],
)
def test_training_gets_what_a_profile_leaves(
    base: Path, of_run: float, of_profile: float, changes: dict[str, Any]
) -> None:
    project = with_profile(
        project_of(base, "dpft", of_run=of_run, **changes), *profile_events(of_profile)
    )
    plan, profile = project.plan, profile_events(of_profile)
    assert isinstance(plan.of(TRAINING).event, DpSgdGaussianBound)
    together = epsilon([*profile, *plan.planned.events], delta=DELTA)
    assert 0.99 * of_run < together <= of_run
    ledger, planned = project.ledger(rehearse=False), plan.planned
    total = ledger.epsilon_with(profile_charges(project), (planned.events, planned))
    assert 0.99 * of_run < total <= of_run
    # a method whose mechanisms are all Gaussian gets the same
    gaussian = project_of(base, "mosaic", of_run=of_run)
    assert profile_charges(gaussian) == profile_charges(project)
    assert plan.epsilon == pytest.approx(gaussian.plan.epsilon, rel=0.01)


@pytest.mark.slow
def test_every_training_beside_a_profile_is_within_epsilon(base: Path) -> None:
    """What runs is cheaper than what is charged, whatever the DP count is."""
    project = with_profile(project_of(base, "dpft"), *profile_events(0.2))
    plan = project.plan
    others = [a.event for a in plan.allocations if a.name != TRAINING]
    for count in COUNTS:
        ran = training_of(project, count)
        spent = epsilon([*profile_events(0.2), *others, ran], delta=DELTA)
        assert spent <= 1.0
        assert spent > 0.98 or count > 512  # a step with every record is a Gaussian mechanism
        less_noise = replace(ran, noise_multiplier=0.99 * ran.noise_multiplier)
        assert epsilon([less_noise], delta=DELTA) > epsilon([ran], delta=DELTA)


def test_a_training_beside_a_profile_counts_as_a_gaussian_mechanism_in_every_later_total(
    base: Path,
) -> None:
    """Thirty runs on one dataset have a finite total, near that of Gaussian mechanisms."""
    project = with_profile(project_of(base, "dpft"), *profile_events(0.2))
    ledger, plan = project.ledger(rehearse=False), project.plan
    for run in range(30):
        for event in plan.planned.events:
            ledger.charge(event, stage="finetune", run=str(run), plan=plan.planned)
    events = [without_delta(entry.event) for entry in ledger.entries()]
    expected = epsilon(events, delta=0.99 * DELTA)
    assert gaussian_mu(events) > 1
    assert ledger.total() == pytest.approx(expected, rel=1e-4)


def without_delta(event: Event) -> Event:
    match event:
        case DpSgdGaussianBound():
            return event.gaussian
        case ThresholdedGaussian():
            return event.counts
    return event


@pytest.mark.slow
def test_the_model_card_counts_the_profile_and_all_that_was_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    project = write_project(
        tmp_path / "project", release__texts=12, methods=["dpft"], initialise__again=0.0
    )
    project = with_profile(project, *profile_events(0.2))
    ledger = project.ledger(rehearse=False)
    ledger.charge(DiscreteGaussian(stddev=40.0), stage="dp_table", run="2")
    run_stages(project.base)
    card = json.loads((project.roots.released / "finetune/dpft/model_card.json").read_text())
    release = json.loads((project.roots.released / "finetune/dpft/release.json").read_text())
    mine = [*ledger.profiles(), *release["ledger_ids"]]
    assert len(mine) == 4 and len(ledger.entries()) == 5
    own = card["epsilon_of_this_run"]
    assert own == ledger.epsilon_with(mine)
    assert own > ledger.epsilon_with(release["ledger_ids"]) + 0.01
    assert 0.99 < own <= 1.0
    assert card["epsilon"] == card["dataset_total_epsilon"] == ledger.total() > own
