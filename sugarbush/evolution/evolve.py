"""Private Evolution: rounds of variation, votes and selection. Settings fix the number of rounds.

The candidates of a round are the earlier survivors and their variations. Every record votes for its
nearest candidate, or scores all candidates. Only the votes depend on private data. The round adds
noise to the votes and selects survivors. A finished round is restored from the `ResultStore`
without a new charge or draw. Source: Xie et al. 2024, "Differentially Private Synthetic Data via
Foundation Model APIs 2: Text", Algorithm 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.errors import GeneratorError
from sugarbush.evolution.herding import herd
from sugarbush.evolution.population import Population, load_population, save_population
from sugarbush.evolution.selection import select_within_label, threshold
from sugarbush.evolution.settings import EvolutionSettings, Selection
from sugarbush.evolution.variation import variation_requests, with_variations
from sugarbush.evolution.voting import VotingSession
from sugarbush.generators.interface import Answer, Generator, Problem, Request, Usage, usage_of
from sugarbush.privacy.data_types import Released, merge_ids
from sugarbush.privacy.results import ResultStore
from sugarbush.randomness import public_rng

Encode = Callable[[tuple[str, ...]], NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Round:
    """A finished round: the noisy `votes` (n,) of its candidates, and the indices of the survivors.

    With kernel herding, `votes` contains noisy sums of kernel scores in units of 1/RESOLUTION.
    """

    number: int
    population: Population
    votes: Released[NDArray[np.int64]]
    survivors: NDArray[np.int64]
    usage: Usage


@dataclass(frozen=True, kw_only=True)
class Evolution:
    """All rounds, and the final set. `usage` is the cost of the further texts."""

    rounds: tuple[Round, ...]
    final: Population
    usage: Usage
    ledger_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Writer:
    """The generator, and the largest fraction of unusable answers that is tolerated."""

    generator: Generator
    max_dropped_share: float

    def write(self, requests: Released[tuple[Request, ...]], *, what: str) -> tuple[Answer, ...]:
        """Return the answers in order. Raises GeneratorError as in `require_usable`."""
        if not requests.value:
            return ()
        answers = self.generator.generate(requests, what=what).value
        self.require_usable(answers, requested=len(requests.value), what=what)
        return answers

    def require_usable(self, answers: Sequence[Answer], *, requested: int, what: str) -> None:
        """Raise GeneratorError if too many answers are missing or unusable.

        One unusable answer among several is always tolerated, unless `max_dropped_share` is 0.
        """
        dropped = sum(answer.text is None for answer in answers)
        one = min(1, len(answers) - 1) if self.max_dropped_share else 0
        if len(answers) != requested or dropped > max(one, self.max_dropped_share * len(answers)):
            kinds = ", ".join(f"{k}: {n}" for k, n in usage_of(answers).problems.items())
            raise GeneratorError(
                f"{what}: {requested} texts requested, {len(answers) - dropped} usable"
                f"{' (' + kinds + ')' if kinds else ''}. The missing fraction is above "
                f"generator.max_dropped_share={self.max_dropped_share:g}. " + _advice(answers)
            )


def _advice(answers: Sequence[Answer]) -> str:
    """Return advice. A new run repeats failed calls only, because unusable answers are cached."""
    if all(a.problem is Problem.FAILED for a in answers if a.text is None):
        return "To continue, run again. Received answers are cached."
    return (
        "Answers are cached, so the same settings return the same answers. Change the generator's "
        "model, max_tokens or seed, or raise max_dropped_share."
    )


def evolve(
    first: Released[Population],
    *,
    params: EvolutionSettings,
    schema: Schema,
    writer: Writer,
    encode: Encode,
    voting: VotingSession | None,
    store: ResultStore,
    seed: int,
    say: Callable[[str], None],
    survivors: int | None = None,
) -> Evolution:
    """Run `params.rounds` rounds from the candidates `first`, and return the final set.

    Each round selects `survivors` candidates. With `survivors=None`, the number of candidates of
    each label stays the same.

    Guarantee: each round is one `noisy_histogram` with stddev `voting.stddev` and L2 sensitivity 1
    per record. With kernel herding, each round is one `noisy_sum` with L2 sensitivity RESOLUTION
    per record. If the stddev is None, there is no noise and no guarantee. All other steps are
    post-processing of the rounds, of `first` (already charged) and of public seeds. `voting` may be
    None only if there are no rounds. The session of `voting` must belong to the run of `store`.
    Raises BudgetExceededError if the cap does not allow all rounds. Raises GeneratorError if the
    generator returns too few texts.
    """
    if voting is not None:
        _refuse_early(voting, params, store)
    labels, counts = np.unique(first.value.labels, return_counts=True)
    quota = {int(label): int(n) for label, n in zip(labels, counts, strict=True)}
    if survivors is not None:
        quota = {0: survivors}
    run = _RoundSteps(
        params=params, schema=schema, writer=writer, encode=encode, store=store, seed=seed
    )
    parents, next_id, rounds = first, len(first.value), list[Round]()
    for number in range(1, params.rounds + 1):
        assert voting is not None
        population, usage = run.varied(parents, number, next_id)
        votes = run.votes(population, number, voting)
        places = run.survivors(population, votes.value, number, quota, voting.stddev or 0.0)
        parents = Released(population.take(places), merge_ids(parents, votes))
        next_id = int(population.ids.max()) + 1
        rounds.append(
            Round(number=number, population=population, votes=votes, survivors=places, usage=usage)
        )
        say(
            f"round {number} of {params.rounds}: {len(population)} candidates, "
            f"{len(places)} survive"
        )
    return Evolution(
        rounds=tuple(rounds), final=parents.value, usage=Usage(), ledger_ids=parents.ledger_ids
    )


def _refuse_early(voting: VotingSession, params: EvolutionSettings, store: ResultStore) -> None:
    """Raise BudgetExceededError before the first charge if the cap does not allow all rounds."""
    numbers = range(1, params.rounds + 1)
    missing = sum(store.finished(f"votes-{number:03d}") is None for number in numbers)
    if missing:
        voting.session.check([voting.cost(params, rounds=missing)])


@dataclass(frozen=True, kw_only=True)
class _RoundSteps:
    params: EvolutionSettings
    schema: Schema
    writer: Writer
    encode: Encode
    store: ResultStore
    seed: int

    def varied(
        self, parents: Released[Population], number: int, next_id: int
    ) -> tuple[Population, Usage]:
        """Return the parents and their variations. A finished result is restored."""
        name = f"population-{number:03d}"
        done = self.store.finished(name)
        if done is not None:
            population = load_population(done / "candidates.parquet", self.schema.names)
            return population, Usage(**json.loads((done / "usage.json").read_text()))
        requests = variation_requests(
            parents.value, schema=self.schema, params=self.params, round_=number, seed=self.seed
        )
        answers = self.writer.write(Released(requests, parents.ledger_ids), what=f"round {number}")
        population = with_variations(
            parents.value, answers, params=self.params, round_=number, next_id=next_id
        )
        if self.params.distinct:
            population = population.distinct()
        usage = usage_of(answers)
        with self.store.writing(name) as folder:
            save_population(population, self.schema.names, folder / "candidates.parquet")
            (folder / "usage.json").write_text(json.dumps(asdict(usage)))
        return population, usage

    def votes(
        self, population: Population, number: int, voting: VotingSession
    ) -> Released[NDArray[np.int64]]:
        """Return the noisy votes of a round. Finished votes are restored without a charge."""
        name = f"votes-{number:03d}"
        done = self.store.finished(name)
        if done is not None:
            ids = tuple(json.loads((done / "ledger_ids.json").read_text()))
            return Released(np.load(done / "votes.npy"), ids)
        votes = voting.ask(population, self.encode(population.texts), self.params)
        with self.store.writing(name) as folder:
            np.save(folder / "votes.npy", votes.value)
            (folder / "ledger_ids.json").write_text(json.dumps(votes.ledger_ids))
        return votes

    def survivors(
        self,
        population: Population,
        votes: NDArray[np.int64],
        number: int,
        quota: dict[int, int],
        stddev: float,
    ) -> NDArray[np.int64]:
        """Return the indices of the survivors. `quota` maps a label to its number of survivors."""
        params = self.params
        if params.selection is Selection.KERNEL_HERDING:
            count = min(sum(quota.values()), len(population))
            embeddings = self.encode(population.texts)
            return herd(votes, embeddings, width=params.score_width, count=count)
        return select_within_label(
            threshold(votes, stddev=stddev, multiple=params.threshold),
            population.labels,
            counts=quota,
            rng=public_rng(self.seed, "select", number),
        )
