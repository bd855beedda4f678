"""Tests of the accounting of confidential training.

They check published values, the cost under each neighbouring relation, and the formulas.
"""

import math

import dp_accounting
import hypothesis.strategies as st
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given

from sugarbush.errors import InvariantError, ParamsError
from sugarbush.privacy.accounting import Relation, epsilon
from sugarbush.privacy.events import (
    ConfidentialTraining,
    DiscreteGaussian,
    NonPrivate,
    PoissonGaussian,
    event_from_dict,
)
from sugarbush.training.crt import confidentiality

# The values of the published notebook: 10,000 records, batches of 1,000, 10 epochs, delta 1e-5.
RATE, STEPS, DELTA, GAMMA = 0.1, 100, 1e-5, 0.1
EPSILON_2 = PoissonGaussian(noise_multiplier=2.422, rate=RATE, count=STEPS)
ADD_REMOVE = Relation.ADD_OR_REMOVE_ONE


def rdp_epsilon(noise_multiplier, delta):
    accountant = RdpAccountant([1.5 + 0.5 * i for i in range(60)])
    one = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(noise_multiplier))
    accountant.compose(one, STEPS)
    return accountant.get_epsilon(delta)


def test_the_notebooks_figures_by_its_own_accountant():
    assert rdp_epsilon(2.422, DELTA) == pytest.approx(2.0, abs=0.002)
    inner = rdp_epsilon(2.422, DELTA / GAMMA)
    assert inner == pytest.approx(1.712, abs=0.002)
    assert confidentiality.amplified(inner, gamma=GAMMA) == pytest.approx(0.374, abs=0.001)
    inner = rdp_epsilon(4.278, DELTA / GAMMA)
    assert confidentiality.amplified(inner, gamma=GAMMA) == pytest.approx(0.125, abs=0.001)


@pytest.mark.parametrize(("noise", "inner", "expected"), [(2.2476, 2, 0.362), (3.9415, 1, 0.122)])
def test_the_same_by_loss_distributions(noise, inner, expected):
    event = PoissonGaussian(noise_multiplier=noise, rate=RATE, count=STEPS)
    assert epsilon([event], delta=DELTA) == pytest.approx(inner, abs=0.001)
    found = confidentiality.bayesian(event, gamma=GAMMA, delta=DELTA, relation=ADD_REMOVE)
    assert found.epsilon == pytest.approx(expected, abs=0.001)
    assert found.delta == pytest.approx(DELTA)


def test_replacing_costs_more_than_adding_or_removing_at_the_same_noise():
    assert confidentiality.uniform(EPSILON_2, delta=1e-5).epsilon == pytest.approx(3.50, abs=0.005)
    assert confidentiality.uniform(EPSILON_2, delta=1e-4).epsilon == pytest.approx(3.02, abs=0.005)
    bayesian = confidentiality.bayesian(EPSILON_2, gamma=GAMMA, delta=DELTA)
    assert bayesian.epsilon == pytest.approx(1.08, abs=0.005)
    assert epsilon([EPSILON_2], delta=1e-5) < 2


def test_the_default_relation_is_replace_one():
    by_default = confidentiality.uniform(EPSILON_2, delta=DELTA)
    assert by_default == confidentiality.uniform(
        EPSILON_2, delta=DELTA, relation=Relation.REPLACE_ONE
    )
    assert (
        by_default.epsilon
        > confidentiality.uniform(EPSILON_2, delta=DELTA, relation=ADD_REMOVE).epsilon
    )


def test_confidential_training_has_no_dp_epsilon_and_that_of_replacing():
    event = ConfidentialTraining(noise_multiplier=2.422, rate=RATE, count=STEPS)
    assert epsilon([event], delta=DELTA) == math.inf
    assert epsilon([event], delta=DELTA, relation=Relation.REPLACE_ONE) == pytest.approx(
        3.50, abs=0.005
    )
    assert event_from_dict(event.as_dict()) == event


def test_a_histogram_has_no_accounting_under_replace_one():
    with pytest.raises(InvariantError, match="replace_one"):
        epsilon([DiscreteGaussian(stddev=9.0)], delta=DELTA, relation=Relation.REPLACE_ONE)


@given(st.floats(0, 60), st.floats(1e-6, 1))
def test_amplification_is_undone_by_its_inverse(inner, gamma):
    target = confidentiality.amplified(inner, gamma=gamma)
    assert 0 <= target <= inner + 1e-12
    if target > 1e-9:
        assert confidentiality.allowed(target, gamma=gamma) == pytest.approx(inner, rel=1e-5)


def test_epsilon_grows_with_gamma_and_ends_at_the_uniform_one():
    curve = [
        confidentiality.bayesian(EPSILON_2, gamma=gamma, delta=DELTA)
        for gamma in (0.0, 0.01, 0.1, 0.5, 1.0)
    ]
    values = [point.epsilon for point in curve]
    assert values == sorted(values)
    assert values[0] == 0
    assert values[-1] == confidentiality.uniform(EPSILON_2, delta=DELTA).epsilon


def test_a_policy_that_finds_nothing_is_not_credited():
    # The group size k is the number of units in which the policy misses the secret. If k were the
    # number of units in which it finds the secret, the guarantee would be (0, 0) here.
    blind = confidentiality.group(EPSILON_2, missed=3, delta=DELTA)
    assert blind.epsilon > 3 * confidentiality.uniform(EPSILON_2, delta=DELTA).epsilon
    assert confidentiality.group(EPSILON_2, missed=0, delta=DELTA).epsilon == 0


@pytest.mark.parametrize("missed", [1, 2])
def test_a_groups_delta_is_kept(missed):
    found = confidentiality.group(EPSILON_2, missed=missed, delta=DELTA)
    part = DELTA / (missed * math.exp(found.epsilon))  # from k e^(k epsilon') delta' = delta
    inner = confidentiality.uniform(EPSILON_2, delta=part).epsilon
    assert missed * inner == pytest.approx(found.epsilon, rel=0.05)


def test_without_noise_the_epsilon_is_infinite():
    assert confidentiality.uniform(NonPrivate(), delta=DELTA).epsilon == math.inf
    assert confidentiality.bayesian(NonPrivate(), gamma=0.1, delta=DELTA).epsilon == math.inf


def test_delta_2_is_taken_off_and_refused_when_it_is_too_large():
    with_public = confidentiality.bayesian(EPSILON_2, gamma=GAMMA, delta=DELTA, delta_2=9e-6)
    without = confidentiality.bayesian(EPSILON_2, gamma=GAMMA, delta=DELTA)
    assert with_public.epsilon > without.epsilon
    assert with_public.delta == pytest.approx(DELTA)
    with pytest.raises(ParamsError, match="delta_2"):
        confidentiality.bayesian(EPSILON_2, gamma=GAMMA, delta=DELTA, delta_2=0.015)


@pytest.mark.slow
def test_the_noise_for_a_target_reaches_it_and_less_does_not():
    noise = confidentiality.noise_for(1.0, gamma=GAMMA, delta=DELTA, rate=RATE, steps=STEPS)

    def reached(multiplier):
        event = PoissonGaussian(noise_multiplier=multiplier, rate=RATE, count=STEPS)
        return confidentiality.bayesian(event, gamma=GAMMA, delta=DELTA).epsilon

    assert reached(noise) <= 1.0 < reached(noise * 0.998)


def test_a_gamma_below_what_was_measured_is_refused():
    assert confidentiality.agreed_gamma(None, measured=None) == 1.0
    assert confidentiality.agreed_gamma(None, measured=0.02) == 0.02
    assert confidentiality.agreed_gamma(0.1, measured=0.02) == 0.1
    with pytest.raises(ParamsError, match=r"gamma=0\.01 is given"):
        confidentiality.agreed_gamma(0.01, measured=0.02)
    with pytest.raises(ParamsError, match="between 0 and 1"):
        confidentiality.agreed_gamma(1.5, measured=None)
