"""Tests that epsilon holds if a mechanism is chosen after looking at an earlier result."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from sugarbush.privacy.accounting import (
    Relation,
    _distribution,
    _divergence,
    _gaussian_delta,
    _mu_with_slack,
    adaptive_epsilon,
    epsilon,
    filtered_epsilon,
    gaussian_epsilon,
)
from sugarbush.privacy.accounting import delta as delta_of
from sugarbush.privacy.budget import BudgetRequest, Subsampling, make_plan, with_subsampling
from sugarbush.privacy.events import (
    ConfidentialTraining,
    DiscreteGaussian,
    Event,
    GaussianDp,
    NonPrivate,
    PoissonGaussian,
)

DELTA = 1e-6
REQUESTS = [
    BudgetRequest(name="table", share=0.5, count=0),
    BudgetRequest(name="training", share=0.5, count=0),
]

EVENTS = [
    PoissonGaussian(noise_multiplier=1.1, rate=0.02, count=300),
    PoissonGaussian(noise_multiplier=4.0, rate=0.3, count=20),
    PoissonGaussian(noise_multiplier=2.0, rate=1.0, count=3),
    DiscreteGaussian(stddev=2.2, count=3),
    DiscreteGaussian(stddev=0.9),
]


def training(records: float) -> tuple[float, PoissonGaussian]:
    """Plan a run at epsilon 1 for a DP record count.

    Return the mu of the table and the DP-SGD event.
    """
    plan = make_plan(REQUESTS, epsilon=1.0, delta=DELTA)
    training = Subsampling(rate=64 / records, steps=round(5 * records / 64))
    event = with_subsampling(plan, {"training": training}, epsilon=1.0).of("training").event
    assert isinstance(event, PoissonGaussian)
    return plan.of("table").mu, event


def divergence(event: Event, x: np.ndarray) -> np.ndarray:
    """Return the hockey-stick divergence of an event at e^x, for increasing real x.

    It is the larger divergence of the two orders of the neighbours.
    """
    whole = _distribution(event, getattr(event, "count", 1), 1e-4, Relation.ADD_OR_REMOVE_ONE)
    right = _divergence(whole, np.maximum(x, 0))
    mirrored = _divergence(whole, np.maximum(-x, 0))
    return np.where(x >= 0, right, 1 - np.exp(x) + np.exp(x) * mirrored)


def test_a_training_chosen_by_the_worst_adversary_stays_within_the_bound() -> None:
    """The table is the worst mu-GDP mechanism: its outputs under two neighbours are Gaussians.

    An adversary looks at the privacy loss of the table, and chooses the training with the largest
    divergence among three. The integral over the loss has an error of at most 1e-12.
    """
    mu, small = training(300)
    events = [small, training(1_000)[1], training(3_000)[1]]
    loss = np.linspace(mu**2 / 2 + 9 * mu, mu**2 / 2 - 9 * mu, 4001)
    weights = norm.pdf(loss, mu**2 / 2, mu) * (loss[0] - loss[1])
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    bound = max(adaptive_epsilon([GaussianDp(mu=mu), event], delta=DELTA) for event in events)
    worst = np.max([divergence(event, bound - loss) for event in events], axis=0)
    reached = float(weights @ worst)
    assert reached <= DELTA
    assert reached > 0.5 * DELTA  # the bound is nearly tight
    assert bound < 1.02


def test_the_bound_costs_more_than_a_plan_that_is_fixed_in_advance() -> None:
    """If the training is fixed in advance, the epsilon of the plan is smaller than the bound for
    adaptive choices.
    """
    mu, event = training(3_000)
    planned = epsilon([GaussianDp(mu=mu), event], delta=DELTA)
    assert planned <= 1.0 < adaptive_epsilon([GaussianDp(mu=mu), event], delta=DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS)
def test_the_divergence_is_that_of_the_library(event: PoissonGaussian | DiscreteGaussian) -> None:
    """On some CPUs, numpy's exponential of an array differs from that of a number by one bit."""
    whole = _distribution(event, event.count, 1e-4, Relation.ADD_OR_REMOVE_ONE)
    x = np.sort(np.r_[np.arange(500) * 1e-4, np.random.default_rng(2).uniform(0, 30, 500)])
    expected = whole.get_delta_for_epsilon(x)
    np.testing.assert_allclose(_divergence(whole, x), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("slack", [1e-8, 1e-7])
@pytest.mark.parametrize("event", EVENTS)
def test_the_divergence_is_nowhere_above_the_gaussians_by_more_than_the_slack(
    event: PoissonGaussian | DiscreteGaussian, slack: float
) -> None:
    mu = _mu_with_slack((event,), slack)
    x = np.sort(np.random.default_rng(1).uniform(-8, 12, 5000))
    assert (divergence(event, x) - _gaussian_delta(mu, x) <= slack + 1e-13).all()
    smaller = mu * (1 - 1e-3)
    fine = np.arange(0, 12, 1e-4)
    assert (divergence(event, fine) - _gaussian_delta(smaller, fine) > slack).any()


@pytest.mark.slow
def test_the_bound_is_at_least_the_composed_distributions_and_close_to_them() -> None:
    for events in (
        [DiscreteGaussian(stddev=9.0)] * 12,
        [GaussianDp(mu=0.1), DiscreteGaussian(stddev=2.2, count=3)],
        [GaussianDp(mu=0.2), PoissonGaussian(noise_multiplier=3.0, rate=0.05, count=150)],
        [DiscreteGaussian(stddev=20.0, sensitivity=3)],
    ):
        exact, bound = (f(events, delta=DELTA) for f in (epsilon, adaptive_epsilon))
        assert exact - 2e-4 <= bound <= 1.02 * exact, events


def test_gaussian_dp_at_full_rate_is_gaussian_dp() -> None:
    """DP-SGD at rate 1 is exactly mu-GDP, so the computed mu must equal this mu."""
    event = PoissonGaussian(noise_multiplier=2.0, rate=1.0, count=4)
    assert _mu_with_slack((event,), 1e-9) == pytest.approx(1.0, rel=2e-3)
    assert adaptive_epsilon([event], delta=DELTA) == pytest.approx(
        gaussian_epsilon(1.0, delta=DELTA), rel=2e-3
    )


def test_gaussian_epsilon_inverts_the_divergence() -> None:
    for mu in (0.01, 0.3, 1.0, 6.0):
        found = gaussian_epsilon(mu, delta=DELTA)
        assert ndtr(mu / 2 - found / mu) <= 1 and _gaussian_delta(mu, found) <= DELTA
        assert _gaussian_delta(mu, found - 1e-6) > DELTA
    assert gaussian_epsilon(0.0, delta=DELTA) == 0.0
    assert gaussian_epsilon(1e-7, delta=DELTA) == 0.0


@pytest.mark.parametrize(
    "event", [NonPrivate(), ConfidentialTraining(noise_multiplier=1.0, rate=0.1, count=3)]
)
def test_without_dp_the_bound_is_infinite(event: Event) -> None:
    assert math.isinf(adaptive_epsilon([GaussianDp(mu=0.1), event], delta=DELTA))
    narrow = DiscreteGaussian(stddev=2.0)  # an event that needs a slack, in the same part
    assert math.isinf(filtered_epsilon([((narrow, event), 1)], delta=DELTA))
    assert delta_of([GaussianDp(mu=0.1), event], epsilon=50.0) == 1
    assert adaptive_epsilon([], delta=DELTA) == 0.0
