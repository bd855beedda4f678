"""A year of weekly runs: which of them draw, and that the total stays below the cap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import BudgetExceededError
from sugarbush.pipeline import draws
from sugarbush.pipeline.draws import DrawDecision, Draws, decide_draws, history_of
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy import ledger as ledger_module
from sugarbush.privacy.schedule import runs_within_cap
from sugarbush.privacy.settings import WhenSpent
from sugarbush.project.weeks import weekly_plan
from sugarbush.release.history import ReleaseHistory
from sugarbush.run.context import Project
from sugarbush.run.records import snapshots_of
from tests.unit.pipeline.small_project import write_project

MONDAY = date(2026, 1, 5)


@contextmanager
def on(day: date) -> Iterator[None]:
    """Let the ledger and the decision see this date."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "_today", lambda: day)
        patch.setattr(ledger_module, "_today", day.isoformat)
        yield


def project_in(folder: Path, **privacy: Any) -> Project:
    own = {f"privacy__{name}": value for name, value in privacy.items()}
    project = write_project(folder / "project", methods=["maple"], **own)
    return open_project(project.base, settings=project.settings, state=folder / "state")


def run_week(project: Project, week: int, *, charges: int | None = None) -> DrawDecision:
    """Charge what the run of a week draws: the first `charges` events of its plan, if it is
    killed, or all. A run that is not killed ends with its report."""
    decision = decide_draws(project)
    ledger, plan = project.ledger(rehearse=False), project.plan.planned
    run = str(week)
    if decision.draws is Draws.NEW:
        snapshots_of(project).of("corpus", digest=run)
    done = 0
    if decision.draws is Draws.REST:
        run = ledger.entries()[-1].run
        done = sum(entry.run == run for entry in ledger.entries())
    if decision.draws is not Draws.NONE:
        for event in plan.events[done:][:charges]:
            ledger.charge(event, stage="evolve@maple", run=run, plan=plan)
            assert ledger.total() <= ledger.cap
    if charges is None:
        ids = [entry.id for entry in ledger.entries()]
        history_of(project).finish(charges=ids, texts=[run], counted=ids)
    return decision


@pytest.mark.parametrize("weeks_between", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_year_by_plan_draws_in_every_planned_week_and_stays_below_the_cap(
    tmp_path: Path, weeks_between: int
) -> None:
    plan = weekly_plan(project_in(tmp_path / "plan", cap=4.0), 52)
    (schedule,) = (each for each in plan.schedules if each.weeks_between == weeks_between)
    project = project_in(
        tmp_path, cap=4.0, epsilon=schedule.epsilon, when_spent="reuse",
        days_between_draws=7 * weeks_between,
    )  # fmt: skip
    drew = []
    for week in range(52):
        with on(MONDAY + timedelta(weeks=week)):
            drew.append(run_week(project, week).is_new)
    assert drew == [week % weeks_between == 0 for week in range(52)]
    ledger = project.ledger(rehearse=False)
    assert ledger.total() == pytest.approx(schedule.total, rel=1e-6) and ledger.total() <= 4.0
    entries = ledger.entries()
    again = open_project(project.base, settings=project.settings, state=project.state)
    assert again.ledger(rehearse=False).entries() == entries  # the ledger outlives the process


def test_a_spent_cap_reuses_the_last_release_for_the_rest_of_the_year(tmp_path: Path) -> None:
    project = project_in(tmp_path, cap=4.0, epsilon=1.0, when_spent="reuse")
    possible = runs_within_cap(project.ledger(rehearse=False), project.plan.planned.events)
    found = [run_week(project, week).draws for week in range(20)]
    assert found == [Draws.NEW] * possible + [Draws.NONE] * (20 - possible)
    assert decide_draws(project).reason == "the cap allows no new draw"
    privacy = project.settings.privacy.model_copy(update={"when_spent": WhenSpent.REFUSE})
    refusing = project.with_settings(project.settings.model_copy(update={"privacy": privacy}))
    with pytest.raises(BudgetExceededError):
        run_week(refusing, 20)


def test_another_report_of_a_release_compares_with_the_same_release_before(tmp_path: Path) -> None:
    history = ReleaseHistory(tmp_path, "release-letters")
    assert not history.counts(())
    assert history.finish(charges=["a"], texts=["one", "two"], counted=["a"]) is None
    for _ in range(2):
        before = history.finish(charges=["b"], texts=["two", "three"], counted=["a", "b"])
        assert before is not None and before.charges == {"a"}
        assert before.new_texts(["two", "three", "four"]) == 2
    assert history.counts(["a", "b"]) and not history.counts(["c"])


def test_without_the_settings_every_run_is_a_new_draw(tmp_path: Path) -> None:
    project = project_in(tmp_path, cap=1.0)
    run_week(project, 0)
    with on(date(2000, 1, 1)):  # also if a clock is wrong
        assert decide_draws(project).is_new


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    cap=st.sampled_from([0.5, 1.5, 4.0]),
    epsilon=st.sampled_from([0.2, 0.5, 1.0]),
    days=st.sampled_from([0, 10, 28]),
    killed=st.lists(st.none() | st.integers(0, 4), min_size=12, max_size=12),
)
def test_any_year_with_killed_runs_stays_below_the_cap_and_ends_each_run(
    tmp_path_factory: pytest.TempPathFactory,
    cap: float,
    epsilon: float,
    days: int,
    killed: list[int | None],
) -> None:
    folder = tmp_path_factory.mktemp("year")
    project = project_in(
        folder, cap=cap, epsilon=epsilon, when_spent="reuse", days_between_draws=days
    )
    if epsilon > cap:
        return
    ledger = project.ledger(rehearse=False)
    for week, charges in enumerate(killed):
        before = ledger.entries()
        with on(MONDAY + timedelta(weeks=week)):
            decision = run_week(project, week, charges=charges)
        assert ledger.total() <= cap
        if decision.draws is Draws.NONE:
            assert ledger.entries() == before
        if decision.draws is Draws.NEW and before and ledger.entries() != before:
            last = date.fromisoformat(before[-1].time)
            assert MONDAY + timedelta(weeks=week) >= last + timedelta(days=days)
    with on(MONDAY + timedelta(weeks=len(killed))):
        run_week(project, len(killed))  # and the run of the next week can always end
