"""Tests of the plan of fine-tuning.

The number of steps is computed from the DP record count, and the noise from the budget plan.
"""

import math
from pathlib import Path

import pytest

from sugarbush.errors import MissingInputError
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import TRAINING, MetadataRelease
from sugarbush.pipeline.budget import plan_for
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.training.dpsgd.sampling import Schedule
from tests.settings import params

SETTINGS = {"methods": ["dpft"], "finetune__dpft__batch_size": 256, "finetune__dpft__epochs": 4}

PERSONS = {
    "privacy__unit": "user",
    "privacy__records_per_user": 5,
    "prepare__user_column": "author",
}


COUNTED = MetadataRelease(record_count=4000.0)
NOTHING_COUNTED = MetadataRelease()


def schedule_of(settings: ProjectSettings, metadata: MetadataRelease = COUNTED) -> Schedule:
    method = settings.method("dpft")
    assert isinstance(method, DPFT)
    return method._schedule(metadata, records_per_user=settings.privacy.records_per_user)


def first_plan(settings: ProjectSettings) -> BudgetPlan:
    return plan_for(settings.privacy, settings.chosen)


def final_plan(settings: ProjectSettings, metadata: MetadataRelease = COUNTED) -> BudgetPlan:
    plan = first_plan(settings)
    for method in settings.chosen:
        plan = method.final_plan(plan, metadata, settings.privacy)
    return plan


def test_rate_and_steps_follow_from_the_dp_record_count() -> None:
    schedule = schedule_of(params(**SETTINGS))
    assert schedule.rate == pytest.approx(256 / 4000)
    assert schedule.steps == round(4 * 4000 / 256)


def test_persons_are_reckoned_as_few_as_the_dp_record_count_allows() -> None:
    """If each user has at most 5 of the 4,000 records, there are at least 800 users."""
    schedule = schedule_of(params(**SETTINGS, **PERSONS))
    assert schedule.rate == pytest.approx(256 / 800)
    assert schedule.steps == round(4 * 800 / 256)
    few = schedule_of(params(**SETTINGS, **PERSONS | {"privacy__records_per_user": 100}))
    assert few.rate == 1.0


def test_training_is_planned_for_a_person_without_more_noise_a_step() -> None:
    """A step uses one record of a sampled user, so the noise depends only on rate and steps."""
    settings = params(**SETTINGS, **PERSONS)
    own = params(**SETTINGS, finetune__dpft__records=800)
    (person, record) = (final_plan(s).of(TRAINING).subsampled for s in (settings, own))
    assert person == record


def test_a_setting_takes_the_place_of_the_count() -> None:
    schedule = schedule_of(params(**SETTINGS, finetune__dpft__records=2000), NOTHING_COUNTED)
    assert schedule.rate == pytest.approx(256 / 2000)


def test_without_a_count_the_stage_that_leaves_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="synthesize_metadata"):
        Project(tmp_path, settings=params(**SETTINGS)).final_plan()


@pytest.mark.parametrize("methods", [["dpft"], ["maple", "dpft"]])
def test_the_whole_plan_meets_epsilon_and_nobody_elses_noise_moves(
    methods: list[str],
) -> None:
    settings = params(**SETTINGS | {"methods": methods})
    before, after = first_plan(settings), final_plan(settings)
    spent = epsilon([a.event for a in after.allocations], delta=settings.privacy.delta)
    assert 0.995 < spent <= 1.0
    others = [a for a in before.allocations if a.name != TRAINING]
    assert [a for a in after.allocations if a.name != TRAINING] == others


def test_repeatable_steps_are_paid_for_beforehand() -> None:
    settings = params(**SETTINGS, finetune__dpft__repeatable_steps=10)
    event = final_plan(settings).of(TRAINING).subsampled
    assert event is not None
    assert event.count == schedule_of(settings).steps + 10


@pytest.mark.slow
def test_the_preset_of_the_paper_is_planned_as_published() -> None:
    """For the 1.9 million records of Yelp, and with nearly all of the budget for training, sigma is
    the published value 0.774."""
    settings = params(
        methods=["dpft"],
        finetune__preset="yue2023",
        finetune__yue2023__records=1.9e6,
        privacy__epsilon=4.0,
        privacy__delta=1 / (1.9e6 * math.log(1.9e6)),
        privacy__shares={"metadata": 1e-4, "synthesis": 1 - 1e-4},
    )
    event = final_plan(settings, NOTHING_COUNTED).of(TRAINING).subsampled
    assert event is not None
    assert (event.count, event.rate) == (23193, pytest.approx(4096 / 1.9e6))
    assert event.noise_multiplier == pytest.approx(0.774, rel=0.01)
    assert settings.finetune.chosen.learning_rate == 1e-4
    assert settings.finetune.chosen.decay == "constant"


def test_the_preset_of_low_rank_factors_is_planned_by_the_dp_count() -> None:
    settings = params(methods=["dpft"], finetune__preset="lora")
    event = final_plan(settings).of(TRAINING).subsampled
    assert event is not None
    assert (event.count, event.rate) == (78, 1024 / 4000)
    assert 8 <= (settings.finetune.chosen.lora_rank or 0) <= 16
    assert 3e-4 <= settings.finetune.chosen.learning_rate <= 3e-3


def test_without_fine_tuning_the_plan_is_as_it_was() -> None:
    settings = params(methods=["maple"])
    assert final_plan(settings) == first_plan(settings)
