from typing import Any

import pytest

from sugarbush.errors import ParamsError
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.methods.plan import plan_for
from sugarbush.privacy.budget import BudgetPlan
from tests.settings import params

ROUNDING = 1e-4  # a plan rounds each mu to six digits


def plan_of(**changes: Any) -> BudgetPlan:
    settings = params(**changes)
    return plan_for(settings.privacy, settings.chosen)


def test_maple_divides_mu_squared_by_its_shares() -> None:
    plan = plan_of()
    assert {a.name for a in plan.allocations} == {"metadata", "votes:maple"}
    total = sum(a.mu**2 for a in plan.allocations)
    assert plan.of("metadata").mu ** 2 / total == pytest.approx(0.1, rel=ROUNDING)
    assert plan.epsilon <= 1.0


def test_several_methods_share_one_budget() -> None:
    plan = plan_of(methods=["maple", "augpe", "public"])
    total = sum(a.mu**2 for a in plan.allocations)
    shares = {a.name: a.mu**2 / total for a in plan.allocations}
    assert shares == pytest.approx(
        {"metadata": 0.05, "labels": 0.05, "votes:maple": 0.45, "votes:augpe": 0.45}, rel=ROUNDING
    )
    assert 0.99 <= plan.epsilon <= 1.0


@pytest.mark.slow
def test_fine_tuning_shares_with_the_votes_and_leaves_their_noise_alone() -> None:
    plan = plan_of(methods=["maple", "dpft"])
    total = sum(a.mu**2 for a in plan.allocations)
    shares = {a.name: a.mu**2 / total for a in plan.allocations}
    assert shares == pytest.approx(
        {"metadata": 0.1, "votes:maple": 0.45, "training": 0.45}, rel=ROUNDING
    )


def test_for_a_person_of_several_records_votes_get_so_many_times_the_noise() -> None:
    persons = {"privacy__unit": "user", "prepare__user_column": "author"}
    one, three = (plan_of(**persons, privacy__records_per_user=m).of("votes:maple") for m in (1, 3))
    assert one == plan_of().of("votes:maple")
    assert three.stddev == pytest.approx(3 * one.stddev, rel=0.01)
    with pytest.raises(ParamsError, match="noise of"):
        plan_of(**persons, privacy__records_per_user=1000)


def test_scores_get_the_noise_of_votes_in_their_own_unit() -> None:
    votes = plan_of().of("votes:maple")
    plan = plan_of(methods__maple__scorer="kernel")
    scores = plan.of("votes:maple")
    assert scores.sensitivity == RESOLUTION
    assert scores.stddev == pytest.approx(RESOLUTION * votes.stddev, rel=0.01)
    assert 0.99 <= plan.epsilon <= 1.0


def test_public_spends_nothing() -> None:
    assert plan_of(methods=["public"]).allocations == ()


def test_a_method_without_rounds_leaves_its_share_to_the_metadata() -> None:
    plan = plan_of(methods__maple__rounds=0)
    assert {a.name for a in plan.allocations} == {"metadata"}
    assert 0.99 <= plan.epsilon <= 1.0


def test_augpe_without_labels_gives_all_to_its_votes() -> None:
    plan = plan_of(methods=["augpe"], methods__augpe__by_label=False)
    assert [a.name for a in plan.allocations] == ["votes:augpe"]


def test_more_rounds_than_the_budget_can_carry_are_refused() -> None:
    with pytest.raises(ParamsError, match=r"methods\.maple\.rounds=200000"):
        plan_of(methods__maple__rounds=200_000)


def test_more_records_of_a_person_than_label_counts_can_carry_are_refused() -> None:
    own = {"privacy__unit": "user", "prepare__user_column": "author"}
    said = r"yaml: privacy\.records_per_user=100 with privacy\.epsilon=1 gives every count"
    with pytest.raises(ParamsError, match=said):
        plan_of(methods=["augpe"], privacy__records_per_user=100, **own)
