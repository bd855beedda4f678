"""Tests of the total that decides at the cap and is printed: one group, several groups, the cap."""

from __future__ import annotations

import json
import math
import multiprocessing
import tempfile
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sugarbush as sb
from sugarbush.errors import BudgetExceededError, LedgerError, ParamsError
from sugarbush.methods.plan import plan_for
from sugarbush.privacy import accounting
from sugarbush.privacy.accounting import (
    SLACK_SHARE,
    adaptive_epsilon,
    epsilon,
    slack_fraction,
)
from sugarbush.privacy.events import (
    DiscreteGaussian,
    Event,
    GaussianDp,
    PlannedEvents,
    PoissonGaussian,
    single_events,
)
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.reservation import Reservation
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.unit import Unit
from tests.synthesized import synthesize_frame

DELTA = 1e-6
VOTE = DiscreteGaussian(stddev=8.0)
STEEP = DiscreteGaussian(stddev=0.97)


def ledger_at(state: Path, **changes: Any) -> Ledger:
    fields: dict[str, Any] = {
        "dataset": "letters", "purpose": "release", "unit": Unit.RECORD, "cap": 50, "delta": DELTA,
    }  # fmt: skip
    return Ledger(state, **(fields | changes))


def plan_of(*events: Event) -> PlannedEvents:
    return PlannedEvents(id="-".join(map(str, map(hash, events))), events=events)


def charge_run(ledger: Ledger, plan: PlannedEvents, *, run: str = "r", most: int = 99) -> None:
    for event in [e for planned in plan.events for e in single_events(planned)][:most]:
        ledger.charge(event, stage="s", run=run, plan=plan)


def events_of(ledger: Ledger) -> list[Event]:
    return [entry.event for entry in ledger.entries()]


def run_of(method: Any) -> PlannedEvents:
    return plan_for(sb.Privacy(epsilon=8, dataset="letters"), [method]).planned


@pytest.mark.parametrize(
    ("first", "second", "printed", "true"),
    [
        (sb.Maple(), sb.Maple(), 12.109, 12.42),
        (sb.Mosaic(), sb.Maple(rounds=1), 12.036, 12.759),
    ],
    ids=["maple twice", "mosaic, then maple"],
)
def test_two_runs_have_the_total_for_adaptive_choices(
    tmp_path: Path, first: Any, second: Any, printed: float, true: float
) -> None:
    """The settings of the second run may depend on the first release."""
    ledger = ledger_at(tmp_path)
    charge_run(ledger, run_of(first))
    assert ledger.total() == epsilon(events_of(ledger), delta=DELTA)
    charge_run(ledger, run_of(second), run="second")
    assert epsilon(events_of(ledger), delta=DELTA) == pytest.approx(printed, abs=1e-3)
    assert ledger.total() == pytest.approx(true, abs=1e-3)


def test_the_cap_refuses_by_the_total_for_adaptive_choices(tmp_path: Path) -> None:
    plan = run_of(sb.Maple())
    ledger = ledger_at(tmp_path, cap=12.2)  # above the epsilon for fixed settings
    charge_run(ledger, plan)
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetExceededError):
        ledger.check(plan.events, plan=plan)
    assert ledger.path.read_bytes() == before
    ledger_at(tmp_path / "higher", cap=12.6).check([*plan.events, *plan.events], plan=plan)


def test_a_forced_rerun_of_a_stage_is_another_group(tmp_path: Path) -> None:
    """Whether it is drawn again may depend on the first result."""
    ledger, plan = ledger_at(tmp_path), plan_of(GaussianDp(mu=0.2), STEEP)
    charge_run(ledger, plan)
    assert ledger.total() == epsilon(events_of(ledger), delta=DELTA)
    ledger.charge(STEEP, stage="s", run="again", plan=plan)
    assert len({entry.group for entry in ledger.entries()}) == 2
    assert ledger.total() > epsilon(events_of(ledger), delta=DELTA) + 0.01


def test_a_continued_run_stays_in_its_group(tmp_path: Path) -> None:
    plan = plan_of(GaussianDp(mu=0.2), DiscreteGaussian(stddev=0.97, count=2))
    charge_run(ledger_at(tmp_path), plan, most=2)
    ledger = ledger_at(tmp_path)
    ledger.charge(STEEP, stage="s", run="r", plan=plan)
    assert len({entry.group for entry in ledger.entries()}) == 1


def test_charges_without_a_plan_and_old_entries_are_groups_of_their_own(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    for _ in range(2):
        ledger.charge(STEEP, stage="s", run="r")
    assert ledger.total() == adaptive_epsilon([STEEP, STEEP], delta=DELTA)
    assert ledger.total() > epsilon([STEEP, STEEP], delta=DELTA) + 0.01


def test_a_run_that_stops_early_leaves_no_room_that_its_rest_needed(tmp_path: Path) -> None:
    """The result of the first event may decide whether the rest or another run follows.

    The plan uses the cap for fixed settings, and exceeds the cap for adaptive choices.
    """
    plan = plan_of(GaussianDp(mu=0.3), STEEP, STEEP)
    cap = epsilon(plan.events, delta=DELTA) * 1.0001
    ledger = ledger_at(tmp_path, cap=cap)
    charge_run(ledger, plan, most=1)
    with pytest.raises(BudgetExceededError, match="planned to use the whole cap"):
        ledger.check([GaussianDp(mu=0.1)])
    charge_run(ledger, plan_of(*plan.events), run="r", most=0)
    for _ in range(2):
        ledger.charge(STEEP, stage="s", run="r", plan=plan)


def test_rounds_of_a_run_that_stops_early_count_in_full_beside_another_run(tmp_path: Path) -> None:
    plan = plan_of(STEEP, STEEP, STEEP)
    ledger = ledger_at(tmp_path)
    charge_run(ledger, plan, most=1)
    ledger.charge(VOTE, stage="s", run="other")
    part = ledger.total()
    charge_run(ledger, plan, run="r", most=0)
    for _ in range(2):
        ledger.charge(STEEP, stage="s", run="r", plan=plan)
    assert ledger.total() == part


def test_the_total_is_computed_at_the_smallest_delta_for_several_groups_too(tmp_path: Path) -> None:
    ledger_at(tmp_path, delta=1e-9).charge(STEEP, stage="s", run="r")
    later = ledger_at(tmp_path, delta=1e-6)
    later.charge(STEEP, stage="s", run="q")
    assert later.total() == adaptive_epsilon([STEEP, STEEP], delta=1e-9)
    assert later.total() > adaptive_epsilon([STEEP, STEEP], delta=1e-6) + 1


EVENTS = st.sampled_from(
    [
        GaussianDp(mu=0.1),
        DiscreteGaussian(stddev=9.0),
        DiscreteGaussian(stddev=2.2),
        DiscreteGaussian(stddev=1.1),
        PoissonGaussian(noise_multiplier=2.0, rate=0.1, count=20),
    ]
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    runs=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=5),
    plans=st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=4, max_size=4),
    delta=st.sampled_from([1e-5, 1e-6, 1e-9]),
)
def test_the_bound_is_a_filter(
    runs: list[tuple[int, int]], plans: list[list[Event]], delta: float
) -> None:
    """A charge keeps its group, its step and its slack number. More charges never lower the total,
    and the slacks together are at most their share of delta."""
    with tempfile.TemporaryDirectory() as state:
        ledger = ledger_at(Path(state), cap=math.inf, delta=delta)
        before: list[tuple[Any, ...]] = []
        totals: list[float] = []
        for number, most in runs:
            plan = plan_of(*plans[number])
            for event in plan.events[:most]:
                ledger.charge(event, stage="s", run="r", plan=plan)
                entries = ledger.entries()
                found = [(entry.group, entry.filter_step, entry.slack) for entry in entries]
                assert found[:-1] == before
                before = found
                if len({entry.group for entry in entries}) > 1:
                    totals.append(ledger.total())
        assert totals == sorted(totals)
        numbers = {entry.slack for entry in entries} - {0}
        steps = {entry.filter_step[0] for entry in entries if entry.slack}
        assert len(numbers) == len(steps)
        assert sum(Fraction(slack_fraction(n)) for n in numbers) <= Fraction(SLACK_SHARE)


def test_all_slacks_together_are_their_share_of_delta() -> None:
    for blocks in (1, 5, 12):
        total = sum(Fraction(slack_fraction(number)) for number in range(1, 2**blocks))
        assert total == Fraction(SLACK_SHARE) * (1 - Fraction(1, 2**blocks))
    assert all(slack_fraction(n) >= SLACK_SHARE / (2 * n**2) for n in range(1, 3000))


def test_numbers_of_slacks_stay_when_a_ledger_is_repaired(tmp_path: Path) -> None:
    """The lost ledger and the new one gave the same number to different charges."""
    lost, ledger = ledger_at(tmp_path / "lost"), ledger_at(tmp_path / "new")
    for each in (lost, ledger):
        each.charge(STEEP, stage="s", run="r")
    ledger.add_missing(lost.entries(), sealed=True)
    assert [entry.slack for entry in ledger.entries()] == [1, 2]
    ledger.charge(STEEP, stage="s", run="r")
    assert [entry.slack for entry in ledger.entries()] == [1, 2, 3]
    assert ledger.total() == adaptive_epsilon([STEEP] * 3, delta=DELTA)


def test_the_divergence_is_bounded_between_the_points_of_the_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A coarse grid makes the error between two points large."""
    monkeypatch.setattr(accounting, "_COARSE_INTERVAL", 0.5)
    slack = 1e-4
    for event in (PoissonGaussian(noise_multiplier=2.0, rate=1.0, count=1), GaussianDp(mu=1.5)):
        mu = accounting._mu_with_slack.__wrapped__((event,), slack)
        composed = accounting._Composed.of([event])
        whole = composed.distribution(0.5, accounting.Relation.ADD_OR_REMOVE_ONE)
        x = np.linspace(0, 8, 4001)
        above = accounting._divergence(whole, x) - accounting._gaussian_delta(mu, x)
        assert above.max() <= slack + 1e-12


# The stored cap


def test_a_caller_with_a_larger_cap_does_not_raise_it(tmp_path: Path) -> None:
    ledger_at(tmp_path, cap=1.0).charge(VOTE, stage="s", run="r")
    with pytest.raises(BudgetExceededError, match=r"cap 1\).*\n.*budget --raise-cap"):
        ledger_at(tmp_path, cap=4.0).charge(GaussianDp(mu=0.4), stage="s", run="r")
    histogram: dict[str, Any] = {"categories": [0, 1]}
    for cap in (None, 4.0, 50):
        with pytest.raises(BudgetExceededError, match="cap 1"):
            sb.private_histogram(
                [0, 1],
                privacy=sb.Privacy(epsilon=2.0, delta=DELTA, dataset="letters", cap=cap),
                state=tmp_path,
                **histogram,
            )
    assert len(ledger_at(tmp_path).entries()) == 1


def test_the_smallest_declared_cap_is_in_force(tmp_path: Path) -> None:
    for declared, expected in ((None, 4.0), (50.0, 4.0), (3.0, 3.0), (4.0, 3.0), (None, 3.0)):
        ledger_at(tmp_path, cap=declared).charge(VOTE, stage="s", run="r")
        assert ledger_at(tmp_path, cap=None).cap == ledger_at(tmp_path, cap=99.0).cap == expected
    with pytest.raises(BudgetExceededError):  # a refused charge declares nothing
        ledger_at(tmp_path, cap=0.1).charge(VOTE, stage="s", run="r")
    assert ledger_at(tmp_path, cap=None).cap == 3.0


def test_a_raise_of_the_cap_is_recorded_and_sealed(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path, cap=1.0)
    with pytest.raises(ParamsError, match="no stored cap"):
        ledger.raise_cap(2.0)
    ledger.charge(VOTE, stage="s", run="r")
    for wrong in (1.0, 0.5, 1e6, math.inf, math.nan):
        with pytest.raises(ParamsError, match="must be above the stored cap 1"):
            ledger.raise_cap(wrong)
    ledger.raise_cap(2.0)
    assert ledger_at(tmp_path, cap=None).cap == 2.0
    (found,) = ledger.snapshot().cap_raises()
    assert (found.raised_from, found.raised_to, len(found.time)) == (1.0, 2.0, 10)
    ledger_at(tmp_path, cap=None).charge(VOTE, stage="s", run="r")
    assert len(ledger.entries()) == 2
    ledger.path.write_text(ledger.path.read_text().replace('"raised_to":2.0', '"raised_to":9.0'))
    with pytest.raises(LedgerError, match="edited"):
        _ = ledger.cap


# The unit


def test_a_histogram_of_users_is_charged_for_all_their_records(tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "categories": ["a", "b"], "state": tmp_path,
        "privacy": sb.Privacy(
            epsilon=1, delta=DELTA, dataset="letters", unit="user", records_per_user=5
        ),
    }  # fmt: skip
    with pytest.raises(sb.ParamsError, match="and user="):
        sb.private_histogram(["a"], **asked)
    sb.private_histogram(["a"] * 9, user="customer", **asked)
    ledger = ledger_at(tmp_path, unit=Unit.USER, user_column="customer")
    (entry,) = ledger.entries()
    assert (entry.unit, entry.user_column, entry.records_per_unit) == (Unit.USER, "customer", 5)
    assert isinstance(entry.event, DiscreteGaussian)
    assert entry.event.sensitivity == 5
    assert 0.99 < ledger.total() <= 1
    of_records = sb.Privacy(epsilon=1, delta=DELTA, dataset="letters")
    with pytest.raises(sb.ParamsError, match="and user="):
        sb.private_histogram(["a"], user="customer", **(asked | {"privacy": of_records}))
    for other in ({"privacy": of_records}, {"user": "household"}):
        with pytest.raises(sb.LedgerError, match="cannot be added"):
            sb.private_histogram(["a"], **(asked | other))
    asked["privacy"] = asked["privacy"].model_copy(update={"records_per_user": 2})
    sb.private_histogram(["a"] * 9, user="customer", **asked)
    assert [entry.records_per_unit for entry in ledger.entries()] == [5, 2]


def test_a_session_for_several_records_needs_users(tmp_path: Path) -> None:
    with pytest.raises(sb.ParamsError, match="is a user"):
        sb.PrivacySession(ledger=ledger_at(tmp_path), stage="s", run="r", records_per_unit=2)


# Extreme settings


@pytest.mark.slow
@pytest.mark.parametrize("number", [1e308, 1e-308, 5e-324, 1e16, 1e-16, 101.0, 1e-9, 99.0])
@pytest.mark.parametrize("field", ["epsilon", "delta", "cap", "records_per_user"])
def test_an_extreme_number_is_accepted_or_refused_with_a_message(
    tmp_path: Path, field: str, number: float
) -> None:
    privacy: dict[str, Any] = {"dataset": "letters", field: number, "unit": "user"}
    try:
        settings = sb.Privacy.model_validate(privacy)
    except ValueError:
        return
    try:
        planned = plan_for(settings, [sb.Maple()]).planned
        ledger_at(tmp_path, unit=Unit.USER, cap=settings.cap, delta=settings.delta).check(
            planned.events, plan=planned
        )
    except sb.SugarbushError as error:
        assert len(str(error)) > 20


@pytest.mark.parametrize(
    "number", [1e308, 1e-308, 1e-16, 1e-9, 1e-3, 1e6, 1e9, math.nan, math.inf, -1.0, 0.0]
)
@pytest.mark.parametrize("field", ["epsilon", "delta", "cap", "records_per_user"])
def test_an_extreme_argument_is_accepted_or_refused_with_a_message(
    tmp_path: Path, field: str, number: float
) -> None:
    asked: dict[str, Any] = {"epsilon": 1.0, "delta": DELTA, "cap": 4.0, "unit": "user"}
    try:
        sb.private_histogram(
            [0, 1],
            categories=[0, 1],
            privacy=sb.Privacy(dataset="letters", **(asked | {field: number})),
            user="who",
            state=tmp_path,
        )
    except sb.SugarbushError as error:
        assert len(str(error)) > 20
        assert not ledger_at(tmp_path, unit=Unit.USER, user_column="who").entries()


# Reservations


def test_a_run_that_has_started_keeps_its_budget(tmp_path: Path) -> None:
    plan = plan_of(GaussianDp(mu=0.2), GaussianDp(mu=0.2))
    with Reservation() as own:
        ledger = ledger_at(tmp_path, cap=1.5, reservation=own)
        ledger.check(plan.events, plan=plan)
        assert ledger.entries() == ()
        ledger.charge(plan.events[0], stage="s", run="r", plan=plan)
        with Reservation() as other, pytest.raises(BudgetExceededError, match="have reserved"):
            ledger_at(tmp_path, cap=1.5, reservation=other).check(plan.events, plan=plan)
        with pytest.raises(BudgetExceededError):
            ledger_at(tmp_path, cap=1.5).charge(GaussianDp(mu=0.25), stage="s", run="q")
        ledger.charge(plan.events[1], stage="s", run="r", plan=plan)
        assert own.path is None
    ledger_at(tmp_path, cap=1.5).check([GaussianDp(mu=0.05)])
    assert not list((tmp_path / "ledgers/release/letters.reserved").iterdir())


def _reserve_and_die(state: str) -> None:
    plan, own = plan_of(GaussianDp(mu=0.25)), Reservation()
    ledger_at(Path(state), cap=1.5, reservation=own).check(plan.events, plan=plan)
    import os

    os._exit(0)


@pytest.mark.slow
def test_the_reservation_of_a_dead_process_is_removed(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_reserve_and_die, args=(str(tmp_path),)
    )
    process.start()
    process.join()
    folder = tmp_path / "ledgers/release/letters.reserved"
    assert process.exitcode == 0
    assert list(folder.glob("*.json"))
    ledger_at(tmp_path, cap=1.5).check([GaussianDp(mu=0.25)])
    assert not list(folder.glob("*.json"))


def letters(number: int) -> Any:
    import pandas as pd

    return pd.DataFrame({"message": [f"Order {i} of {number} arrived late" for i in range(200)]})


def _synthesize(number: int, state: str) -> str:
    schema = {
        "subject": "letters",
        "attributes": [{"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}],
    }
    try:
        synthesize_frame(
            letters(number),
            text="message",
            schema=schema,
            state=Path(state),
            method=sb.Mosaic(candidates=20, prompt="metadata"),
            generator=sb.Simulator(any_texts=True),
            privacy=sb.Privacy(epsilon=1, delta=DELTA, dataset="letters", cap=1.9),
            texts=12,
        )
    except sb.BudgetExceededError:
        return "refused"
    return "finished"


@pytest.mark.slow
@pytest.mark.usefixtures("quick_encoder")
def test_five_threads_at_a_cap_for_three_runs_charge_for_three_runs(tmp_path: Path) -> None:
    ended: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: ended.append(_synthesize(n, str(tmp_path))))
        for n in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["finished"] * 3 + ["refused"] * 2
    entries = ledger_at(tmp_path).entries()
    assert len(entries) == 3 * len(entries[0].planned)


def _charge_a_run(state: str, number: int, out: Any) -> None:
    plan = PlannedEvents(
        id="p", events=(GaussianDp(mu=0.07), DiscreteGaussian(stddev=9.0, count=4))
    )
    with Reservation() as own:
        ledger = ledger_at(Path(state), cap=1.9, reservation=own)
        try:
            ledger.check(plan.events, plan=plan)
        except BudgetExceededError:
            out.put("refused")
            return
        charge_run(ledger, plan, run=str(number))
        out.put("finished")


@pytest.mark.slow
def test_processes_at_the_cap_finish_or_are_refused_before_their_first_charge(
    tmp_path: Path,
) -> None:
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    processes = [
        context.Process(target=_charge_a_run, args=(str(tmp_path), number, out))
        for number in range(5)
    ]
    for process in processes:
        process.start()
    ended = [out.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    finished = ended.count("finished")
    assert 1 <= finished < 5
    assert len(ledger_at(tmp_path).entries()) == 5 * finished


# The state folder


def test_git_adds_nothing_of_a_state_folder_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    ledger_at(Path("mine")).charge(VOTE, stage="s", run="r")
    subprocess.run(["git", "add", "-A"], check=True)
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""
    assert json.loads(next(Path("mine/ledgers").rglob("*.jsonl")).read_text())["id"]


# Attacks on the groups


@pytest.mark.slow
def test_a_charge_that_its_plan_lacks_counts_with_its_own_noise(tmp_path: Path) -> None:
    """The plan has little cost, and the charge has much more."""
    ledger = ledger_at(tmp_path, cap=4)
    plan, steep = plan_of(DiscreteGaussian(stddev=4.9)), DiscreteGaussian(stddev=2.0)
    charged = 0
    with pytest.raises(BudgetExceededError):
        while charged < 20:
            ledger.charge(steep, stage="s", run=str(charged), plan=plan)
            charged += 1
    assert 1 < charged < 5
    assert ledger.total() >= epsilon([steep] * charged, delta=DELTA)


def test_the_fast_check_of_the_cap_counts_whole_parts(tmp_path: Path) -> None:
    """A run that stopped counts in full as soon as another run exists."""
    ledger = ledger_at(tmp_path, cap=4)
    charge_run(ledger, plan_of(DiscreteGaussian(stddev=3.0, count=4)), most=1)
    with pytest.raises(BudgetExceededError):
        ledger.charge(GaussianDp(mu=0.7), stage="t", run="t", plan=plan_of(GaussianDp(mu=0.7)))
    assert ledger.total() <= 4


def test_the_first_entry_of_every_group_contains_the_plan(tmp_path: Path) -> None:
    """Also if another run had reserved budget before this entry."""
    with Reservation() as reservation:
        reserved = plan_of(GaussianDp(mu=0.1))
        ledger_at(tmp_path, reservation=reservation).check(reserved.events, plan=reserved)
        plan = plan_of(GaussianDp(mu=0.2), STEEP)
        ledger = ledger_at(tmp_path)
        charge_run(ledger, plan, most=1)
    assert [entry.planned for entry in ledger.entries()] == [plan.events]


def test_two_entries_with_one_id_are_refused(tmp_path: Path) -> None:
    """Lines of version 0.1 have no seal, so somebody could double one."""
    ledger = ledger_at(tmp_path)
    ledger.charge(VOTE, stage="s", run="r")
    line = ledger.path.read_bytes().rpartition(b',"seal"')[0] + b"}\n"
    ledger.path.write_bytes(line * 2)
    ledger.path.with_suffix(".head").unlink()
    with pytest.raises(LedgerError, match="not an entry"):
        ledger.entries()


@pytest.mark.slow
@pytest.mark.parametrize("lowered", [False, True])
def test_part_of_a_plan_above_the_cap_is_an_adaptive_choice(tmp_path: Path, lowered: bool) -> None:
    """A result may decide which of two mechanisms of one plan is drawn. PLDs do not cover that."""
    both = plan_for(PrivacySettings(epsilon=16, dataset="x"), [sb.Mosaic(), sb.Maple()])
    table, *others = events = [allocation.event for allocation in both.allocations]
    plan = PlannedEvents(id="plan", events=tuple(events))
    cap = 1.0000001 * max(epsilon([table, other], delta=DELTA) for other in others)
    drawn = [table, others[0]]
    assert adaptive_epsilon(drawn, delta=DELTA) > cap > epsilon(drawn, delta=DELTA)

    def ledger(cap: float) -> Ledger:
        return Ledger(
            tmp_path, dataset="d", purpose="release", unit=Unit.RECORD, cap=cap, delta=DELTA
        )

    first = ledger(100.0 if lowered else cap)
    first.charge(table, stage="a", run="1", plan=plan)
    with pytest.raises(BudgetExceededError):
        for one in single_events(others[0]):
            ledger(cap).charge(one, stage="b", run="1", plan=plan)
