"""Tests of the Gaussian-DP cost of AIM's steps, and of the privacy filter.

The closed formulas are compared with computations on a grid of loss pairs.
"""

import math

import numpy as np
import pytest
from scipy.special import expit, log_ndtr, ndtri, ndtri_exp

from sugarbush.errors import InvariantError
from sugarbush.privacy.gaussian_dp import (
    bounded_range_epsilon,
    bounded_range_mu,
    discrete_gaussian_mu,
    discrete_gaussian_stddev,
)
from sugarbush.privacy.gaussian_dp_filter import GaussianDpFilter
from sugarbush.randomness import public_rng

EPSILONS = [1e-6, 1e-4, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
STDDEVS = [0.05, 0.1, 0.2, 0.225, 0.3, 0.5, 0.8, 0.99, 1.0, 1.5, 2.0, 4.0, 12.0, 60.0]


def bounded_range_vertices(epsilon, points):
    """Return log p and log q of the worst-case mechanisms with losses t and t - epsilon, for many
    t.

    p / q = e^t and (1 - p) / (1 - q) = e^(t - epsilon), so the log-odds of p and q differ by
    epsilon.
    """
    centre = np.linspace(-(epsilon / 2 + 12), epsilon / 2 + 12, points)
    return log_expit(centre + epsilon / 2), log_expit(centre - epsilon / 2)


def log_expit(x):
    return -np.logaddexp(0, -x)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_loss_pair_of_a_bounded_range_mechanism_beats_its_mu(epsilon):
    """The formula's mu is large enough for all 200,001 pairs of losses (t, t - epsilon), and one of
    these pairs needs exactly this mu.
    """
    log_p, log_q = bounded_range_vertices(epsilon, 200_001)
    losses = log_p - log_q
    assert losses.min() >= -1e-9 and losses.max() <= epsilon * (1 + 1e-9)
    needed = ndtri_exp(log_p) - ndtri_exp(log_q)
    mu = bounded_range_mu(epsilon)
    assert needed.max() <= mu + 1e-9
    assert needed.max() >= mu * (1 - 1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_trade_off_of_a_bounded_range_pair_lies_above_the_gaussian_one(epsilon):
    """The test compares the whole trade-off functions of 400 loss pairs at 400 levels, and not only
    their corners.
    """
    mu = bounded_range_mu(epsilon)
    level = np.linspace(1e-9, 1 - 1e-9, 400)
    gaussian = np.exp(log_ndtr(-ndtri(level) - mu))
    for centre in np.linspace(-6, 6, 400):
        p, q = expit(centre + epsilon / 2), expit(centre - epsilon / 2)
        exact = np.interp(level, [0, q, 1], [1, 1 - p, 0])
        assert (exact >= gaussian - 1e-12).all()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_selections_mu_is_at_most_0_627_epsilon_and_close_to_it_where_epsilon_is_small(epsilon):
    ratio = bounded_range_mu(epsilon) / epsilon
    assert ratio <= math.sqrt(2 * math.pi) / 4 + 1e-12
    if epsilon <= 0.5:
        assert ratio >= 0.6255


def test_a_fixed_loss_pair_is_not_enough():
    """The loss pair (epsilon/2, -epsilon/2) needs the full mu.

    A mu that is computed for the loss pair with t = 7/8 epsilon is too small.
    """
    epsilon = 1.0
    odds = math.log((math.e - math.exp(7 / 8)) / (math.exp(7 / 8) - 1))
    lopsided = ndtri(expit(odds + 0.5)) - ndtri(expit(odds - 0.5))
    assert lopsided < 0.97 * bounded_range_mu(epsilon)


@pytest.mark.parametrize("stddev", STDDEVS)
def test_no_tail_of_the_discrete_gaussian_beats_its_mu(stddev):
    """The formula's mu is large enough for all pairs of neighbouring tails on a grid.

    The pair at the centre needs exactly this mu. Beyond the grid, the mu that a pair needs tends to
    1/stddev, and the formula's mu is at least 1/stddev.
    """
    last = int(30 * stddev**2 + 40)
    log_mass = -(np.arange(last + 400) ** 2) / (2 * stddev**2)
    mass = np.exp(log_mass)
    log_tail = np.logaddexp.accumulate(log_mass[::-1])[::-1] - math.log(2 * mass.sum() - 1)
    quantile = -ndtri_exp(log_tail[: last + 1])
    gaps = np.diff(quantile[1:])
    mu = discrete_gaussian_mu(stddev)
    assert max(gaps.max(), 2 * quantile[1]) <= mu * (1 + 1e-9)
    assert 2 * quantile[1] == pytest.approx(mu, rel=1e-9)
    assert mu * stddev >= 1


def test_the_discrete_gaussian_costs_more_than_the_continuous_one_by_a_24th_of_its_variance():
    for stddev in (2.0, 5.0, 40.0):
        excess = discrete_gaussian_mu(stddev) * stddev - 1
        assert excess == pytest.approx(1 / (24 * stddev**2), rel=0.05)


def test_the_discrete_gaussians_profile_lies_under_the_gaussian_one():
    """delta(epsilon) of the discrete Gaussian, which dp_accounting computes at 400 epsilons, is at
    most that of the mu-GDP mechanism.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    for stddev in (0.6, 1.5, 4.0):
        discrete = pld.from_discrete_gaussian_mechanism(stddev, 1)
        mu = discrete_gaussian_mu(stddev)
        for epsilon in np.linspace(0, 4, 400):
            gaussian = math.exp(log_ndtr(-epsilon / mu + mu / 2)) - math.exp(
                epsilon + log_ndtr(-epsilon / mu - mu / 2)
            )
            # dp_accounting rounds losses up to its grid of 1e-4.
            exact = discrete.get_delta_for_epsilon(epsilon + 1e-4)
            assert exact <= gaussian + 1e-12


@pytest.mark.parametrize("mu", [1e-9, 1e-6, 1e-3, 0.01, 0.3, 1.0, 3.0, 30.0, 300.0])
def test_the_inverses_cost_at_most_the_target_and_nearly_all_of_it(mu):
    for sensitivity in (1.0, 3.0):
        stddev = discrete_gaussian_stddev(mu, sensitivity=sensitivity)
        cost = discrete_gaussian_mu(stddev, sensitivity=sensitivity)
        assert mu * (1 - 1e-10) <= cost <= mu
    if mu < 190:
        cost = bounded_range_mu(bounded_range_epsilon(mu))
        assert mu * (1 - 1e-10) <= cost <= mu


def test_costs_fall_as_noise_grows():
    stddevs = np.logspace(-1.5, 4, 500)
    costs = [discrete_gaussian_mu(float(s)) for s in stddevs]
    assert (np.diff(costs) < 0).all()
    epsilons = np.logspace(-6, 3, 500)
    assert (np.diff([bounded_range_mu(float(e)) for e in epsilons]) > 0).all()


def test_the_filter_takes_what_fits_and_refuses_the_rest_without_taking_it():
    budget = GaussianDpFilter(1.0)
    for _ in range(4):
        budget.spend(0.5)
    assert budget.spent == 1.0 and budget.remaining == 0.0
    with pytest.raises(InvariantError, match="would exceed"):
        budget.spend(1e-6)
    assert budget.spent == 1.0


def worst_step(mu, rng):
    """Return the distributions of the outcome of a step under two neighbours.

    The step is a selection or a count, and costs about `mu`.
    """
    if rng.random() < 0.5:
        epsilon, centre = bounded_range_epsilon(mu), rng.normal(0, 0.5)
        high = expit(centre + epsilon / 2), expit(centre - epsilon / 2)
        one, other = (np.array([p, 1 - p]) for p in high)
    else:
        stddev = discrete_gaussian_stddev(mu)
        reach = int(8 * stddev + 3)
        mass = np.exp(-(np.arange(-reach, reach + 2) ** 2) / (2 * stddev**2))
        cuts = np.sort(rng.choice(len(mass) - 2, size=min(5, len(mass) - 2), replace=False)) + 1
        one, other = (np.add.reduceat(p, [0, *cuts]) for p in (mass, mass[::-1]))
    one, other = one / one.sum(), other / other.sum()
    return (one, other) if rng.random() < 0.5 else (other, one)


def least_mu(one, other):
    """Return the smallest mu for which two distributions are mu-GDP.

    It is computed from all likelihood-ratio tests.
    """
    order = np.argsort(np.log(one) - np.log(other))
    first, second = np.cumsum(one[order])[:-1], 1 - np.cumsum(other[order])[:-1]
    told = (first > 1e-12) & (first < 1 - 1e-12) & (second > 1e-12) & (second < 1 - 1e-12)
    return float((ndtri(1 - first[told]) - ndtri(second[told])).max(initial=0))


def test_steps_whose_budgets_depend_on_outcomes_stay_within_the_filter_together():
    """The test makes 150 random trees of four steps.

    After each outcome, the next step and its mu are drawn at random. The mu that the exact joint
    distributions of a tree need is at most the mu of the filter. In one tree, it is within 5% of
    the mu of the filter.
    """
    rng, needed = public_rng(1, "adaptive"), []
    for _ in range(150):
        limit = 10 ** rng.uniform(-0.5, 0.5)
        outcomes = [(1.0, 1.0, ())]
        for step in range(4):
            following = []
            for one, other, spent in outcomes:
                budget = GaussianDpFilter(limit)
                for mu in spent:
                    budget.spend(mu)
                part = 1 if step == 3 else rng.uniform(0.05, 0.9)
                mu = math.sqrt(budget.remaining * part * (1 - 1e-12))
                budget.spend(mu)
                following += [
                    (one * p, other * q, (*spent, mu))
                    for p, q in zip(*worst_step(mu, rng), strict=True)
                ]
            outcomes = following
        one, other = np.array([(p, q) for p, q, _ in outcomes if min(p, q) > 1e-14]).T
        one, other = one / one.sum(), other / other.sum()
        needed.append(max(least_mu(one, other), least_mu(other, one)) / limit)
    assert 0.95 < max(needed) <= 1 + 1e-6


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_costs_of_nothing_are_refused(value):
    for function in (
        bounded_range_mu,
        bounded_range_epsilon,
        discrete_gaussian_mu,
        discrete_gaussian_stddev,
        GaussianDpFilter,
        GaussianDpFilter(1.0).spend,
    ):
        with pytest.raises(InvariantError, match="not positive and finite"):
            function(value)
