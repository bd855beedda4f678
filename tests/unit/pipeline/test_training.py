"""Tests of the plan of fine-tuning.

The number of steps is computed from the DP record count, and the noise from the budget plan.
"""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import TRAINING
from sugarbush.methods.plan import plan_for
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.events import DpSgdBound, PoissonGaussian
from sugarbush.run.settings import ProjectSettings
from sugarbush.training.dpsgd.train import Mechanism
from tests.settings import method_in, params

SETTINGS = {"methods": ["dpft"], "methods__dpft__batch_size": 256, "methods__dpft__epochs": 4}

PERSONS = {
    "privacy__unit": "user",
    "privacy__records_per_user": 5,
    "prepare__user_column": "author",
}


COUNTED = MetadataRelease(record_count=4000.0)
NOTHING_COUNTED = MetadataRelease()


def plan_of(settings: ProjectSettings) -> BudgetPlan:
    return plan_for(settings.privacy, settings.chosen)


def mechanism_of(settings: ProjectSettings, metadata: MetadataRelease = COUNTED) -> Mechanism:
    method = settings.method("dpft")
    assert isinstance(method, DPFT)
    inputs: Any = SimpleNamespace(
        private=SimpleNamespace(budget=plan_of(settings), privacy=settings.privacy),
        public=SimpleNamespace(metadata=metadata),
    )
    return method._mechanism(inputs)


@pytest.mark.slow
def test_rate_and_steps_follow_from_the_dp_record_count() -> None:
    schedule = mechanism_of(params(**SETTINGS))
    assert schedule.rate == pytest.approx(256 / 4000)
    assert schedule.steps == round(4 * 4000 / 256)


@pytest.mark.slow
def test_persons_are_reckoned_as_few_as_the_dp_record_count_allows() -> None:
    """If each user has at most 5 of the 4,000 records, there are at least 800 users."""
    schedule = mechanism_of(params(**SETTINGS, **PERSONS))
    assert schedule.rate == pytest.approx(256 / 800)
    assert schedule.steps == round(4 * 800 / 256)
    few = mechanism_of(params(**SETTINGS, **PERSONS | {"privacy__records_per_user": 100}))
    assert few.rate == 1.0


def test_training_is_planned_for_a_person_without_more_noise_a_step() -> None:
    """A step uses one record of a sampled user, so the noise depends only on rate and steps."""
    person = mechanism_of(params(**SETTINGS, **PERSONS))
    assert person == mechanism_of(params(**SETTINGS), MetadataRelease(record_count=800.0))


def test_a_setting_takes_the_place_of_the_count() -> None:
    settings = params(**SETTINGS, methods__dpft__records=2000)
    mechanism = mechanism_of(settings, NOTHING_COUNTED)
    assert mechanism.rate == pytest.approx(256 / 2000)
    # These steps are fixed in advance, so their own cost is charged.
    assert mechanism.charge == mechanism.event == plan_of(settings).of(TRAINING).event


@pytest.mark.slow
@pytest.mark.parametrize("methods", [["dpft"], ["maple", "dpft"]])
def test_the_charge_does_not_depend_on_the_dp_count_and_the_plan_meets_epsilon(
    methods: list[str],
) -> None:
    settings = params(**SETTINGS | {"methods": methods})
    plan = plan_of(settings)
    events = [a.event for a in plan.allocations]
    assert 0.985 < epsilon(events, delta=settings.privacy.delta) <= 1.0
    for count in (300.0, 4_000.0, 300_000.0):
        ran = mechanism_of(settings, MetadataRelease(record_count=count))
        assert ran.rate == min(1.0, 256 / count)
        assert ran.charge == plan.of(TRAINING).event


@pytest.mark.slow
def test_repeatable_steps_are_paid_for_beforehand() -> None:
    few, many = (
        mechanism_of(params(**SETTINGS, methods__dpft__repeatable_steps=steps)) for steps in (0, 60)
    )
    assert many.noise_multiplier > 1.2 * few.noise_multiplier
    own = params(**SETTINGS, methods__dpft__records=4000, methods__dpft__repeatable_steps=10)
    mechanism = mechanism_of(own)
    assert isinstance(mechanism.charge, PoissonGaussian)
    assert mechanism.charge.count == mechanism.steps + 10


@pytest.mark.slow
def test_the_preset_of_the_paper_is_planned_as_published() -> None:
    """For the 1.9 million records of Yelp, and with nearly all of the budget for training, sigma is
    the published value 0.774."""
    settings = params(
        methods=["dpft"],
        methods__dpft__preset="yue2023",
        methods__dpft__records=1.9e6,
        privacy__epsilon=4.0,
        privacy__delta=1 / (1.9e6 * math.log(1.9e6)),
        privacy__metadata_share=1e-4,
    )
    event = plan_of(settings).of(TRAINING).event
    assert isinstance(event, PoissonGaussian)
    assert (event.count, event.rate) == (23193, pytest.approx(4096 / 1.9e6))
    assert event.noise_multiplier == pytest.approx(0.774, rel=0.01)
    assert method_in(settings, DPFT).training.learning_rate == 1e-4
    assert method_in(settings, DPFT).training.decay == "constant"


@pytest.mark.slow
def test_the_preset_of_low_rank_factors_is_planned_by_the_dp_count() -> None:
    settings = params(methods=["dpft"], methods__dpft__preset="lora")
    assert isinstance(plan_of(settings).of(TRAINING).event, DpSgdBound)
    mechanism = mechanism_of(settings)
    assert (mechanism.steps, mechanism.rate) == (78, 1024 / 4000)
    assert 8 <= (method_in(settings, DPFT).training.lora_rank or 0) <= 16
    assert 3e-4 <= method_in(settings, DPFT).training.learning_rate <= 3e-3
