"""Tests the cost of counts above a threshold: that of the counts, and a probability delta."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sugarbush.errors import BudgetExceededError
from sugarbush.privacy.accounting import (
    adaptive_epsilon,
    delta,
    epsilon,
    filtered_epsilon,
    gaussian_epsilon,
    gaussian_mu,
    slack_fraction,
)
from sugarbush.privacy.events import (
    DiscreteGaussian,
    GaussianDp,
    PlannedEvents,
    ThresholdedGaussian,
    event_from_dict,
)
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.profiling.plan import plan_profile

DELTA = 1e-6
COUNTS = DiscreteGaussian(stddev=40.0, count=3)


def thresholded(own: float) -> ThresholdedGaussian:
    return ThresholdedGaussian(stddev=40.0, count=3, delta=own)


def a_ledger(state: Path, cap: float = 50.0) -> Ledger:
    return Ledger(state, dataset="d", purpose="release", unit=Unit.RECORD, cap=cap, delta=DELTA)


@pytest.mark.parametrize("own", [1e-9, 1e-7, 5e-7])
def test_epsilon_is_that_of_the_counts_at_the_rest_of_delta(own: float) -> None:
    found = epsilon([thresholded(own)], delta=DELTA)
    rest = epsilon([COUNTS], delta=(DELTA - own) / (1 - own))
    assert found == pytest.approx(rest, rel=1e-3)
    assert found > epsilon([COUNTS], delta=DELTA)


def test_a_delta_above_that_of_the_total_has_no_epsilon() -> None:
    assert math.isinf(epsilon([thresholded(2e-6)], delta=DELTA))
    assert math.isinf(epsilon([thresholded(6e-7), thresholded(6e-7)], delta=DELTA))


def test_deltas_add_up() -> None:
    at_ten = delta([thresholded(1e-7), thresholded(1e-7)], epsilon=10.0)
    assert at_ten == pytest.approx(2e-7, rel=1e-3)


def test_the_bound_for_adaptive_choices_pays_with_the_slack_of_its_number() -> None:
    small = 0.9 * slack_fraction(1) * DELTA
    bound = adaptive_epsilon([thresholded(small)], delta=DELTA)
    assert bound == pytest.approx(
        gaussian_epsilon(gaussian_mu([COUNTS]), delta=0.99 * DELTA), rel=1e-6
    )
    assert bound >= epsilon([COUNTS], delta=DELTA)
    assert math.isinf(adaptive_epsilon([thresholded(1.1 * slack_fraction(1) * DELTA)], delta=DELTA))
    second = filtered_epsilon([((thresholded(small),), 2)], delta=DELTA)
    assert math.isinf(second), "number 2 has a smaller slack"


def test_the_slack_is_never_used_twice() -> None:
    own = 0.9 * slack_fraction(1) * DELTA
    assert math.isinf(filtered_epsilon([((thresholded(own), thresholded(own)), 1)], delta=DELTA))
    half = thresholded(own / 2)
    assert math.isfinite(filtered_epsilon([((half, half), 1)], delta=DELTA))


def test_no_mu_alone_describes_a_threshold() -> None:
    assert math.isinf(gaussian_mu([thresholded(1e-9)]))


def test_an_event_survives_the_ledger(tmp_path: Path) -> None:
    ledger, event = a_ledger(tmp_path), thresholded(1e-12)
    plan = PlannedEvents(id="p", events=(COUNTS, event))
    for each in plan.events:
        ledger.charge(each, stage="profile", run="r", plan=plan)
    assert [entry.event for entry in ledger.entries()] == [COUNTS, event]
    assert event_from_dict(event.as_dict()) == event
    assert ledger.total() == pytest.approx(epsilon([COUNTS, event], delta=DELTA))
    ledger.charge(GaussianDp(mu=0.1), stage="metadata", run="r")
    squares = gaussian_mu([COUNTS, COUNTS]) ** 2 + 0.1**2
    expected = gaussian_epsilon(math.sqrt(squares), delta=0.99 * DELTA)
    assert ledger.total() == pytest.approx(expected, rel=1e-6)


def test_the_next_slack_shrinks_with_each_set(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    first = ledger.next_slack()
    assert first == pytest.approx(slack_fraction(1) * DELTA)
    ledger.charge(thresholded(first), stage="profile", run="r")
    second = ledger.next_slack()
    assert second < first
    with pytest.raises(BudgetExceededError):
        ledger.charge(thresholded(first), stage="profile", run="r")
    ledger.charge(thresholded(second), stage="profile", run="r")


def test_the_total_with_whole_plans_is_what_charging_them_gives(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    profile = PlannedEvents(id="profile", events=(COUNTS, thresholded(ledger.next_slack() / 2)))
    run = PlannedEvents(id="run", events=(GaussianDp(mu=0.2), DiscreteGaussian(stddev=9.0)))
    expected = ledger.total_with((profile.events, profile), (run.events, run))
    ids = [
        ledger.charge(event, stage="s", run="r", plan=plan)
        for plan in (profile, run)
        for event in plan.events
    ]
    assert ledger.total() == pytest.approx(expected, rel=1e-9)
    assert ledger.epsilon_with(ids[:2]) < expected


def test_the_charges_of_a_profile_fit_a_ledger_that_was_repaired_without_seals(
    tmp_path: Path,
) -> None:
    """Nobody vouches for their plan then, so each is a group of its own."""
    plan = plan_profile(
        epsilon=0.2, delta=DELTA, slack=slack_fraction(1) * DELTA, columns=3, by_user=False
    )
    made = a_ledger(tmp_path / "made")
    for event in plan.events.values():
        made.charge(event, stage="profile", run="r", plan=plan.planned)
    repaired = a_ledger(tmp_path / "repaired")
    assert repaired.add_missing(made.entries(), sealed=False) == len(plan.events)
    assert 0.19 < made.total() <= 0.2
    assert 0.19 < repaired.total() < 0.21


def test_a_later_plan_has_a_later_slack(tmp_path: Path) -> None:
    """The total of some charges with a plan is what charging the plan gives, also if charges of
    other stages have taken slack numbers."""
    ledger = a_ledger(tmp_path)
    own = ledger.charge(GaussianDp(mu=0.1), stage="profile", run="r")
    for number in range(3):
        ledger.charge(DiscreteGaussian(stddev=2.0 + number), stage="other", run="r")
    plan = PlannedEvents(id="run", events=(DiscreteGaussian(stddev=3.0),))
    expected = ledger.epsilon_with([own], (plan.events, plan))
    charged = ledger.charge(plan.events[0], stage="s", run="r", plan=plan)
    assert ledger.epsilon_with([own, charged]) == pytest.approx(expected, rel=1e-12)
