"""Private Evolution: vary, vote, select, for a number of rounds that is fixed beforehand.

Source: Xie et al. 2024, "Differentially Private Synthetic Data via Foundation Model APIs 2: Text",
Algorithm 1. A round takes the survivors and their variations, lets every record vote for the
candidate nearest to it (or score them all), adds noise and keeps the best; nothing else of a round
looks at private data. Rounds that are finished are restored from `Draws` and neither drawn nor
charged again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.errors import GeneratorError
from sugarbush.evolution.contrast import Contrast, contrasts
from sugarbush.evolution.density import select_by_density
from sugarbush.evolution.herding import herd
from sugarbush.evolution.kernel_scores import RESOLUTION, scores_of
from sugarbush.evolution.population import Population, load_population, save_population
from sugarbush.evolution.selection import (
    select_by_rank,
    select_by_sampling,
    select_within_label,
    threshold,
)
from sugarbush.evolution.settings import EvolutionSettings, FinalSet, Selection
from sugarbush.evolution.variation import variation_requests, with_variations
from sugarbush.evolution.voting import nearest, nearest_within_label
from sugarbush.generators.interface import Answer, Generator, Problem, Request, Usage, usage_of
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import DiscreteGaussian, Event, NonPrivate
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import exact_histogram, exact_sum, noisy_histogram, noisy_sum
from sugarbush.privacy.results import ResultStore
from sugarbush.randomness import Rng, public_rng

# Raise it when a change makes equal settings and inputs give other results: finished rounds of an
# older version are then drawn, and charged, anew.
METHOD_VERSION = 1

Encode = Callable[[tuple[str, ...]], NDArray[np.float32]]


@dataclass(frozen=True)
class PrivateEmbeddings:
    """One record a row: `embeddings` (n, dim) float32 of unit length, `labels` (n,) int64."""

    embeddings: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class VotingSession:
    """What every vote of a run needs: the mechanism's settings and where they are charged.

    `stddev` is in votes, or in units of scores; None counts without noise, which has no guarantee
    and is charged as such. Each of a unit's records votes, of which it has at most
    `records_per_unit`.
    """

    voters: Private[PrivateEmbeddings]
    stddev: float | None
    ledger: Ledger
    stage: str
    dataset_fingerprint: tuple[str, ...]
    records_per_unit: int = 1


@dataclass(frozen=True, kw_only=True)
class Round:
    """A finished round: noisy `votes` (n,) for `population`, and the `survivors`' places in it.

    Where records score, `votes` are sums of scores, in units of 1/RESOLUTION.
    """

    number: int
    population: Population
    votes: Released[NDArray[np.int64]]
    survivors: NDArray[np.int64]
    usage: Usage


@dataclass(frozen=True, kw_only=True)
class Evolution:
    """All rounds, and the final set: the texts chosen last with `expansion` - 1 variations each."""

    rounds: tuple[Round, ...]
    final: Population
    usage: Usage
    ledger_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Who writes candidates, and how many unusable answers are borne."""

    generator: Generator
    max_dropped_share: float

    def write(self, requests: Released[tuple[Request, ...]], *, what: str) -> tuple[Answer, ...]:
        """The answers in order. Raises GeneratorError when too many cannot be used."""
        if not requests.value:
            return ()
        answers = self.generator.generate(requests, what=what).value
        dropped = sum(answer.text is None for answer in answers)
        if len(answers) != len(requests.value) or dropped > self.max_dropped_share * len(answers):
            kinds = ", ".join(f"{k}: {n}" for k, n in usage_of(answers).problems.items())
            raise GeneratorError(
                f"{what}: {len(requests.value)} texts asked for, {len(answers) - dropped} usable"
                f"{' (' + kinds + ')' if kinds else ''}; more than "
                f"generator.max_dropped_share={self.max_dropped_share:g} is missing. "
                + _advice(answers)
            )
        return answers


def _advice(answers: tuple[Answer, ...]) -> str:
    """What to do about missing answers: calls that failed are made again, bad answers are kept."""
    if all(a.problem is Problem.FAILED for a in answers if a.text is None):
        return "Nothing that was received is lost; run again to go on."
    return (
        "Answers are kept, so that the same settings bring the same ones: change the generator's "
        "model, max_tokens or seed, or raise max_dropped_share. Nothing that is good is lost."
    )


def evolve(
    first: Population,
    *,
    ledger_ids: tuple[str, ...],
    params: EvolutionSettings,
    schema: Schema,
    writer: Writer,
    encode: Encode,
    voting: VotingSession | None,
    draws: ResultStore,
    seed: int,
    say: Callable[[str], None],
) -> Evolution:
    """The final set after `params.rounds` rounds from the candidates `first`.

    Guarantee: each round is one `noisy_histogram` of `ballot.stddev` (L2 sensitivity 1 a record),
    with `selection` herded one `noisy_sum` (RESOLUTION a record), or without a stddev the same
    without noise, which has none; all else is post-processing of it, of `first` (paid for by
    `ledger_ids`) and of public seeds.
    `ballot` may be None only when there are no rounds.
    Raises BudgetExceededError before a vote that the cap does not allow, GeneratorError when the
    generator returns too little.
    """
    if voting is not None:
        _refuse_early(voting, params, draws)
    labels, counts = np.unique(first.labels, return_counts=True)
    quota = {int(label): int(n) for label, n in zip(labels, counts, strict=True)}
    survivors, rounds, next_id, ids = first, [], len(first), ledger_ids
    contrast: Mapping[int, Contrast] = {}
    for number in range(1, params.rounds + 1):
        assert voting is not None
        population, usage = _varied(
            survivors,
            f"population-{number:03d}",
            ids=ids,
            params=params,
            schema=schema,
            writer=writer,
            draws=draws,
            number=number,
            next_id=next_id,
            seed=seed,
            contrast=contrast,
        )
        next_id = int(population.ids.max()) + 1
        votes = _voted(population, number, params=params, encode=encode, voting=voting, draws=draws)
        ids = tuple(dict.fromkeys((*ids, *votes.ledger_ids)))
        places = _selected(
            votes.value,
            population,
            quota,
            params=params,
            encode=encode,
            stddev=voting.stddev or 0.0,
            rng=public_rng(seed, "select", number),
        )
        survivors = population.take(places)
        contrast = contrasts(population, votes.value, count=params.contrast)
        rounds.append(
            Round(number=number, population=population, votes=votes, survivors=places, usage=usage)
        )
        say(
            f"round {number} of {params.rounds}: {len(population)} candidates, "
            f"{len(places)} survive"
        )
    chosen = _final_set(survivors, rounds, params=params, encode=encode, seed=seed)
    final, usage = _expanded(
        chosen,
        ids=ids,
        params=params,
        schema=schema,
        writer=writer,
        draws=draws,
        next_id=next_id,
        seed=seed,
        contrast=contrast,
    )
    return Evolution(rounds=tuple(rounds), final=final, usage=usage, ledger_ids=ids)


def _refuse_early(voting: VotingSession, params: EvolutionSettings, draws: ResultStore) -> None:
    """Refuse a run that could not be finished before it pays for anything."""
    numbers = range(1, params.rounds + 1)
    missing = sum(draws.finished(f"votes-{number:03d}") is None for number in numbers)
    if missing:
        event: Event = NonPrivate()
        if voting.stddev is not None:
            norm = RESOLUTION if params.selection is Selection.KERNEL_HERDING else 1
            event = DiscreteGaussian(
                stddev=voting.stddev, sensitivity=norm * voting.records_per_unit, count=missing
            )
        voting.ledger.check([event], dataset_fingerprint=voting.dataset_fingerprint)


def _varied(
    survivors: Population,
    name: str,
    *,
    ids: tuple[str, ...],
    params: EvolutionSettings,
    schema: Schema,
    writer: Writer,
    draws: ResultStore,
    number: int,
    next_id: int,
    seed: int,
    contrast: Mapping[int, Contrast],
) -> tuple[Population, Usage]:
    """The survivors with their variations, restored where they were written before."""
    done = draws.finished(name)
    if done is not None:
        return load_population(done / "candidates.parquet", schema.names), _load_usage(done)
    requests = variation_requests(
        survivors, schema=schema, params=params, round_=number, seed=seed, contrast=contrast
    )
    what = f"round {number}" if number <= params.rounds else "final set"
    answers = writer.write(Released(requests, ids), what=what)
    population = with_variations(survivors, answers, params=params, round_=number, next_id=next_id)
    if params.distinct:
        population = population.distinct()
    with draws.writing(name) as folder:
        save_population(population, schema.names, folder / "candidates.parquet")
        usage = usage_of(answers)
        (folder / "usage.json").write_text(json.dumps(asdict(usage)))
    return population, usage


def _voted(
    population: Population,
    number: int,
    *,
    params: EvolutionSettings,
    encode: Encode,
    voting: VotingSession,
    draws: ResultStore,
) -> Released[NDArray[np.int64]]:
    """The noisy votes of a round, restored, or charged and drawn and on disk before they return."""
    name = f"votes-{number:03d}"
    done = draws.finished(name)
    if done is not None:
        ids = tuple(json.loads((done / "ledger_ids.json").read_text()))
        return Released(np.load(done / "votes.npy"), ids)
    embeddings = encode(population.texts)
    if params.selection is Selection.KERNEL_HERDING:
        votes = sum_scores(voting, embeddings, width=params.score_width, run=draws.run)
    else:
        votes = count_votes(
            voting, embeddings, population.labels, by_label=params.by_label, run=draws.run
        )
    with draws.writing(name) as folder:
        np.save(folder / "votes.npy", votes.value)
        (folder / "ledger_ids.json").write_text(json.dumps(votes.ledger_ids))
    return votes


def count_votes(
    voting: VotingSession,
    embeddings: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    by_label: bool,
    run: str,
) -> Released[NDArray[np.int64]]:
    """Noisy number of records nearest to each candidate, `(m,)` int64.

    With `by_label` a record votes among the candidates of its own label. Either way a record
    holds one bin, which depends on it alone, so the guarantee is `noisy_histogram`'s, over all
    labels together.
    """

    def bins(voters: PrivateEmbeddings) -> NDArray[np.int64]:
        if not by_label:
            return nearest(voters.embeddings, embeddings)[:, 0]
        return nearest_within_label(
            voters.embeddings, embeddings, query_labels=voters.labels, candidate_labels=labels
        )

    chosen: Private[int] = voting.voters.map_batch(bins)
    if voting.stddev is None:
        return exact_histogram(
            chosen, size=len(embeddings), ledger=voting.ledger, stage=voting.stage, run=run
        )
    return noisy_histogram(
        chosen,
        size=len(embeddings),
        stddev=voting.stddev,
        ledger=voting.ledger,
        stage=voting.stage,
        run=run,
        dataset_fingerprint=voting.dataset_fingerprint,
        records_per_unit=voting.records_per_unit,
    )


def sum_scores(
    voting: VotingSession, embeddings: NDArray[np.float32], *, width: float, run: str
) -> Released[NDArray[np.int64]]:
    """Noisy sums of the records' scores of each candidate, `(m,)` int64, in units of 1/RESOLUTION.

    A record's scores depend on it alone and have at most that norm, so the guarantee is
    `noisy_sum`'s.
    """
    vectors: Private[Any] = voting.voters.map_batch(lambda voters: voters.embeddings)

    def scores(block: NDArray[np.float32]) -> NDArray[np.int64]:
        return scores_of(block, embeddings, width=width)

    if voting.stddev is None:
        return exact_sum(
            vectors,
            scores=scores,
            size=len(embeddings),
            norm=RESOLUTION,
            ledger=voting.ledger,
            stage=voting.stage,
            run=run,
        )
    return noisy_sum(
        vectors,
        scores=scores,
        size=len(embeddings),
        norm=RESOLUTION,
        stddev=voting.stddev,
        ledger=voting.ledger,
        stage=voting.stage,
        run=run,
        dataset_fingerprint=voting.dataset_fingerprint,
        records_per_unit=voting.records_per_unit,
    )


def _selected(
    votes: NDArray[np.int64],
    population: Population,
    quota: dict[int, int],
    *,
    params: EvolutionSettings,
    encode: Encode,
    stddev: float,
    rng: Rng,
) -> NDArray[np.int64]:
    """The places of the survivors: each label keeps the number it started with."""
    if params.selection is Selection.KERNEL_HERDING:
        count = min(sum(quota.values()), len(population))
        return herd(votes, encode(population.texts), width=params.score_width, count=count)
    kept = threshold(votes, stddev=stddev, multiple=params.threshold)
    select = select_by_rank if params.selection is Selection.RANK else select_by_sampling
    return select_within_label(kept, population.labels, counts=quota, select=select, rng=rng)


def _final_set(
    survivors: Population,
    rounds: Sequence[Round],
    *,
    params: EvolutionSettings,
    encode: Encode,
    seed: int,
) -> Population:
    """As many of the last candidates as survive, label by label, chosen as `params.final` says."""
    if params.final is FinalSet.SURVIVORS or not rounds:
        return survivors
    population, votes = rounds[-1].population, rounds[-1].votes.value
    embeddings, rng = encode(population.texts), public_rng(seed, "final")
    chosen = []
    for label, count in zip(*np.unique(survivors.labels, return_counts=True), strict=True):
        own = np.flatnonzero(population.labels == label)
        chosen.append(
            own[select_by_density(votes[own], embeddings[own], count=int(count), rng=rng)]
        )
    return population.take(np.concatenate(chosen))


def _expanded(
    survivors: Population,
    *,
    ids: tuple[str, ...],
    params: EvolutionSettings,
    schema: Schema,
    writer: Writer,
    draws: ResultStore,
    next_id: int,
    seed: int,
    contrast: Mapping[int, Contrast],
) -> tuple[Population, Usage]:
    """The final set. Variations that nobody voted on make it larger, not nearer."""
    last = params.model_copy(update={"variations": params.expansion})
    return _varied(
        survivors,
        "final",
        ids=ids,
        params=last,
        schema=schema,
        writer=writer,
        draws=draws,
        number=params.rounds + 1,
        next_id=next_id,
        seed=seed,
        contrast=contrast,
    )


def _load_usage(folder: Path) -> Usage:
    return Usage(**json.loads((folder / "usage.json").read_text()))
