"""Tests that rounds are charged once, drawn once and then restored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import BudgetExceededError, GeneratorError
from sugarbush.evolution.evolve import Rounds, Scoring, score_once
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.parts import Candidates, Lineage, Records, Scorer, Selector
from sugarbush.evolution.population import NO_CODE, NO_PARENT, Population
from sugarbush.evolution.scorers import KernelScorer, NearestVotes, ScoresAndClassSums
from sugarbush.evolution.selectors import ByHerding, ByRank
from sugarbush.evolution.variation import FillIn
from sugarbush.evolution.writer import Writer
from sugarbush.generators.interface import Answer, Problem, Request, VariationRequest
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import ResultStore, open_result_store
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit

SCHEMA = Schema(
    subject="numbers", attributes=(Attribute(name="kind", column="kind", values=("a", "b")),)
)
TARGET = 60


def encode(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts that are numbers as points on a line."""
    return np.array([[float(text), 1.0] for text in texts], dtype=np.float32)


def on_a_circle(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts that are numbers as unit vectors: the angle is the number / 100 radians."""
    angles = np.array([float(text) for text in texts]) / 100
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


class Drifting:
    """A generator of texts that are numbers.

    A variation is its parent plus an offset, which depends on the sample index.
    """

    def __init__(self, fail_every: int = 0, problem: Problem = Problem.REFUSAL) -> None:
        self.asked, self.problem = 0, problem
        self.fail_every = fail_every
        self.paid: set[tuple[str, ...]] = set()
        self.batches: list[str] = []

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        self.paid.add(requests.ledger_ids)
        self.batches.append(what)
        return requests.map(lambda wanted: tuple(self._answer(r) for r in wanted))

    def _answer(self, request: Request) -> Answer:
        self.asked += 1
        if self.fail_every and self.asked % self.fail_every == 0:
            return Answer(text=None, problem=self.problem)
        assert isinstance(request, VariationRequest)
        return Answer(text=str(float(request.parent) + request.sample % 21 - 10))


def first(count: int = 12, labels: Sequence[int] | None = None) -> Population:
    return Population(
        ids=np.arange(count),
        texts=tuple(str(float(i)) for i in range(count)),
        codes=np.full((count, 1), NO_CODE),
        labels=np.array(labels if labels is not None else [0] * count),
        parents=np.full(count, NO_PARENT),
        rounds=np.zeros(count, dtype=np.int64),
    )


def records_at(embeddings: NDArray[np.float32], labels: Sequence[int] | None = None) -> Records:
    codes = np.array(labels if labels is not None else [0] * len(embeddings), dtype=np.int64)
    return Records(embeddings, codes[:, None], codes)


def session(
    state: Path, *, cap: float = 100.0, records_per_unit: int = 1, run: str = "r"
) -> PrivacySession:
    unit = Unit.RECORD if records_per_unit == 1 else Unit.USER
    ledger = Ledger(state, dataset="d", purpose="release", unit=unit, cap=cap, delta=1e-6)
    return PrivacySession(
        ledger=ledger, stage="evolve@maple", run=run, records_per_unit=records_per_unit
    )


def run(
    state: Path,
    *,
    rounds: int | None,
    own: PrivacySession | None = None,
    scorer: Scorer | None = None,
    selector: Selector | None = None,
    variations: int = 4,
    stddev: float = 8.0,
    records: Records | None = None,
    generator: Any = None,
    forced: bool = False,
    start: Population | None = None,
    dropped: float = 0.2,
    encode: Any = encode,
    scores_first: bool = False,
) -> Lineage:
    """Run rounds on 400 records at the target. Without `rounds`, score the candidates once."""

    def scoring(store: ResultStore) -> Scoring:
        at_target = records_at(encode([str(float(TARGET))] * 400))
        return Scoring(
            scorer=scorer or NearestVotes(),
            records=Private(at_target if records is None else records),
            stddev=stddev,
            session=own or session(state),
            store=store,
            encode=encode,
        )

    first_ones = Released(start or first(), ("metadata",))
    with open_result_store(
        state, dataset="d", stage="evolve-maple", key={"a": "x"}, forced=forced
    ) as store:
        if rounds is None:
            return score_once(first_ones, scoring=scoring(store))
        return Rounds(
            number=rounds,
            selector=selector or ByRank(),
            varier=FillIn(copies=variations - 1),
            scoring=scoring(store),
            schema=SCHEMA,
            writer=Writer(generator=generator or Drifting(), max_dropped_share=dropped),
            seed=1,
            say=lambda line: None,
            scores_first=scores_first,
        ).run(first_ones)


def charges(state: Path) -> int:
    return len(session(state).ledger.entries())


@pytest.mark.parametrize("scorer", [NearestVotes(), NearestVotes(votes=5)], ids=["1", "5"])
def test_votes_of_persons_are_checked_and_charged_as_such(tmp_path: Path, scorer: Scorer) -> None:
    """The noise is calibrated for one record per user.

    The cap has room for the votes of one record per user, but not for three.
    """
    unit, own = scorer.unit, session(tmp_path, records_per_unit=3)
    run(tmp_path, rounds=1, own=own, scorer=scorer, stddev=40.0 * unit)
    (entry,) = own.ledger.entries()
    assert entry.event == DiscreteGaussian(stddev=40.0 * unit, sensitivity=3 * unit)
    tight = session(tmp_path / "tight", cap=1.0, records_per_unit=3)
    with pytest.raises(BudgetExceededError):
        run(tmp_path / "tight", rounds=1, own=tight, scorer=scorer, stddev=8.0 * unit)
    assert not tight.ledger.entries()


def test_a_plan_that_the_cap_refuses_for_users_charges_no_round(tmp_path: Path) -> None:
    """The cap has room for both rounds at one record per user, and for one round at three."""
    one_round = epsilon([DiscreteGaussian(stddev=8.0, sensitivity=3)], delta=1e-6)
    tight = session(tmp_path, cap=1.05 * one_round, records_per_unit=3)
    with pytest.raises(BudgetExceededError):
        run(tmp_path, rounds=2, own=tight, stddev=8.0)
    assert not tight.ledger.entries()


def test_votes_pull_the_candidates_to_the_private_records(tmp_path: Path) -> None:
    """All records are equal, so all votes go to the candidate that is nearest to them.

    In 269 runs, the first text of the final set, which has most votes, was at most 1 from the
    target. The 400 votes are 10 standard deviations of the noise. In 20 runs with records
    spread over all distances, the first text was 14 to 188 from the target.
    """
    found = run(tmp_path, rounds=20, stddev=40.0)
    assert min(distances(first())) > 45
    assert distances(found.final)[0] < 8


def distances(population: Population) -> list[float]:
    """Return the distance of each text from the target."""
    return [abs(float(text) - TARGET) for text in population.texts]


def test_votes_for_the_nearest_few_pull_them_too(tmp_path: Path) -> None:
    """In 40 runs, the median distance of the final set from the target was 1 to 6. In 10 runs with
    records spread over all distances, the median was 36 to 158.
    """
    found = run(tmp_path, rounds=20, scorer=NearestVotes(votes=5), stddev=40.0 * RESOLUTION)
    assert np.median(distances(found.final)) < 15


def test_scores_pull_them_too_and_are_charged_in_their_own_unit(tmp_path: Path) -> None:
    """In 229 runs, the median distance of the final set from the target was 3.6 +- 0.9, and at most
    6. In 25 runs with records spread over all distances, the median was 35 to 81.
    """
    fields: dict[str, Any] = {
        "rounds": 12,
        "scorer": KernelScorer(width=0.01),
        "selector": ByHerding(width=0.01),
        "stddev": 10.0 * RESOLUTION,
        "encode": on_a_circle,
    }
    found, again = run(tmp_path, **fields), run(tmp_path, **fields)
    assert min(distances(first())) > 45
    assert np.median(distances(found.final)) < 15
    assert found.final.texts == again.final.texts
    paid = DiscreteGaussian(stddev=10.0 * RESOLUTION, sensitivity=RESOLUTION)
    assert [entry.event for entry in session(tmp_path).ledger.entries()] == [paid] * 12


@pytest.mark.parametrize("rounds", [1, None])
def test_scores_that_the_cap_does_not_allow_are_refused_before_anything_is_written(
    tmp_path: Path, rounds: int | None
) -> None:
    own, generator = session(tmp_path, cap=1.0), Drifting()
    with pytest.raises(BudgetExceededError):
        run(
            tmp_path,
            own=own,
            rounds=rounds,
            scorer=KernelScorer(),
            selector=ByHerding(),
            stddev=2.0 * RESOLUTION,
            generator=generator,
        )
    assert not own.ledger.entries()
    assert not generator.asked


def test_a_text_is_scored_once_and_restored_without_a_charge(tmp_path: Path) -> None:
    """All records score copies of a text alike, so a copy would only get more noise."""
    start = replace(first(6), texts=("1.0", "2.0", "1.0", "3.0", "2.0", "2.0"))
    fields: dict[str, Any] = {
        "rounds": None,
        "start": start,
        "scorer": KernelScorer(),
        "stddev": 10.0 * RESOLUTION,
        "encode": on_a_circle,
    }
    found, again = run(tmp_path, **fields), run(tmp_path, **fields)
    assert charges(tmp_path) == 1
    assert found.rounds == () and found.scored is not None and again.scored is not None
    assert found.scored.population.texts == found.final.texts == ("1.0", "2.0", "3.0")
    assert found.scored.scores.value.shape == (3,)
    assert (found.scored.unit, found.scored.stddev) == (RESOLUTION, 10.0 * RESOLUTION)
    assert found.scored.scores.value.tolist() == again.scored.scores.value.tolist()
    assert len(found.ledger_ids) == 2 and found.ledger_ids == again.ledger_ids


def test_a_text_under_two_labels_is_two_candidates() -> None:
    twice = first(2, labels=[0, 1])
    same = replace(twice, texts=("1.0", "1.0"))
    assert len(same.distinct()) == 2
    assert replace(same, labels=np.zeros(2, dtype=np.int64)).distinct().ids.tolist() == [0]


def test_a_round_is_charged_once_and_the_number_of_survivors_is_constant(tmp_path: Path) -> None:
    found = run(tmp_path, rounds=3, variations=4)
    assert charges(tmp_path) == 3
    assert [len(r.population) for r in found.rounds] == [48, 48, 48]
    assert len(found.final) == 12
    assert len(found.ledger_ids) == 4


def test_round_one_may_score_the_first_texts(tmp_path: Path) -> None:
    """12 first texts are scored. 3 survive, and the next round has their 9 variations too."""
    generator = Drifting()
    fields: dict[str, Any] = {
        "rounds": 3, "scorer": KernelScorer(), "selector": ByHerding(), "encode": on_a_circle,
        "stddev": 10.0 * RESOLUTION, "scores_first": True,
    }  # fmt: skip
    found = run(tmp_path, generator=generator, **fields)
    assert generator.batches == ["round 2", "round 3"]
    assert generator.asked == 18
    assert found.rounds[0].population.texts == first().texts
    assert [len(each.survivors) for each in found.rounds] == [3, 3, 3]
    for before, after in pairwise(found.rounds):
        survivors = before.population.take(before.survivors)
        assert after.population.texts[:3] == survivors.texts
        scores = before.scores.value[before.survivors], after.scores.value[:3]
        assert scores[0].tolist() != scores[1].tolist()  # a survivor is scored again, with noise
    assert charges(tmp_path) == 3
    assert len(found.ledger_ids) == 4


def test_rounds_that_score_the_first_texts_score_each_text_once(tmp_path: Path) -> None:
    class Echo(Drifting):
        def _answer(self, request: Request) -> Answer:
            super()._answer(request)
            return Answer(text=str(float(self.asked % 2)))

    start = replace(first(12), texts=("1.0", *first(12).texts[:11]))
    found = run(
        tmp_path, rounds=2, start=start, scorer=KernelScorer(), selector=ByHerding(),
        encode=on_a_circle, stddev=10.0 * RESOLUTION, scores_first=True, generator=Echo(),
    )  # fmt: skip
    for each in found.rounds:
        assert len(set(each.population.texts)) == len(each.population)
        assert each.scores.value.shape == (len(each.population),)
    assert len(found.rounds[0].population) == 11


def test_every_batch_is_named_for_the_journal_of_paid_calls(tmp_path: Path) -> None:
    generator = Drifting()
    run(tmp_path, generator=generator, rounds=2)
    assert generator.batches == ["round 1", "round 2"]


def test_finished_rounds_are_restored_without_a_call_or_a_charge(tmp_path: Path) -> None:
    before = run(tmp_path, rounds=3)
    generator = Drifting()
    after = run(tmp_path, rounds=3, generator=generator)
    assert generator.asked == 0
    assert charges(tmp_path) == 3
    assert after.final.texts == before.final.texts
    assert after.ledger_ids == before.ledger_ids


def test_a_forced_run_draws_and_charges_again(tmp_path: Path) -> None:
    before = run(tmp_path, rounds=2)
    after = run(tmp_path, rounds=2, forced=True)
    assert charges(tmp_path) == 4
    assert any(
        (a.scores.value != b.scores.value).any()
        for a, b in zip(before.rounds, after.rounds, strict=True)
    )


@pytest.mark.parametrize("scores_first", [False, True])
@pytest.mark.parametrize("dies_in_round", [1, 2, 3])
def test_a_crashed_run_continues_after_its_last_finished_round(
    tmp_path: Path, dies_in_round: int, scores_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is killed after the charge and before the votes are on disk.

    This round is charged again, because its result cannot be distinguished from a deleted one.
    Finished rounds are not charged again.
    """
    real, drawn = NearestVotes.total, []

    def die(*args: Any, **kwargs: Any) -> Any:
        votes = real(*args, **kwargs)
        drawn.append(1)
        if len(drawn) == dies_in_round:
            raise KeyboardInterrupt
        return votes

    monkeypatch.setattr(NearestVotes, "total", die)
    generators = [Drifting(), Drifting()]
    fields: dict[str, Any] = {"rounds": 3, "scores_first": scores_first}
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, generator=generators[0], **fields)
    monkeypatch.undo()
    assert charges(tmp_path) == dies_in_round
    found = run(tmp_path, generator=generators[1], **fields)
    assert charges(tmp_path) == 4
    assert generators[0].asked + generators[1].asked == (18 if scores_first else 108)
    # The ids are those of the metadata and of three votes. The id of the lost vote is missing.
    assert len(found.ledger_ids) == 4


def test_a_vote_beyond_the_cap_is_refused_before_any_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("drawn")

    monkeypatch.setattr("sugarbush.privacy.mechanisms.discrete_gaussian", never)
    with pytest.raises(BudgetExceededError):
        run(tmp_path, rounds=2, own=session(tmp_path, cap=0.1))
    assert charges(tmp_path) == 0


def test_a_run_that_the_cap_cannot_carry_to_its_end_pays_for_nothing(tmp_path: Path) -> None:
    """The cap allows only one of eight votes, so no vote is drawn and no text is requested."""
    generator = Drifting()
    room = session(tmp_path).ledger.total(DiscreteGaussian(stddev=8.0)) * 1.01
    with pytest.raises(BudgetExceededError):
        run(tmp_path, rounds=8, own=session(tmp_path, cap=room), generator=generator)
    assert charges(tmp_path) == 0
    assert generator.asked == 0


def test_rounds_that_score_the_first_texts_are_all_checked_against_the_cap(tmp_path: Path) -> None:
    """The cap allows one of two votes."""
    room = session(tmp_path).ledger.total(DiscreteGaussian(stddev=8.0)) * 1.01
    with pytest.raises(BudgetExceededError):
        run(tmp_path, rounds=2, own=session(tmp_path, cap=room), scores_first=True)
    assert charges(tmp_path) == 0


def test_each_label_keeps_its_first_number_of_candidates(tmp_path: Path) -> None:
    start = first(12, labels=[0] * 9 + [1] * 3)
    found = run(tmp_path, rounds=2, start=start, scorer=NearestVotes(by_label=True))
    assert np.bincount(found.final.labels).tolist() == [9, 3]


def test_requests_after_a_vote_name_its_ledger_entries(tmp_path: Path) -> None:
    generator = Drifting()
    run(tmp_path, rounds=2, generator=generator)
    assert {len(ids) for ids in generator.paid} == {1, 2}


def test_unusable_answers_are_dropped_and_never_replaced_by_the_parent(tmp_path: Path) -> None:
    found = run(tmp_path, rounds=1, generator=Drifting(fail_every=6))
    population = found.rounds[0].population
    assert len(population) == 12 + 30
    assert found.rounds[0].usage.problems == {"refusal": 6}


def test_too_many_unusable_answers_stop_the_run_before_the_vote(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match=r"36 texts requested, 18 usable \(refusal: 18\)"):
        run(tmp_path, rounds=1, generator=Drifting(fail_every=2))
    assert charges(tmp_path) == 0


def test_what_to_do_about_missing_answers_depends_on_why_they_are_missing(tmp_path: Path) -> None:
    advices = {Problem.REFUSAL: "model, max_tokens or seed", Problem.FAILED: "run again"}
    for problem, advice in advices.items():
        with pytest.raises(GeneratorError, match=advice):
            run(tmp_path, rounds=1, generator=Drifting(fail_every=2, problem=problem))


def test_without_rounds_nothing_is_charged(tmp_path: Path) -> None:
    found = run(tmp_path, rounds=0)
    assert found.final.texts == first().texts
    assert charges(tmp_path) == 0


@pytest.mark.parametrize("votes", [1, 2, 3, 9])
@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("label", [0, 1, 5])
def test_one_record_moves_the_votes_of_all_labels_together_by_at_most_one(
    tmp_path: Path, votes: int, by_label: bool, label: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record changes the votes of all labels together by one.

    This includes records without a candidate of their label, and duplicates among the candidates.
    """
    monkeypatch.setattr(
        "sugarbush.privacy.mechanisms.discrete_gaussian", lambda counts, **_: counts
    )
    labels = np.array([0, 1, 1, 0])
    candidates = Candidates(encode(["1", "1", "5", "9"]), labels[:, None], labels)
    scorer = NearestVotes(votes=votes, by_label=by_label)

    def counted(records: list[str], of: list[int]) -> NDArray[np.int64]:
        private = Private[Records](records_at(encode(records).reshape(-1, 2), of))
        return scorer.total(
            private, candidates, stddev=8.0 * scorer.unit, session=session(tmp_path)
        ).value

    difference = counted(["1", "8", "3"], [0, 1, label]) - counted(["1", "8"], [0, 1])
    assert (difference >= 0).all()
    norm = np.linalg.norm(difference) / scorer.unit
    assert norm == 1 if votes == 1 else 0.4 < norm <= 1


def test_the_last_round_alone_has_sums_by_class_at_the_price_of_a_round(tmp_path: Path) -> None:
    lineage = run(
        tmp_path,
        rounds=3,
        scorer=ScoresAndClassSums(class_share=0.2, classes=((0, 2),)),
        records=records_at(on_a_circle(["60"] * 400)),
        stddev=8.0 * RESOLUTION,
        encode=on_a_circle,
    )
    assert [each.class_sums is not None for each in lineage.rounds] == [False, False, True]
    assert [each.unit < RESOLUTION for each in lineage.rounds] == [False, False, True]
    ledger = Ledger(tmp_path, dataset="d", purpose="release", unit=Unit.RECORD, cap=100, delta=1e-6)
    event = DiscreteGaussian(stddev=8.0 * RESOLUTION, sensitivity=RESOLUTION)
    assert [entry.event for entry in ledger.entries()] == [event] * 3
