"""Tests that rounded numbers of a plan are on the private side, and are equal on every CPU."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.privacy import accounting, budget, privacy_loss
from sugarbush.privacy.accounting import epsilon as epsilon_of
from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.budget import (
    BudgetPlan,
    BudgetRequest,
    Subsampling,
    make_plan,
    mu_downwards,
    mu_of,
    noise_upwards,
    with_subsampling,
)
from sugarbush.privacy.events import DpSgdBound, GaussianDp

DELTA = 1e-6
NUMBERS = st.floats(min_value=1e-9, max_value=1e9)
REQUESTS = [
    BudgetRequest(name="table", share=0.1, count=0),
    BudgetRequest(name="votes", share=0.3, count=3),
    BudgetRequest(name="training", share=0.6, count=0),
]


@given(number=NUMBERS)
def test_mu_is_rounded_down_and_noise_is_rounded_up(number: float) -> None:
    assert number * (1 - 1e-5) < mu_downwards(number) <= number <= noise_upwards(number)
    assert noise_upwards(number) < number * (1 + 1e-5)


@given(number=NUMBERS)
def test_a_rounded_number_stays_as_it_is(number: float) -> None:
    for rounded in (mu_downwards, noise_upwards):
        assert rounded(rounded(number)) == rounded(number)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    epsilon=st.floats(min_value=0.1, max_value=8),
    weights=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    counts=st.lists(st.integers(0, 12), min_size=4, max_size=4),
    records=st.integers(1, 4),
)
def test_the_charges_of_a_plan_never_exceed_epsilon(
    epsilon: float, weights: list[int], counts: list[int], records: int
) -> None:
    requests = [
        BudgetRequest(name=str(i), share=weight / sum(weights), count=counts[i])
        for i, weight in enumerate(weights)
    ]
    plan = make_plan(requests, epsilon=epsilon, delta=DELTA, records_per_unit=records)
    charged = epsilon_of([allocation.event for allocation in plan.allocations], delta=DELTA)
    assert 0.99 * epsilon < charged <= epsilon
    squares = sum(allocation.mu**2 for allocation in plan.allocations)
    assert squares <= mu_of(epsilon=epsilon, delta=DELTA) ** 2
    for allocation in plan.allocations:
        if allocation.count:
            exact = allocation.sensitivity * math.sqrt(allocation.count) / allocation.mu
            assert exact <= allocation.stddev


def other_cpu(monkeypatch: pytest.MonkeyPatch, change: float) -> None:
    """Change every computed mu and epsilon by a relative `change`, as another CPU would."""
    for name in ("mu_of", "epsilon_of"):
        exact = getattr(budget, name)
        monkeypatch.setattr(
            budget, name, lambda *a, exact=exact, **k: exact(*a, **k) * (1 + change)
        )
    for name in ("_plan", "with_bound"):
        monkeypatch.setattr(budget, name, getattr(budget, name).__wrapped__)  # without a cache


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("change", [1e-12, -1e-12])
def test_another_cpu_plans_the_same_numbers(
    epsilon: float, change: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make_plan(REQUESTS, epsilon=epsilon, delta=DELTA)
    other_cpu(monkeypatch, change)
    there = make_plan(REQUESTS, epsilon=epsilon, delta=DELTA)
    assert there.allocations == here.allocations
    assert there.planned.id == here.planned.id
    for number in (here.of("table").mu, here.of("votes").mu, here.of("votes").stddev):
        assert len(Decimal(repr(number)).normalize().as_tuple().digits) <= 6


class OtherCpu:
    """numpy with other last bits of the results of exp and log."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        exact = getattr(np, name)
        if name not in ("exp", "expm1", "log", "log1p", "logaddexp"):
            return exact

        def rounded_otherwise(*numbers: Any, **options: Any) -> Any:
            found = exact(*numbers, **options)
            return found * (1 + self._rng.choice([-1, 0, 1], size=np.shape(found)) * 2.3e-16)

        return rounded_otherwise


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_million_steps_have_the_same_epsilon_on_a_cpu_with_other_last_bits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an error of one step became 4e-5 of epsilon, a tenth of a step of a plan's search."""
    bound = DpSgdBound(mu=0.219473, noise_multiplier=0.432822, rate=2e-6, steps=1_000_010)
    events = [GaussianDp(mu=0.0748524), bound]
    here = epsilon_of(events, delta=DELTA)
    caches = ("_composed_epsilon", "_distribution", "_sampled_once", "_profile", "_gaussian")
    for name in caches:
        exact = getattr(accounting, name).__wrapped__
        monkeypatch.setattr(accounting, name, lru_cache(exact))
    monkeypatch.setattr(privacy_loss, "np", OtherCpu(seed))
    assert epsilon_of(events, delta=DELTA) == pytest.approx(here, rel=1e-6)


def trained(plan: BudgetPlan) -> tuple[BudgetPlan, BudgetPlan]:
    steps = Subsampling(rate=0.05, steps=100)
    return (
        with_subsampling(plan, {"training": steps}, epsilon=1.0),
        budget.with_bound(plan, "training", steps, epsilon=1.0),
    )


@pytest.mark.slow
@pytest.mark.parametrize("change", [1e-12, -1e-12])
def test_another_cpu_plans_the_same_training(
    change: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(REQUESTS, epsilon=1.0, delta=DELTA)
    here = trained(plan)
    assert isinstance(here[1].of("training").subsampled, DpSgdBound)
    other_cpu(monkeypatch, change)
    there = trained(make_plan(REQUESTS, epsilon=1.0, delta=DELTA))
    assert [one.allocations for one in there] == [one.allocations for one in here]
    for one in here:
        assert epsilon_of([a.event for a in one.allocations], delta=DELTA) <= 1.0


@settings(max_examples=2000)
@given(value=st.floats(allow_nan=False, allow_infinity=False), magnitude=st.integers(-30, 30))
def test_a_plan_and_a_printed_bound_of_six_digits_round_alike(value: float, magnitude: int) -> None:
    for number in (value, value * 10.0**magnitude, round(value % 1, 5), np.float64(value)):
        assert noise_upwards(number) == float(rounded_up(number, 6)) >= number
        assert mu_downwards(number) == float(rounded_down(number, 6)) <= number
