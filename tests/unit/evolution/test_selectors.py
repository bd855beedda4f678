"""Tests of the selectors: by rank within a label, and by herding over all labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sugarbush.errors import InvariantError
from sugarbush.evolution.enlargers import ByPredictedScores, MostVoted
from sugarbush.evolution.herding import herd
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.parts import Lineage, Parts, Round, Scored
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.scorers import NearestVotes
from sugarbush.evolution.selectors import ByHerding, ByRank
from sugarbush.evolution.settings import PromptContent
from sugarbush.evolution.starts import Open
from sugarbush.evolution.variation import FillIn
from sugarbush.generators.interface import Usage
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng
from tests.unit.evolution.test_evolve import first, on_a_circle


def scored(scores: list[int], labels: list[int], *, unit: int = 1) -> Scored:
    return Scored(
        population=first(len(scores), labels=labels),
        scores=Released(np.array(scores)),
        unit=unit,
        stddev=2.0 * unit,
        name="votes",
    )


@pytest.mark.parametrize("unit", [1, RESOLUTION])
def test_the_most_votes_of_each_label_survive(unit: int) -> None:
    votes = scored([5, 9, 1, 7, 3, 8], [0, 2, 0, 2, 0, 1], unit=unit)
    counts = {2: 1, 0: 2, 1: 3}
    chosen = ByRank().select(votes, counts=counts, encode=on_a_circle, rng=public_rng(0))
    assert chosen.tolist() == [0, 4, 5, 1]


def test_votes_below_0_are_noise_and_in_random_order() -> None:
    """In 400 choices, each of 4 candidates without a vote is chosen 100 times, give or take 5
    standard deviations. Among negative votes, -1 would win each time."""
    votes = scored([-9, -1, 0, -4], [0] * 4)
    chosen = [
        ByRank().select(votes, counts={0: 1}, encode=on_a_circle, rng=public_rng(i))[0]
        for i in range(400)
    ]
    assert abs(np.bincount(chosen, minlength=4) - 100).max() < 5 * np.sqrt(400 * 0.25 * 0.75)


def test_herding_chooses_the_number_of_survivors_from_all_labels() -> None:
    votes = scored([60, 10, 30, 0], [0, 1, 1, 1], unit=RESOLUTION)
    herding = ByHerding(width=0.01)
    chosen = herding.select(votes, counts={0: 1, 1: 1}, encode=on_a_circle, rng=public_rng(0))
    embeddings = on_a_circle(votes.population.texts)
    expected = herd(votes.scores.value, embeddings, width=0.01, count=2)
    assert chosen.tolist() == expected.tolist()
    every = herding.select(votes, counts={0: 9, 1: 9}, encode=on_a_circle, rng=public_rng(0))
    assert sorted(every.tolist()) == [0, 1, 2, 3]


def after_a_round(votes: Scored, survivors: list[int]) -> Lineage:
    last = Round(**vars(votes), number=1, survivors=np.array(survivors), usage=Usage())
    final = votes.population.take(last.survivors)
    return Lineage(rounds=(last,), final=final, usage=Usage(), ledger_ids=())


def test_a_small_release_has_the_survivors_with_the_most_votes() -> None:
    lineage = after_a_round(scored([5, 9, 1, 7, 3, 8], [0] * 6), survivors=[0, 2, 3, 5])
    kept = MostVoted().kept(lineage, count=2, rng=public_rng(0))
    assert kept.texts == ("5.0", "3.0")
    assert MostVoted().kept(lineage, count=4, rng=public_rng(0)) is lineage.final


def test_scores_without_noise_choose_too() -> None:
    """The method `nonprivate` has exact scores, which need no ridge for noise."""
    votes = scored([5, 9, 1], [0] * 3)
    exact = Scored(**{**vars(votes), "stddev": None})
    lineage = Lineage(scored=exact, final=votes.population, usage=Usage(), ledger_ids=())
    chosen = ByPredictedScores().choose(lineage, votes.population, count=2, encode=on_a_circle)
    assert len(set(chosen.tolist())) == 2


def test_a_small_release_without_rounds_has_the_texts_with_the_highest_scores() -> None:
    votes = scored([5, 9, 1], [0] * 3)
    lineage = Lineage(scored=votes, final=votes.population, usage=Usage(), ledger_ids=())
    kept = MostVoted().kept(lineage, count=1, rng=public_rng(1))
    assert kept.ids.tolist() == [votes.population.ids[1]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"selector": ByRank()},
        {"varier": FillIn(copies=1)},
        {"rounds": 2, "scorer": NearestVotes()},
        {"rounds": 2, "selector": ByRank(), "varier": FillIn(copies=1)},
    ],
    ids=str,
)
def test_parts_that_do_not_fit_together_are_refused(wrong: dict[str, Any]) -> None:
    start = Open(Prompts(content=PromptContent.INDEPENDENT, examples=0, candidates=4))
    with pytest.raises(InvariantError, match="rounds need"):
        Parts(start=start, enlarger=MostVoted(), **wrong)
