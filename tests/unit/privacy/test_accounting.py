import math
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, get_epsilon_gaussian
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.pld_pmf import DensePLDPmf, SparsePLDPmf
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import InvariantError, ParamsError
from sugarbush.privacy import accounting, privacy_loss
from sugarbush.privacy.accounting import adaptive_epsilon, epsilon, gaussian_epsilon, gaussian_mu
from sugarbush.privacy.accounting import delta as delta_of
from sugarbush.privacy.budget import BudgetRequest, make_plan, mu_of
from sugarbush.privacy.events import (
    DiscreteGaussian,
    GaussianDp,
    NonPrivate,
    PoissonGaussian,
    ThresholdedGaussian,
    event_from_dict,
    single_events,
)
from sugarbush.privacy.privacy_loss import gaussian, sampled_gaussian, self_composed

YELP_RECORDS = 1_939_290
YELP_DELTA = 1 / (YELP_RECORDS * math.log(YELP_RECORDS))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "published"), [(1, 15.34), (2, 8.03), (4, 4.24)])
def test_ten_votes_on_yelp_get_the_published_noise_without_its_overspending(
    target: float, published: float
) -> None:
    plan = make_plan(
        [BudgetRequest(name="votes", share=1, count=10)], epsilon=target, delta=YELP_DELTA
    )
    assert plan.of("votes").stddev == pytest.approx(published, rel=0.005)
    assert plan.epsilon <= target
    spent = epsilon([DiscreteGaussian(stddev=published, count=10)], delta=YELP_DELTA)
    assert target < spent < target * 1.006


def test_a_discrete_gaussian_costs_more_than_gaussian_dp_says_when_noise_is_small() -> None:
    exact = epsilon([DiscreteGaussian(stddev=0.6)], delta=1e-6)
    as_gaussian = get_epsilon_gaussian(0.6, 1e-6)
    assert exact > as_gaussian + 0.2


@pytest.mark.slow
@pytest.mark.parametrize(("stddev", "per_unit"), [(1.0, 2), (3.0, 5)])
def test_a_unit_of_several_records_costs_no_less_however_its_records_fall(
    stddev: float, per_unit: int
) -> None:
    """The charged epsilon covers two cases: all records of a unit are in one count, or each record
    of the unit is in a different count.
    """
    charged = epsilon([DiscreteGaussian(stddev=stddev, sensitivity=per_unit)], delta=1e-6)
    together = pld.from_discrete_gaussian_mechanism(
        stddev, per_unit, value_discretization_interval=1e-4
    ).get_epsilon_for_delta(1e-6)
    apart = epsilon([DiscreteGaussian(stddev=stddev, count=per_unit)], delta=1e-6)
    assert charged >= max(together, apart) - 1e-3
    if stddev >= 3:
        assert charged <= 1.02 * together


@pytest.mark.slow
def test_gaussian_dp_agrees_with_the_closed_form() -> None:
    for target in (0.1, 1.0, 6.0):
        mu = mu_of(epsilon=target, delta=1e-6)
        assert epsilon([GaussianDp(mu=mu)], delta=1e-6) == pytest.approx(target, abs=2e-3)
        assert epsilon([GaussianDp(mu=mu)], delta=1e-6) >= target - 1e-6


def test_dp_sgd_on_yelp_agrees_with_the_published_accounting() -> None:
    steps = round(50 * YELP_RECORDS / 4096)
    event = PoissonGaussian(noise_multiplier=0.774, rate=4096 / YELP_RECORDS, count=steps)
    assert epsilon([event], delta=YELP_DELTA) == pytest.approx(4.0, rel=0.02)


def test_sampled_and_full_mechanisms_compose() -> None:
    sampled = PoissonGaussian(noise_multiplier=1.0, rate=0.01, count=100)
    both = epsilon([sampled, GaussianDp(mu=0.2)], delta=1e-6)
    assert both > max(epsilon([sampled], delta=1e-6), epsilon([GaussianDp(mu=0.2)], delta=1e-6))


def test_count_means_as_many_equal_events() -> None:
    one = DiscreteGaussian(stddev=5.0)
    assert epsilon([one] * 3, delta=1e-6) == epsilon(
        [DiscreteGaussian(stddev=5.0, count=3)], delta=1e-6
    )


def test_neither_order_nor_single_charges_change_any_digit_of_epsilon() -> None:
    """Otherwise a run whose plan has exactly the cap is refused at its last charge."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        kinds = [
            DiscreteGaussian(stddev=rng.uniform(16, 90), count=int(rng.integers(2, 12))),
            DiscreteGaussian(stddev=rng.uniform(1, 9), sensitivity=3, count=12),
            GaussianDp(mu=rng.uniform(0.01, 0.4), count=int(rng.integers(2, 12))),
            ThresholdedGaussian(stddev=40.0, delta=rng.uniform(1e-8, 1e-7)),
            ThresholdedGaussian(stddev=40.0, delta=rng.uniform(1e-8, 1e-7)),
            ThresholdedGaussian(stddev=40.0, delta=rng.uniform(1e-8, 1e-7)),
        ]
        planned = epsilon(kinds, delta=1e-6)
        singles = [single for event in kinds for single in single_events(event)]
        rng.shuffle(singles)
        assert epsilon(singles, delta=1e-6) == planned


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("interval", [1e-3, 0.1, 2.0, 50.0])
@pytest.mark.parametrize("is_dense", [True, False])
def test_epsilon_of_a_distribution_is_that_of_the_library(interval: float, is_dense: bool) -> None:
    """Also with losses whose exponential is 0 or infinite as a float."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        lowest, size = int(rng.integers(-60, 20)), int(rng.choice([1, 2, 5, 60]))
        probs = rng.dirichlet(np.ones(size)) * (rng.random(size) < 0.7)
        infinite, at = rng.choice([0.0, 1e-9, 1e-4]), rng.choice([1e-12, 1e-6, 1e-3, 0.2])
        part: Any = (
            DensePLDPmf(interval, lowest, probs, infinite, pessimistic_estimate=True)
            if is_dense
            else SparsePLDPmf(
                {lowest + n: p for n, p in enumerate(probs)}, interval, infinite, True
            )
        )
        whole = pld.PrivacyLossDistribution(part)
        try:
            expected = whole.get_epsilon_for_delta(at)
        except (OverflowError, ValueError):  # only the library raises, where epsilon is 0
            expected = 0.0
        assert accounting._smallest_epsilon(whole, at) == pytest.approx(expected, abs=1e-9)


def test_epsilon_along_one_training_discretises_its_step_once(monkeypatch) -> None:
    made = []
    monkeypatch.setattr(
        privacy_loss,
        "sampled_gaussian",
        lambda *a, **k: (made.append(0), sampled_gaussian(*a, **k))[1],
    )
    steps = [PoissonGaussian(noise_multiplier=1.37, rate=0.05, count=n) for n in (3, 5, 8)]
    spent = [epsilon([event], delta=1e-5) for event in steps]
    assert spent == sorted(spent)
    assert len(made) == 1


def test_no_event_is_free_and_no_dp_is_infinite() -> None:
    assert epsilon([], delta=1e-6) == 0
    assert epsilon([NonPrivate(), GaussianDp(mu=0.1)], delta=1e-6) == math.inf


@pytest.mark.slow
@settings(max_examples=4)  # half a second each
@given(st.lists(st.floats(0.05, 0.5), min_size=1, max_size=3), st.floats(0.05, 0.5))
def test_epsilon_never_falls_when_something_is_added(mus: list[float], more: float) -> None:
    events = [GaussianDp(mu=mu) for mu in mus]
    assert epsilon([*events, GaussianDp(mu=more)], delta=1e-6) >= epsilon(events, delta=1e-6)


@pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussian(stddev=2.5, count=3), GaussianDp(mu=0.3), NonPrivate(),
        PoissonGaussian(noise_multiplier=1.0, rate=0.1, count=5),
    ],
)  # fmt: skip
def test_an_event_survives_the_ledger(event) -> None:
    assert event_from_dict(event.as_dict()) == event


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_an_event_without_noise_cannot_be_made(bad: float) -> None:
    with pytest.raises(InvariantError):
        DiscreteGaussian(stddev=bad)


def test_shares_are_shares_of_mu_squared() -> None:
    requests = [
        BudgetRequest(name="metadata", share=0.1, count=0),
        BudgetRequest(name="votes", share=0.9, count=2),
    ]
    plan = make_plan(requests, epsilon=1.0, delta=1e-6)
    metadata, votes = plan.of("metadata").mu, plan.of("votes").mu
    assert metadata**2 / (metadata**2 + votes**2) == pytest.approx(0.1, rel=2e-5)
    assert math.sqrt(2) / plan.of("votes").stddev == pytest.approx(votes)
    assert 0.995 <= plan.epsilon <= 1.0


@pytest.mark.slow
@settings(max_examples=5)  # half a second each
@given(st.floats(0.05, 4.0), st.integers(1, 10), st.floats(0.02, 0.9))
def test_no_plan_exceeds_its_target(target: float, rounds: int, share: float) -> None:
    requests = [
        BudgetRequest(name="metadata", share=share, count=0),
        BudgetRequest(name="votes", share=1 - share, count=rounds),
    ]
    plan = make_plan(requests, epsilon=target, delta=1e-6)
    assert 0.98 * target <= plan.epsilon <= target


@pytest.mark.parametrize("per_unit", [2, 7])
def test_for_a_unit_of_several_records_counts_get_so_many_times_the_noise(per_unit: int) -> None:
    requests = [
        BudgetRequest(name="metadata", share=0.1, count=0),
        BudgetRequest(name="votes", share=0.9, count=4),
    ]
    one = make_plan(requests, epsilon=1.0, delta=1e-6)
    several = make_plan(requests, epsilon=1.0, delta=1e-6, records_per_unit=per_unit)
    assert several.of("votes").stddev == pytest.approx(per_unit * one.of("votes").stddev, rel=0.01)
    assert several.of("metadata").mu == pytest.approx(one.of("metadata").mu, rel=0.01)
    assert several.of("votes").event == DiscreteGaussian(
        stddev=several.of("votes").stddev, sensitivity=per_unit, count=4
    )
    assert 0.98 <= several.epsilon <= 1.0


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ParamsError, match="shares of a plan"):
        make_plan([BudgetRequest(name="votes", share=0.7, count=1)], epsilon=1.0, delta=1e-6)


def test_a_delta_below_what_a_distribution_cuts_off_is_refused() -> None:
    """It was a division by zero. Only narrow noise has a distribution, others have a formula."""
    request = BudgetRequest(name="one", share=1.0, count=2)
    with pytest.raises(ParamsError, match="at delta=1e-300 cannot be planned"):
        make_plan([request], epsilon=9.0, delta=1e-300)
    assert 0.999 < make_plan([request], epsilon=1.0, delta=1e-300).epsilon <= 1


def test_epsilon_of_a_gaussian_is_that_of_many_digits() -> None:
    """An error of the floats never makes epsilon too small."""

    def exact(mu: float, epsilon: float) -> Any:
        m, x = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - x / m) - mpmath.exp(x) * mpmath.ncdf(-m / 2 - x / m)

    with mpmath.workdps(400):
        for mu in (1e-6, 0.001, 0.03, 0.3, 1.0, 5.0, 20.0, 60.0):
            for delta in (1e-3, 1e-6, 1e-12, 1e-30, 1e-300):
                found = epsilon([GaussianDp(mu=mu)], delta=delta)
                assert exact(mu, found) <= delta
                assert found < 2e-9 or exact(mu, found - 2e-9) > delta


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mu", [5e3, 2e4, 1e6, 1e9, 1e12])
def test_epsilon_of_any_event_that_a_ledger_may_contain_is_a_number(mu: float) -> None:
    """It was too small by 6e-5 for mu 1e6, and an error of the root finder above 1e12."""
    for count in (1, 10**12):
        whole = mu * math.sqrt(count)
        least = whole**2 / 2 + 4 * whole  # the divergence there is almost Phi(-4) > 1e-6
        assert least <= epsilon([GaussianDp(mu=mu, count=count)], delta=1e-6) < math.inf
        assert delta_of([GaussianDp(mu=mu, count=count)], epsilon=1.0) == 1.0


def test_a_run_without_private_methods_spends_nothing() -> None:
    assert make_plan([], epsilon=1.0, delta=1e-6).epsilon == 0


def assert_equal_to_the_bit(own: Any, theirs: Any) -> None:
    for name in ("_pmf_remove", "_pmf_add"):
        one, other = getattr(own, name), getattr(theirs, name)
        assert type(one) is type(other)
        assert vars(one).keys() == vars(other).keys()
        assert all(np.array_equal(vars(one)[part], vars(other)[part]) for part in vars(one))


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "count"), [(0.001, 1), (0.05, 12), (0.3, 1), (1.0, 3), (6.0, 1)])
def test_the_distribution_of_gaussian_dp_is_that_of_the_library_to_the_bit(
    mu: float, count: int
) -> None:
    stddev = 1 / (mu * math.sqrt(count))
    theirs = pld.from_gaussian_mechanism(stddev, value_discretization_interval=1e-4)
    assert_equal_to_the_bit(gaussian(stddev, 1e-4), theirs)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(
    ("stddev", "rate", "interval"),
    [(0.6, 0.9, 1e-3), (1.0, 0.25, 1e-4), (1.0, 1.0, 1e-3), (3.0, 0.01, 1e-4), (20.0, 0.001, 1e-5)],
)
def test_the_distribution_of_a_sampled_step_is_that_of_the_library(
    stddev: float, rate: float, interval: float, replaced: bool
) -> None:
    relation = NeighboringRelation["REPLACE_ONE" if replaced else "ADD_OR_REMOVE_ONE"]
    theirs = pld.from_gaussian_mechanism(
        stddev,
        sampling_prob=rate,
        value_discretization_interval=interval,
        neighboring_relation=relation,
    )
    own = sampled_gaussian(stddev, rate=rate, interval=interval, replaced=replaced)
    if replaced or rate == 1:
        assert_equal_to_the_bit(own, theirs)
    x = np.linspace(0, 3, 31)
    for name in ("_pmf_remove", "_pmf_add"):
        divergences = [np.asarray(vars(d)[name].get_delta_for_epsilon(x)) for d in (own, theirs)]
        assert divergences[0] == pytest.approx(divergences[1], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("stddev", "rate"), [(0.6, 0.9), (1.0, 0.25), (0.7, 1e-3), (0.43, 2e-6)])
def test_the_divergence_of_a_sampled_step_is_that_of_many_digits_in_both_orders(
    stddev: float, rate: float
) -> None:
    """Each error is a small part of the sampling rate, because a million steps compose it."""
    whole = sampled_gaussian(stddev, rate=rate, interval=1e-3, replaced=False)
    s, q = mpmath.mpf(stddev), mpmath.mpf(rate)

    def divergence(x: Any, *, removed: bool) -> Any:
        """The loss of a removed unit at t is log(1 - q + q exp((-2 t - 1) / (2 s^2)))."""
        least = mpmath.exp(x if removed else -x)
        if least <= 1 - q:
            return 1 - least if removed else mpmath.mpf(0)
        cut = -s * s * mpmath.log((least - 1 + q) / q) - mpmath.mpf(1) / 2
        p, p1 = mpmath.ncdf(cut / s), mpmath.ncdf((cut + 1) / s)
        mixed = (1 - q) * p + q * p1
        return mixed - least * p if removed else 1 - p - (1 - mixed) / least

    with mpmath.workdps(60):
        for order, removed in (("_pmf_remove", True), ("_pmf_add", False)):
            pmf = vars(whole)[order].to_dense_pmf()
            total = math.fsum(vars(pmf)["_probs"]) + vars(pmf)["_infinity_mass"]
            assert total == pytest.approx(1, abs=4e-16 + 1e-13 * rate)
            for point in range(0, 200, 9):
                x = mpmath.mpf(point) / 1000
                found = float(np.asarray(pmf.get_delta_for_epsilon([float(x)]))[0])
                exact = float(divergence(x, removed=removed))
                assert found == pytest.approx(exact, abs=1e-12 * rate, rel=1e-9)


@pytest.mark.parametrize(
    ("stddev", "rate", "steps"), [(1.0, 0.25, 2), (1.0, 0.1, 200), (0.7, 1e-3, 5_000)]
)
def test_composed_steps_are_those_of_the_library(stddev: float, rate: float, steps: int) -> None:
    one = sampled_gaussian(stddev, rate=rate, interval=1e-3, replaced=False)
    own, theirs = self_composed(one, steps), one.self_compose(steps)
    x = np.linspace(0, 8, 81)
    for name in ("_pmf_remove", "_pmf_add"):
        divergences = [np.asarray(vars(d)[name].get_delta_for_epsilon(x)) for d in (own, theirs)]
        assert divergences[0] == pytest.approx(divergences[1], abs=1e-12)
        pmf = vars(vars(own)[name])
        total = math.fsum(pmf["_probs"]) + pmf["_infinity_mass"]
        assert total == pytest.approx(1, abs=1e-15 * (steps + 1))


def test_a_zero_of_the_transform_is_no_error_of_composed_steps() -> None:
    """The losses 0 and 1 are equally likely: at the highest frequency, they cancel exactly."""
    one = DensePLDPmf(1.0, 0, np.array([0.5, 0.5]), 0.0, pessimistic_estimate=True)
    composed = self_composed(pld.PrivacyLossDistribution(one), 3)
    probs = vars(vars(composed)["_pmf_remove"])["_probs"]
    assert probs == pytest.approx([1 / 8, 3 / 8, 3 / 8, 1 / 8], abs=1e-15)


@pytest.mark.parametrize("stddev", [0.7, 4.99, 5.0, 7.3, 15.99, 16.0, 40.0, 200.0])
@pytest.mark.parametrize(("sensitivity", "count"), [(1, 1), (1, 9), (3, 1), (4, 5)])
def test_the_mu_of_integer_noise_is_exact_however_wide_the_noise_is(
    stddev: float, sensitivity: int, count: int
) -> None:
    """mu is at least the exact one: noise N_Z and N_Z + 1 differ by P[N_Z = 0] in total variation.

    A mu of 1/stddev, which continuous noise has, is smaller. The steps of integer noise never
    vanish. mpmath computes with 40 digits.
    """
    with mpmath.workdps(40):
        wide = mpmath.mpf(stddev)
        weights = [mpmath.e ** (-(j**2) / (2 * wide**2)) for j in range(1, int(14 * stddev) + 40)]
        at_zero = 1 / (1 + 2 * mpmath.fsum(weights))
        exact = float(2 * mpmath.sqrt(2) * mpmath.erfinv(at_zero))
    event = DiscreteGaussian(stddev=stddev, sensitivity=sensitivity, count=count)
    expected = sensitivity * math.sqrt(count) * exact
    assert gaussian_mu([event]) == pytest.approx(expected, rel=1e-10)
    assert expected > sensitivity * math.sqrt(count) / stddev
    alone = DiscreteGaussian(stddev=stddev)
    assert delta_of([alone], epsilon=0.0) >= at_zero * (1 - 1e-9)


@pytest.mark.parametrize("stddev", [5.0, 16.0, 60.0])
def test_every_epsilon_of_wide_integer_noise_is_above_that_of_continuous_noise(
    stddev: float,
) -> None:
    """The ledger, the filter and the plan use no mu of 1/stddev."""
    events, mu = [DiscreteGaussian(stddev=stddev, count=4)] * 25, 10 / stddev
    assert adaptive_epsilon(events, delta=1e-6) > gaussian_epsilon(mu, delta=0.99e-6)
    if stddev >= 16:  # narrower noise has an exact distribution
        assert epsilon(events, delta=1e-6) > gaussian_epsilon(mu, delta=1e-6)


@pytest.mark.parametrize("stddev", [0.026, 0.01, 0.001])
def test_a_draw_with_almost_no_noise_is_bounded_without_a_grid_up_to_its_epsilon(
    stddev: float,
) -> None:
    """e^x would overflow there, and the grid for 0.001 would need 37 GiB."""
    bound = adaptive_epsilon([DiscreteGaussian(stddev=stddev)], delta=1e-6)
    assert 1 / (2 * stddev**2) < bound < math.inf
