"""DP-SGD's noise from a share of one budget, against published settings and dp-accounting."""

import math

import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from sugarbush.errors import ParamsError
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.events import DiscreteGaussian, GaussianDp, PoissonGaussian
from sugarbush.privacy.plan import Part, make_plan

YELP = 1.9e6  # records; batch 4096, 50 epochs (Yue et al. 2023)
RATE, STEPS, DELTA = 4096 / YELP, 23193, 1 / (YELP * math.log(YELP))


def test_the_yelp_setting_gets_the_noise_that_plds_give():
    plan = make_plan([Part(name="dpft", share=1, draws=STEPS, rate=RATE)], epsilon=4, delta=DELTA)
    noise_multiplier = plan.of("dpft").noise_multiplier
    assert noise_multiplier == pytest.approx(0.774, rel=0.01)
    assert 4 * 0.995 < plan.epsilon <= 4
    # The looser accounting of the paper would ask for this much.
    accountant = RdpAccountant()
    accountant.compose(dp_event.PoissonSampledDpEvent(RATE, dp_event.GaussianDpEvent(0.808)), STEPS)
    assert accountant.get_epsilon(DELTA) == pytest.approx(4, rel=0.02)
    assert noise_multiplier < 0.808


def test_the_event_of_the_part_is_what_the_plan_counted():
    plan = make_plan([Part(name="dpft", share=1, draws=300, rate=0.02)], epsilon=2, delta=1e-6)
    event = plan.of("dpft").event
    assert isinstance(event, PoissonGaussian)
    assert (event.rate, event.count) == (0.02, 300)
    assert epsilon([event], delta=1e-6) == plan.epsilon


def test_the_whole_plan_meets_the_target_with_several_kinds_of_parts():
    parts = [
        Part(name="aim", share=0.1, draws=0),
        Part(name="votes", share=0.3, draws=2),
        Part(name="dpft", share=0.6, draws=200, rate=0.05),
    ]
    plan = make_plan(parts, epsilon=1, delta=1e-6)
    assert 0.99 < plan.epsilon <= 1
    kinds = [type(allotment.event) for allotment in plan.allotments]
    assert kinds == [GaussianDp, DiscreteGaussian, PoissonGaussian]
    assert epsilon([a.event for a in plan.allotments], delta=1e-6) == plan.epsilon
    # The other parts are what they would be beside any part of that share.
    plain = make_plan([*parts[:2], Part(name="dpft", share=0.6, draws=2)], epsilon=1, delta=1e-6)
    assert plan.of("votes").stddev == pytest.approx(plain.of("votes").stddev, rel=1e-3)


def test_a_larger_share_gets_less_noise():
    def noise(share):
        parts = [
            Part(name="votes", share=1 - share, draws=1),
            Part(name="dpft", share=share, draws=200, rate=0.05),
        ]
        return make_plan(parts, epsilon=1, delta=1e-6).of("dpft").noise_multiplier

    assert noise(0.9) < noise(0.5) < noise(0.1)


def test_two_subsampled_parts_share_what_there_is():
    parts = [
        Part(name="dpft", share=0.8, draws=100, rate=0.1),
        Part(name="crt", share=0.2, draws=100, rate=0.1),
    ]
    plan = make_plan(parts, epsilon=1, delta=1e-6)
    assert 0.99 < plan.epsilon <= 1
    assert plan.of("crt").noise_multiplier > 1.7 * plan.of("dpft").noise_multiplier


@pytest.mark.parametrize(("rate", "draws"), [(0.0, 10), (1.5, 10), (0.1, 0)])
def test_a_sampled_part_needs_a_rate_and_a_step(rate, draws):
    with pytest.raises(ParamsError, match="dpft"):
        make_plan([Part(name="dpft", share=1, draws=draws, rate=rate)], epsilon=1, delta=1e-6)


def test_everyone_in_every_step_costs_what_plain_gaussians_cost():
    plan = make_plan([Part(name="dpft", share=1, draws=4, rate=1.0)], epsilon=1, delta=1e-6)
    mu = 2 / plan.of("dpft").noise_multiplier
    assert epsilon([GaussianDp(mu=mu)], delta=1e-6) == pytest.approx(1, rel=0.01)
