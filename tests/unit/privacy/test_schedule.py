"""Tests which epsilon many releases may spend, and the noise of a binary tree over weeks."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import ParamsError
from sugarbush.methods.mosaic import Mosaic
from sugarbush.methods.plan import plan_for
from sugarbush.privacy.events import Event, GaussianDp
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.schedule import (
    BETWEEN_DRAWS,
    MOST_WEEKS,
    TREE_IS_BETTER_FROM,
    largest_epsilon,
    schedules,
    tree_noise,
)
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.unit import Unit

DELTA = 1e-6


def ledger_in(folder: Path, *, cap: float = 4.0) -> Ledger:
    return Ledger(
        folder, dataset="tickets", purpose="release", unit=Unit.RECORD, cap=cap, delta=DELTA
    )


def events_at(epsilon: float) -> tuple[Event, ...]:
    privacy = PrivacySettings(dataset="tickets", epsilon=epsilon, delta=DELTA)
    return plan_for(privacy, [Mosaic()]).planned.events


def nodes_of(weeks: int) -> dict[int, set[tuple[int, int]]]:
    """Return the blocks that the total of each week sums up, from the binary digits of the week."""
    blocks: dict[int, set[tuple[int, int]]] = {}
    for week in range(1, weeks + 1):
        end, found = 0, set()
        for level in reversed(range(week.bit_length())):
            if week >> level & 1:
                found.add((end + 1, end + 2**level))
                end += 2**level
        assert end == week  # the blocks are the weeks up to this one
        blocks[week] = found
    return blocks


@pytest.mark.parametrize("weeks", [1, 2, 3, 7, 8, 20, 21, 52, 104])
def test_the_noise_of_a_tree_is_that_of_its_blocks(weeks: int) -> None:
    blocks = nodes_of(weeks)
    drawn = set[tuple[int, int]]().union(*blocks.values())
    levels = max(
        sum(first <= week <= last for first, last in drawn) for week in range(1, weeks + 1)
    )
    noise = [math.sqrt(levels * len(found)) for found in blocks.values()]
    tree = tree_noise(weeks)
    assert tree.levels == levels
    assert tree.most == pytest.approx(max(noise))
    assert tree.mean == pytest.approx(sum(noise) / weeks)


def test_a_tree_always_has_less_noise_than_new_draws_from_21_weeks_on() -> None:
    less = [tree_noise(weeks).most < math.sqrt(weeks) for weeks in range(1, MOST_WEEKS + 1)]
    assert all(less[TREE_IS_BETTER_FROM - 1 :]) and not less[TREE_IS_BETTER_FROM - 2]


@pytest.mark.parametrize("cap", [0.5, 4.0])
@pytest.mark.parametrize("weeks", [1, 8, 52])
def test_each_schedule_is_within_the_cap_and_the_next_epsilon_is_not(
    tmp_path: Path, cap: float, weeks: int
) -> None:
    ledger = ledger_in(tmp_path, cap=cap)
    ledger.charge(GaussianDp(mu=0.05), stage="evolve", run="earlier")
    found = schedules(ledger, events_at, weeks=weeks)
    assert [each.weeks_between for each in found] == sorted(
        {min(each, weeks) for each in (*BETWEEN_DRAWS, weeks)}
    )
    for each in found:
        assert each.releases == math.ceil(weeks / each.weeks_between)
        assert ledger.total(*events_at(each.epsilon), runs=each.releases) == each.total <= cap
        larger = each.epsilon * 1.11  # two digits: the next number is at most 10% larger
        assert ledger.total(*events_at(larger), runs=each.releases) > cap
    assert found[-1].noise < 1.12  # one release with two digits of what is left
    assert len(ledger.entries()) == 1


def test_a_spent_cap_and_a_plan_without_rest_have_no_schedule(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path, cap=1.0)

    def nothing(epsilon: float) -> tuple[Event, ...]:
        raise ParamsError("leaves nothing")

    assert largest_epsilon(ledger, nothing, releases=3) is None
    assert largest_epsilon(ledger, lambda epsilon: (GaussianDp(mu=100.0),), releases=3) is None
    ledger.charge(GaussianDp(mu=0.2), stage="evolve", run="r")
    spent = ledger_in(tmp_path, cap=ledger.total())
    assert largest_epsilon(spent, events_at, releases=1) is None


@pytest.mark.parametrize("weeks", [0, MOST_WEEKS + 1])
def test_a_number_of_weeks_out_of_range_is_refused(tmp_path: Path, weeks: int) -> None:
    with pytest.raises(ParamsError, match="expected 1 to 520"):
        schedules(ledger_in(tmp_path), events_at, weeks=weeks)


@settings(max_examples=10, deadline=None)
@given(
    weeks=st.integers(1, 30),
    cap=st.sampled_from([0.3, 1.0, 4.0]),
    spent=st.lists(st.floats(0.01, 0.2), max_size=3),
    which=st.integers(0, 4),
)
def test_a_year_of_any_schedule_stays_below_the_cap(
    tmp_path_factory: pytest.TempPathFactory,
    weeks: int,
    cap: float,
    spent: list[float],
    which: int,
) -> None:
    """Every release of a schedule is charged to a ledger with the plan of its run."""
    ledger = ledger_in(tmp_path_factory.mktemp("year"), cap=cap)
    for mu in spent:
        if ledger.total(GaussianDp(mu=mu)) <= cap:
            ledger.charge(GaussianDp(mu=mu), stage="other", run="other")
    found = schedules(ledger, events_at, weeks=weeks)
    if not found:
        return
    schedule = found[min(which, len(found) - 1)]
    privacy = PrivacySettings(dataset="tickets", epsilon=schedule.epsilon, delta=DELTA)
    plan = plan_for(privacy, [Mosaic()]).planned
    for week in range(0, weeks, schedule.weeks_between):
        for event in plan.events:
            ledger.charge(event, stage="evolve", run=str(week), plan=plan)
        assert ledger.total() <= cap
    assert ledger.total() == pytest.approx(schedule.total, rel=1e-6)
