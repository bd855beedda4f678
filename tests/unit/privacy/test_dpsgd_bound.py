"""Tests that epsilon holds if a DP count decides the sampling rate and the steps of DP-SGD."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sugarbush.errors import ParamsError
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.methods.dpft import DPFT
from sugarbush.privacy.accounting import Relation, _distribution, delta, epsilon, within
from sugarbush.privacy.budget import (
    BudgetPlan,
    BudgetRequest,
    Subsampling,
    make_plan,
    noise_within,
    with_bound,
    with_gaussian_bound,
    with_subsampling,
)
from sugarbush.privacy.events import (
    DiscreteGaussian,
    DpSgdBound,
    DpSgdGaussianBound,
    Event,
    GaussianDp,
    PoissonGaussian,
    event_from_dict,
)
from sugarbush.privacy.privacy_loss import from_profile
from sugarbush.training.dpsgd.sampling import make_schedule
from sugarbush.training.dpsgd.settings import PRESETS

DELTA = 1e-6
PRESET = PRESETS["dpft"]
REQUESTS = (
    BudgetRequest(name="table", share=0.1, count=0),
    BudgetRequest(name="training", share=0.9, count=0),
)
INTERVAL = 1e-4


def steps_for(units: float) -> Subsampling:
    schedule = make_schedule(batch_size=PRESET.batch_size, epochs=PRESET.epochs, unit_count=units)
    return Subsampling(rate=schedule.rate, steps=schedule.steps + PRESET.repeatable_steps)


@cache
def plan_of(target: float, *, others: tuple[BudgetRequest, ...] = REQUESTS) -> BudgetPlan:
    plan = make_plan(others, epsilon=target, delta=DELTA)
    return with_bound(plan, "training", steps_for(1e7), epsilon=target)


def bound_of(plan: BudgetPlan) -> DpSgdBound:
    bound = plan.of("training").event
    assert isinstance(bound, DpSgdBound)
    return bound


@cache
def training(target: float, count: float) -> PoissonGaussian:
    """Return the training that follows a DP count."""
    return noise_within(bound_of(plan_of(target)), steps_for(count))


def profiles(event: Event, x: np.ndarray) -> list[np.ndarray]:
    """Return the divergences at e^x for both orders of the neighbours, computed by the library."""
    whole = _distribution(
        event if isinstance(event, DpSgdBound) else replace(event, count=1),
        getattr(event, "count", 1),
        INTERVAL,
        Relation.ADD_OR_REMOVE_ONE,
    )
    return [
        np.asarray(vars(whole)[o].get_delta_for_epsilon(x)) for o in ("_pmf_remove", "_pmf_add")
    ]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(count=st.floats(math.log(1), math.log(1e7)).map(math.exp))
@example(count=2.0)
@example(count=512.0)
@example(count=520.0)
@example(count=4_000.0)
@example(count=30_000.0)
@example(count=3e6)
@example(count=1e7)
def test_for_every_dp_count_the_training_costs_at_most_what_is_charged(count: float) -> None:
    """The divergences are compared in both orders, also between the grid points.

    At x < 0, they follow from those at -x in the other order. The composed distributions have
    rounding errors of up to 1e-12.
    """
    bound, event = bound_of(plan_of(1.0)), training(1.0, count)
    assert epsilon([bound, plan_of(1.0).of("table").event], delta=DELTA) <= 1.0
    steps = steps_for(count)
    assert (event.rate, event.count) == (steps.rate, steps.steps)
    x = np.sort(np.r_[np.linspace(0, 8, 1500), 1.0, np.arange(40) * INTERVAL])
    most = np.minimum(*profiles(bound, x))
    for own in profiles(event, x):
        assert (own <= most * (1 + 1e-9) + 1e-12).all(), x[np.argmax(own / most)]


@pytest.mark.slow
@pytest.mark.parametrize("target", [1.0, 4.0])
def test_the_plan_of_a_bound_meets_epsilon_and_nobody_elses_noise_moves(target: float) -> None:
    plan = plan_of(target)
    assert epsilon([a.event for a in plan.allocations], delta=DELTA) == plan.epsilon
    assert 0.98 * target < plan.epsilon <= target
    fixed = make_plan(REQUESTS, epsilon=target, delta=DELTA)
    assert plan.of("table") == fixed.of("table")


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.03])
def test_a_bound_fits_beside_votes_and_with_a_small_share(share: float) -> None:
    others = (
        BudgetRequest(name="table", share=0.2 * (1 - share), count=0),
        BudgetRequest(name="votes", share=0.8 * (1 - share), count=2),
        BudgetRequest(name="training", share=share, count=0),
    )
    plan = plan_of(1.0, others=others)
    assert isinstance(plan.of("votes").event, DiscreteGaussian)
    assert 0.98 < plan.epsilon <= 1.0


def reached(events: list[PoissonGaussian], target: float) -> float:
    """Return the delta at epsilon `target` that the worst adversary reaches.

    The table is the worst mu-GDP mechanism: its outputs under two neighbours are Gaussians. The
    adversary looks at its privacy loss, and lets the DP count choose among `events`.
    """
    mu = plan_of(target).of("table").mu
    loss = np.linspace(mu**2 / 2 + 9 * mu, mu**2 / 2 - 9 * mu, 4001)
    weights = norm.pdf(loss, mu**2 / 2, mu) * (loss[0] - loss[1])
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    x = target - loss
    worst = np.max([np.max(profiles(event, x), axis=0) for event in events], axis=0)
    return float(weights @ worst)


COUNTS = (512.0, 4_000.0, 30_000.0, 300_000.0, 3e6, 1e7)


@pytest.mark.slow
def test_an_adversary_who_sees_the_table_and_picks_the_count_stays_within_delta() -> None:
    assert 0.5 * DELTA < reached([training(1.0, count) for count in COUNTS], 1.0) <= DELTA


@pytest.mark.slow
def test_an_adversary_who_sees_a_profile_and_picks_the_settings_stays_within_delta() -> None:
    """Count, batch size and epochs all follow from the result of an earlier mechanism."""
    table = make_plan(REQUESTS, epsilon=1.0, delta=0.99 * DELTA)
    plan = with_gaussian_bound(table, "training", steps_for(1e7))
    bound = plan.of("training").event
    assert isinstance(bound, DpSgdGaussianBound) and bound.delta == pytest.approx(0.99e-5 * DELTA)
    trainings = [steps_for(count) for count in (512.0, 30_000.0, 1e7)]
    trainings += [Subsampling(rate=0.3, steps=400), Subsampling(rate=1e-4, steps=1)]
    events = [noise_within(bound, training) for training in trainings]
    for event in events:
        assert within(event, bound)
        less = replace(event, noise_multiplier=event.noise_multiplier * 0.998)
        assert not within(less, bound)
    assert 0.5 * DELTA < reached(events, 1.0) <= DELTA


@pytest.mark.slow
def test_noise_for_the_count_that_was_drawn_would_cost_more_than_epsilon() -> None:
    """With noise for each count alone, an adversary exceeds delta. So a bound is necessary."""
    plan = make_plan(REQUESTS, epsilon=1.0, delta=DELTA)
    alone = [
        with_subsampling(plan, {"training": steps_for(count)}, epsilon=1.0).of("training").event
        for count in COUNTS
    ]
    assert all(isinstance(event, PoissonGaussian) for event in alone)
    assert reached(alone, 1.0) > 1.3 * DELTA  # type: ignore[arg-type]
    assert not all(within(event, bound_of(plan_of(1.0))) for event in alone)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("target", [1.0, 8.0])
@pytest.mark.parametrize("count", [512.0, 30_000.0, 3e6])
def test_the_noise_is_a_few_percent_above_the_noise_of_steps_that_are_fixed_in_advance(
    target: float, count: float
) -> None:
    plan = make_plan(REQUESTS, epsilon=target, delta=DELTA)
    fixed = with_subsampling(plan, {"training": steps_for(count)}, epsilon=target)
    event = fixed.of("training").event
    assert isinstance(event, PoissonGaussian)
    assert 1.0 < training(target, count).noise_multiplier / event.noise_multiplier < 1.04


def test_the_noise_is_the_smallest_that_fits() -> None:
    bound, event = bound_of(plan_of(1.0)), training(1.0, 4_000.0)
    assert within(event, bound)
    assert not within(replace(event, noise_multiplier=event.noise_multiplier * 0.999), bound)


def test_a_bound_alone_costs_as_much_as_the_dearer_of_its_two_mechanisms() -> None:
    bound = bound_of(plan_of(1.0))
    for small in (1e-6, 1e-4):
        parts = [epsilon([part], delta=small) for part in (GaussianDp(mu=bound.mu), bound.sampled)]
        assert epsilon([bound], delta=small) == pytest.approx(max(parts), rel=1e-3)
        assert epsilon([bound], delta=small) >= max(parts) - 1e-6
    assert epsilon([bound, bound], delta=DELTA) > epsilon([bound], delta=DELTA)
    assert epsilon([bound], delta=1e-12) == math.inf


def test_a_bound_is_read_from_the_ledger_as_it_was_charged() -> None:
    for bound in (bound_of(plan_of(1.0)), DpSgdGaussianBound(mu=0.2, delta=1e-11)):
        assert event_from_dict(bound.as_dict()) == bound


@pytest.mark.parametrize("small", [1e-9, 1e-6])
def test_a_gaussian_bound_costs_its_delta_too(small: float) -> None:
    bound = DpSgdGaussianBound(mu=0.2, delta=0.4 * small)
    assert epsilon([bound], delta=small) == epsilon([GaussianDp(mu=0.2)], delta=0.6 * small)
    assert epsilon([bound, bound], delta=small) > epsilon([bound], delta=small)
    assert epsilon([bound] * 3, delta=small) == math.inf
    narrow = DiscreteGaussian(stddev=2.0)
    both = epsilon([bound, narrow], delta=small)
    assert both == pytest.approx(epsilon([GaussianDp(mu=0.2), narrow], delta=0.6 * small))


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
def test_a_distribution_from_a_profile_has_this_profile(mu: float) -> None:
    x = np.arange(0, 60_000 * mu, dtype=float) * INTERVAL
    profile = norm.cdf(mu / 2 - x / mu) - np.exp(x) * norm.cdf(-mu / 2 - x / mu)
    made = from_profile(profile, INTERVAL)
    assert np.allclose(made.get_delta_for_epsilon(x), profile, rtol=1e-6, atol=1e-12)
    below = -x[2_000:0:-7]
    mirrored = norm.cdf(mu / 2 - below / mu) - np.exp(below) * norm.cdf(-mu / 2 - below / mu)
    assert np.allclose(made.get_delta_for_epsilon(below), mirrored, rtol=1e-6, atol=1e-12)


def test_delta_and_epsilon_agree() -> None:
    events = [GaussianDp(mu=0.4), DiscreteGaussian(stddev=5.0, count=2)]
    spent = epsilon(events, delta=DELTA)
    assert delta(events, epsilon=spent) == pytest.approx(DELTA, rel=1e-6)
    assert delta([], epsilon=1.0) == 0.0


@pytest.mark.slow
def test_a_delta_below_the_rounding_errors_is_refused() -> None:
    plan = make_plan(REQUESTS, epsilon=1.0, delta=1e-11)
    with pytest.raises(ParamsError, match="records"):
        with_bound(plan, "training", steps_for(1e5), epsilon=1.0)


def test_a_count_above_the_planned_one_trains_with_the_planned_steps() -> None:
    method = DPFT()
    inputs = [MetadataRelease(record_count=count) for count in (1e7, 1e9)]
    assert len({method._units_of(each, records_per_user=1) for each in inputs}) == 1
