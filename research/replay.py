"""MAPLE, AugPE and their variants replayed in memory; with the pool a second a run or less.

Everything that a run does on a prepared public set (`research.benchmark_dataset`) is done by the
own functions: DP table by AIM or DP label counts, first candidates, votes with the noise of the
plan of a run gives them, variation, selection, metrics. Only the ledger and the files are left out.
The noise of votes is a rounded Gaussian of the planned stddev.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.benchmark_dataset import BenchmarkDataset
from sugarbush.evolution.density import select_by_density
from sugarbush.evolution.herding import herd
from sugarbush.evolution.initialisation import (
    Targets,
    first_population,
    first_requests,
    open_targets,
    targets_by_label,
    targets_by_rows,
)
from sugarbush.evolution.kernel_scores import RESOLUTION, summed_scores
from sugarbush.evolution.nearest import nearest, nearest_within_label
from sugarbush.evolution.population import NO_CODE, Population
from sugarbush.evolution.selection import (
    apportion,
    select_by_rank,
    select_by_sampling,
    select_within_label,
)
from sugarbush.evolution.settings import EvolutionSettings, PromptContent
from sugarbush.evolution.variation import variation_requests, with_variations
from sugarbush.generators.examples import choose_examples
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest, make_plan
from sugarbush.privacy.data_types import Private
from sugarbush.randomness import Rng, public_rng, seed_of
from sugarbush.tables.engines import run_engine
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.synthesis import draw_rows

METADATA = "metadata"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A way from first candidates to a final set; the defaults are MAPLE's preset.

    `start`: rows of the DP table (of `attributes`, None: all), DP label counts, or nothing.
    `neighbours` are a record's votes a round; with more than one, as many counts move by one and
    the noise is larger by the root of it. `smoothing` is the bandwidth (a cosine distance) over
    which votes are averaged, 0: not; `pooled` whether former rounds' votes count too. `score_width`
    is the kernel's of scores in place of votes, None: votes. `select` and `final` say how survivors
    and the final set are chosen.
    """

    start: str = "table"
    prompt: PromptContent = PromptContent.BOTH
    attributes: tuple[str, ...] | None = None
    by_label: bool = False
    candidates: int = 400
    rounds: int = 2
    variations: int = 4
    metadata_share: float = 0.1
    distinct: bool = False
    neighbours: int = 1
    score_width: float | None = None
    smoothing: float = 0.0
    pooled: bool = False
    select: str = "rank"
    final: str = "survivors"
    final_texts: int = 100
    candidates_a_cell: int = 16

    @property
    def survivors(self) -> int:
        return self.candidates // self.variations


@dataclass(frozen=True)
class Noisy:
    """A round's candidates (m,) with embeddings (m, d) and the votes (m,) they count by."""

    population: Population
    embeddings: NDArray[np.float32]
    votes: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RoundSnapshot:
    """Where a run stands: its texts after `round` votes, None for the final set.

    `calls` counts up to here; `votes_over_sigma` is the mean of the last votes over their noise.
    """

    round: int | None
    calls: int
    votes_over_sigma: float
    population: Population


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Figures by metric of a run as it stood; `texts` are all that there were."""

    round: int | None
    calls: int
    texts: int
    votes_over_sigma: float
    figures: dict[str, float]


def replay(
    ground: BenchmarkDataset, variant: Variant, *, epsilon: float, seed: int, by_round: bool = False
) -> Iterator[Measured]:
    """One run, measured at its end and, `by_round`, at its start and after every vote.

    `epsilon` infinity leaves all noise out.
    """
    for snapshot in snapshots(ground, variant, epsilon=epsilon, seed=seed):
        if by_round or snapshot.round is None:
            texts = snapshot.population.texts
            yield Measured(
                round=snapshot.round,
                calls=snapshot.calls,
                texts=len(texts),
                votes_over_sigma=snapshot.votes_over_sigma,
                figures=ground.measured(texts, seed=seed),
            )


def snapshots(
    ground: BenchmarkDataset, variant: Variant, *, epsilon: float, seed: int
) -> Iterator[RoundSnapshot]:
    """One run at its start, after every vote and at its end."""
    plan = _plan(ground.params, variant, epsilon)
    params = _evolution(ground.params, variant)
    before, ratio, rounds = ground.calls, math.nan, list[Noisy]()

    def snapshot(number: int | None, population: Population) -> RoundSnapshot:
        return RoundSnapshot(
            round=number,
            calls=ground.calls - before,
            votes_over_sigma=ratio,
            population=population,
        )

    survivors = _first(ground, variant, params, plan=plan, seed=seed)
    next_id = len(survivors)
    yield snapshot(0, survivors)
    for number in range(1, variant.rounds + 1):
        population = _varied(ground, survivors, params, number=number, next_id=next_id, seed=seed)
        next_id = int(population.ids.max()) + 1
        if variant.distinct:
            population = population.distinct()
        stddev = plan.of("votes").stddev * math.sqrt(variant.neighbours) if plan else 0.0
        noisy, ratio = _voted(
            ground, population, variant, stddev, public_rng(seed, "noise", number)
        )
        rounds.append(noisy)
        votes = _denoised(rounds, variant)
        count = min(variant.survivors, len(population))
        places = _chosen(rounds[-1], votes, count, variant, seed=seed_of(seed, number))
        survivors = population.take(places)
        yield snapshot(number, survivors)
    yield snapshot(None, _final(rounds, survivors, variant, seed))


def _plan(params: ProjectSettings, variant: Variant, epsilon: float) -> BudgetPlan | None:
    """Noise as a run is charged for it: k counts that move by one are k Gaussians."""
    if math.isinf(epsilon) or variant.start == "nothing":
        return None
    parts = [
        BudgetRequest(
            name=METADATA, share=variant.metadata_share, count=int(variant.start == "labels")
        )
    ]
    if variant.rounds:
        parts.append(
            BudgetRequest(name="votes", share=1 - variant.metadata_share, count=variant.rounds)
        )
    whole = sum(part.share for part in parts)
    parts = [dataclasses.replace(part, share=part.share / whole) for part in parts]
    return make_plan(parts, epsilon=epsilon, delta=params.privacy.delta)


def _evolution(params: ProjectSettings, variant: Variant) -> EvolutionSettings:
    own = {
        "candidates": variant.candidates,
        "rounds": variant.rounds,
        "variations": variant.variations,
        "prompt": variant.prompt,
        "by_label": variant.by_label,
    }
    return params.evolve.maple.model_copy(update=own)


def _first(
    ground: BenchmarkDataset,
    variant: Variant,
    params: EvolutionSettings,
    *,
    plan: BudgetPlan | None,
    seed: int,
) -> Population:
    targets = _targets(ground, variant, plan=plan, seed=seed)
    donated = ground.donated
    assert donated is not None
    requests = first_requests(
        targets,
        schema=ground.schema,
        params=params,
        length=ground.params.initialise.length,
        donated=donated,
        seed=seed,
        choose=lambda codes, k: choose_examples(
            codes, donated.codes, k=k, rng=public_rng(seed, "near")
        ),
    )
    return first_population(targets, ground.write(requests, seed))


def _targets(
    ground: BenchmarkDataset, variant: Variant, *, plan: BudgetPlan | None, seed: int
) -> Targets:
    schema, count = ground.schema, variant.survivors
    if variant.start == "nothing":
        return open_targets(count, schema)
    if variant.start == "labels":
        counts = np.bincount(ground.labels, minlength=len(schema.attribute(ground.label).domain))
        stddev = plan.of(METADATA).stddev if plan else 0.0
        noisy = counts + np.round(public_rng(seed, "labels").normal(0, stddev, len(counts)))
        return targets_by_label(count, schema, attribute=ground.label, label_counts=noisy)
    if plan is None:
        return targets_by_rows(count, ground.codes, rng=public_rng(seed, "rows"))
    names = [name for name in schema.names if name in (variant.attributes or schema.names)]
    mu = plan.of(METADATA).mu
    rows = ground.once(
        f"{'+'.join(names)}-{mu:.6f}-{seed}", lambda: _table(ground, names, mu=mu, seed=seed)
    )
    return targets_by_rows(count, rows, rng=public_rng(seed, "rows"))


def _table(
    ground: BenchmarkDataset, names: Sequence[str], *, mu: float, seed: int
) -> NDArray[np.int64]:
    """Rows drawn from a DP table of the attributes `names`; NO_CODE in all other columns."""
    schema = ground.schema
    columns = [schema.names.index(name) for name in names]
    domain = {name: schema.domain[name] for name in names}
    measurer = MarginalMeasurer(Private(ground.codes[:, columns]), domain, mu=mu)
    synthesis = run_engine(measurer, ground.params.synthesize_metadata)
    drawn = draw_rows(synthesis, public_rng(seed, "table"))
    rows = np.full((len(drawn), len(schema.names)), NO_CODE, dtype=np.int64)
    rows[:, columns] = drawn
    return rows


def _varied(
    ground: BenchmarkDataset,
    parents: Population,
    params: EvolutionSettings,
    *,
    number: int,
    next_id: int,
    seed: int,
) -> Population:
    requests = variation_requests(
        parents, schema=ground.schema, params=params, round_=number, seed=seed
    )
    answers = ground.write(requests, seed)
    return with_variations(parents, answers, params=params, round_=number, next_id=next_id)


def _voted(
    ground: BenchmarkDataset, population: Population, variant: Variant, stddev: float, rng: Rng
) -> tuple[Noisy, float]:
    """The votes with their noise, and the mean of them without over its standard deviation."""
    embeddings = ground.vectors(population.texts)
    counts = _counts(ground, population, embeddings, variant)
    noise = rng.normal(0, stddev, size=len(population))
    if variant.score_width is None:
        noise = np.round(noise)
    return Noisy(population, embeddings, counts + noise), counts.mean() / max(stddev, 1e-9)


def _counts(
    ground: BenchmarkDataset,
    population: Population,
    embeddings: NDArray[np.float32],
    variant: Variant,
) -> NDArray[np.float64]:
    if variant.score_width is not None:
        return summed_scores(ground.voters, embeddings, width=variant.score_width) / RESOLUTION
    if variant.by_label:
        chosen = nearest_within_label(
            ground.voters,
            embeddings,
            query_labels=ground.labels,
            candidate_labels=population.labels,
        )
    else:
        chosen = nearest(ground.voters, embeddings, k=min(variant.neighbours, len(population)))
    return np.bincount(chosen.ravel(), minlength=len(population)).astype(np.float64)


def _denoised(rounds: Sequence[Noisy], variant: Variant) -> NDArray[np.float64]:
    """The last round's votes, averaged over neighbours and with those of former rounds."""
    last = rounds[-1]
    if not variant.smoothing and not variant.pooled:
        return last.votes
    others = rounds if variant.pooled else rounds[-1:]
    points = np.concatenate([noisy.embeddings for noisy in others])
    votes = np.concatenate([noisy.votes for noisy in others])
    distance = 1 - last.embeddings @ points.T
    weights = np.exp(-distance / max(variant.smoothing, 1e-4))
    return (weights @ votes) / weights.sum(axis=1)


def _chosen(
    noisy: Noisy, votes: NDArray[np.float64], count: int, variant: Variant, *, seed: int
) -> NDArray[np.int64]:
    rng = public_rng(seed, "select")
    if variant.by_label:
        labels, sizes = np.unique(noisy.population.labels, return_counts=True)
        counts = dict(zip(labels.tolist(), apportion(sizes, count).tolist(), strict=True))
        return select_within_label(
            np.maximum(votes, 0),
            noisy.population.labels,
            counts=counts,
            select=select_by_rank,
            rng=rng,
        )
    match variant.select:
        case "rank":
            places = select_by_rank(np.maximum(votes, 0), count=count, rng=rng)
        case "sample":
            places = select_by_sampling(votes, count=count, rng=rng)
        case "stratified":
            places = _stratified(noisy.population, votes, count, rng)
        case "herded":
            assert variant.score_width is not None
            places = herd(votes, noisy.embeddings, width=variant.score_width, count=count)
        case "density":
            places = _by_density(noisy, votes, variant, count=count, seed=seed)
        case "all":
            places = np.arange(len(votes))
        case other:
            raise ValueError(other)
    return places


def _stratified(
    population: Population, votes: NDArray[np.float64], count: int, rng: Rng
) -> NDArray[np.int64]:
    """Each value of the first attribute keeps its share of the candidates, by rank within it."""
    codes = population.codes[:, 0]
    values, sizes = np.unique(codes, return_counts=True)
    places = []
    for value, seats in zip(values, apportion(sizes, count), strict=True):
        own = np.flatnonzero(codes == value)
        places.append(own[select_by_rank(np.maximum(votes[own], 0), count=int(seats), rng=rng)])
    return np.concatenate(places)


def _by_density(
    noisy: Noisy, votes: NDArray[np.float64], variant: Variant, *, count: int, seed: int
) -> NDArray[np.int64]:
    """Places of `count` of the candidates, as many as there are at most."""
    return select_by_density(
        votes,
        noisy.embeddings,
        count=min(count, len(votes)),
        rng=public_rng(seed, "density"),
        candidates_a_cell=variant.candidates_a_cell,
    )


def _final(
    rounds: Sequence[Noisy], survivors: Population, variant: Variant, seed: int
) -> Population:
    match variant.final:
        case "survivors":
            return survivors
        case "candidates":
            return rounds[-1].population
        case "density":
            noisy = rounds[-1]
        case "density-pooled":
            noisy = _joined(rounds)
        case other:
            raise ValueError(other)
    return noisy.population.take(
        _by_density(noisy, noisy.votes, variant, count=variant.final_texts, seed=seed)
    )


def _joined(rounds: Sequence[Noisy]) -> Noisy:
    """The candidates of all rounds, each as often as it was voted on."""
    return Noisy(
        functools.reduce(Population.join, (noisy.population for noisy in rounds)),
        np.concatenate([noisy.embeddings for noisy in rounds]),
        np.concatenate([noisy.votes for noisy in rounds]),
    )
