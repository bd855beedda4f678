"""Runs the parts of a method: rounds of variation, scores and selection, or scores once.

The candidates of a round are the earlier survivors and their variations. Only the scores depend on
private data. A finished round is restored from the `ResultStore` without a new charge or draw.
Source: Xie et al. 2024, "Differentially Private Synthetic Data via Foundation Model APIs 2: Text",
Algorithm 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.evolution.parts import (
    Candidates,
    Encode,
    Lineage,
    Records,
    Round,
    Scored,
    Scorer,
    Selector,
    Varier,
)
from sugarbush.evolution.population import Population, load_population, save_population
from sugarbush.evolution.variation import with_variations
from sugarbush.evolution.writer import Writer
from sugarbush.generators.interface import Usage, usage_of
from sugarbush.privacy.data_types import Private, Released, merge_ids
from sugarbush.privacy.results import ResultStore
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import public_rng


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The scorer of a run, with the records, the noise and the privacy session.

    `stddev` is in the unit of the scores. With `stddev=None`, there is no noise and no guarantee,
    and the charge is a NonPrivate event. Finished sums are restored from `store`, which must belong
    to the run of `session`.
    """

    scorer: Scorer
    records: Private[Records]
    stddev: float | None
    session: PrivacySession
    store: ResultStore
    encode: Encode

    def check(self, names: list[str]) -> None:
        """Raise BudgetExceededError before the first charge if the cap does not allow all sums."""
        draws = sum(self.store.finished(name) is None for name in names)
        if draws:
            event = self.scorer.event(
                stddev=self.stddev, draws=draws, records_per_unit=self.session.records_per_unit
            )
            self.session.check([event])

    def scored(self, population: Population, name: str) -> Scored:
        """Return the candidates with their noisy scores. A finished sum is restored."""
        candidates = Candidates.of(population, self.encode)

        def draw() -> Released[NDArray[np.int64]]:
            return self.scorer.total(
                self.records, candidates, stddev=self.stddev, session=self.session
            )

        total = self.store.array(name, draw)
        return Scored(
            population=population,
            scores=total.map(lambda sums: sums[: len(candidates)]),
            unit=self.scorer.score_unit,
            stddev=self.stddev,
            name=self.scorer.name,
            class_sums=self.scorer.class_sums(total, candidates, stddev=self.stddev),
        )


def score_once(first: Released[Population], *, scoring: Scoring) -> Lineage:
    """Score the different texts of `first` once. No candidate is varied or selected.

    Guarantee: one `noisy_sum` with L2 sensitivity `scorer.unit` per record. The rest is
    post-processing of `first`, which is already charged.
    """
    scoring.check(["scores"])
    scored = scoring.scored(first.value.distinct(), "scores")
    return Lineage(
        final=scored.population,
        scored=scored,
        usage=Usage(),
        ledger_ids=merge_ids(first, scored.scores),
    )


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Rounds of variation, scores and selection. Settings fix their number.

    Guarantee: each round is one noisy sum of scores with noise `scoring.stddev` and L2 sensitivity
    `scorer.unit` per record. All other steps are post-processing of the rounds, of the first
    candidates (already charged) and of public seeds.

    With `scores_first`, round 1 scores the different texts of `first` without variations, and a
    later round scores each different text once.
    """

    number: int
    selector: Selector
    varier: Varier
    scoring: Scoring
    schema: Schema
    writer: Writer
    seed: int
    say: Callable[[str], None]
    scores_first: bool = False

    def run(self, first: Released[Population]) -> Lineage:
        """Run all rounds from the candidates `first`, and return the final set.

        Each round selects as many candidates of each label as `first` has. With `scores_first`, the
        selected candidates and their variations together are as many. Raises BudgetExceededError if
        the cap does not allow all rounds. Raises GeneratorError if the generator returns too few
        texts.
        """
        numbers = range(1, self.number + 1)
        self.scoring.check([f"scores-{number:03d}" for number in numbers])
        labels, counts = np.unique(first.value.labels, return_counts=True)
        if self.scores_first:
            counts = np.maximum(counts // (1 + self.varier.copies), 1)
        quota = {int(label): int(n) for label, n in zip(labels, counts, strict=True)}
        parents, next_id, rounds = first, len(first.value), list[Round]()
        for number in numbers:
            if self.scores_first and number == 1:
                population, usage = first.value.distinct(), Usage()
            else:
                population, usage = self._varied(parents, number, next_id)
            # sums by class belong to the last round, whose candidates are nearest to the records
            scorer = self.scoring.scorer if number == self.number else self.scoring.scorer.alone
            scoring = replace(self.scoring, scorer=scorer)
            scored = scoring.scored(population, f"scores-{number:03d}")
            survivors = self.selector.select(
                scored,
                counts=quota,
                encode=self.scoring.encode,
                rng=public_rng(self.seed, "select", number),
            )
            parents = Released(population.take(survivors), merge_ids(parents, scored.scores))
            next_id = int(population.ids.max()) + 1
            rounds.append(Round(**vars(scored), number=number, survivors=survivors, usage=usage))
            self.say(
                f"round {number} of {self.number}: {len(population)} candidates, "
                f"{len(survivors)} survive"
            )
        return Lineage(
            rounds=tuple(rounds),
            final=parents.value,
            usage=Usage(),
            ledger_ids=parents.ledger_ids,
        )

    def _varied(
        self, parents: Released[Population], number: int, next_id: int
    ) -> tuple[Population, Usage]:
        """Return the parents and their variations. A finished result is restored."""
        name, store = f"population-{number:03d}", self.scoring.store
        done = store.finished(name)
        if done is not None:
            population = load_population(done / "candidates.parquet", self.schema.names)
            return population, Usage(**json.loads((done / "usage.json").read_text()))
        requests = self.varier.requests(
            parents.value,
            schema=self.schema,
            encode=self.scoring.encode,
            number=number,
            seed=self.seed,
        )
        asked = Released(requests, parents.ledger_ids)
        answers = self.writer.write(asked, what=f"round {number}").value
        population = with_variations(
            parents.value,
            answers,
            copies=self.varier.copies,
            number=number,
            next_id=next_id,
        )
        if self.scores_first:
            population = population.distinct()
        usage = usage_of(answers)
        with store.writing(name) as folder:
            save_population(population, self.schema.names, folder / "candidates.parquet")
            (folder / "usage.json").write_text(json.dumps(asdict(usage)))
        return population, usage
