"""Collects what the card and the public page show, from the results of a run.

A project in a folder and a release in memory use the same functions (`release.store`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.evolution.parts import Lineage, Scored
from sugarbush.evolution.population import NO_PARENT, Population
from sugarbush.generators.interface import Embed, Usage
from sugarbush.generators.prices import Price, cost_of
from sugarbush.methods.interface import Method
from sugarbush.pipeline.dp_table import counts_of, dp_counts_of
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.ledger import Ledger
from sugarbush.quality.public_quality import quality_of
from sugarbush.release.facts import ReleaseContents, release_facts, text_counts
from sugarbush.release.store import MethodTexts, ReleasedRun
from sugarbush.report.downloads import downloads_beside
from sugarbush.report.model import (
    EmbeddingMap,
    MethodData,
    PublicData,
    RoundData,
    ScoredData,
    Spend,
    SyntheticText,
)
from sugarbush.report.tables import (
    synthetic_projection,
    with_ancestors,
)
from sugarbush.report.verdict import Verdict
from sugarbush.run.settings import ProjectSettings

MOST_SHOWN = 5000  # texts per method on the pages; 5,000 texts of 100 words need about 4 MB
VerdictOf = Callable[[Method, MethodTexts], Verdict]


def public_data(
    released: ReleasedRun,
    *,
    settings: ProjectSettings,
    schema: Schema,
    ledger: Ledger,
    ledger_ids: Sequence[str],
    plan: BudgetPlan,
    looked: Sequence[str],
    encode: Embed,
    verdict: VerdictOf,
    earlier: Sequence[Method] = (),
) -> PublicData:
    """Collect everything that the card and the public page show.

    `looked` are the charges of the first look, on which a verdict depends. `earlier` are the
    methods of other releases of the dataset. Guarantee: post-processing of released values.
    """
    metadata, figures = released.metadata(), released.figures()
    donated = released.donated_texts()
    texts = {method: released.texts_of(method) for method in settings.released}
    measured = () if figures is None else figures.ledger_ids
    return PublicData(
        release=release_facts(
            settings,
            schema,
            ReleaseContents(
                texts={method.name: text_counts(own.lineage) for method, own in texts.items()},
                donated=len(donated),
                engine=None if metadata.table is None else metadata.table.engine,
                earlier=tuple(earlier),
            ),
            ledger=ledger,
            ledger_ids=ledger_ids,
            plan=plan,
            quality=quality_of(
                settings,
                schema,
                figures,
                labels={method.name: own.labels for method, own in texts.items()},
                counts=metadata.values.counts_of(schema),
            ),
        ),
        methods=tuple(
            _method_data(
                method,
                own,
                schema=schema,
                price=settings.generator.chosen.price if method.facts.asks_generator else None,
                encode=encode,
                verdict=Released(
                    verdict(method, own),
                    tuple(dict.fromkeys((*own.ledger_ids, *measured, *looked))),
                ),
            )
            for method, own in texts.items()
        ),
        metadata=dp_counts_of(metadata, schema),
        table=metadata.table,
        agreements=released.agreements(),
        donated=donated,
        downloads=downloads_beside([method.name for method in settings.released]),
    )


def _method_data(
    method: Method,
    own: MethodTexts,
    *,
    schema: Schema,
    price: Price | None,
    encode: Embed,
    verdict: Released[Verdict],
) -> MethodData:
    """Collect a method's rounds, its final texts with their lineage, and their cost."""
    lineage, ids = own.lineage, own.ledger_ids
    final = lineage.final
    return MethodData(
        name=method.name,
        final_texts=len(final),
        written_afterwards=text_counts(lineage)["written_afterwards"],
        asked=Released(counts_of(final.codes, schema), ids),
        labels=Released(own.labels.attributes, ids),
        verdict=verdict,
        texts=Released(_texts(lineage, own.labels, MOST_SHOWN), ids),
        rounds=tuple(
            RoundData(**vars(_scored_data(each)), number=each.number, survivors=each.survivors)
            for each in lineage.rounds
        ),
        scored=None if lineage.scored is None else _scored_data(lineage.scored),
        spends=tuple(_spends(own.usage, price)),
        map=Released(_map(final, encode), ids) if len(final) > 1 else None,
    )


def _scored_data(scored: Scored) -> ScoredData:
    assert scored.stddev is not None
    return ScoredData(
        name=scored.name,
        votes=scored.scores.map(lambda scores: scores / scored.unit),
        stddev=scored.stddev / scored.unit,
        written=scored.population.rounds,
    )


def _map(final: Population, encode: Embed) -> EmbeddingMap:
    """Project the final texts to two dimensions. The axes are computed from these texts."""
    embeddings = encode(final.texts)
    return EmbeddingMap(points=synthetic_projection(embeddings)(embeddings), written=final.rounds)


def _texts(lineage: Lineage, labels: Labels, limit: int) -> tuple[SyntheticText, ...]:
    """Return the first `limit` final texts with the values that were read from them, and all their
    ancestors with the values that were requested."""
    final, rounds = lineage.final, lineage.rounds
    votes = {} if lineage.last is None else _votes(lineage.last)
    read = replace(final, codes=labels.given_codes).take(np.arange(min(limit, len(final))))
    candidates = [text for each in reversed(rounds) for text in _described(each.population, {})]
    return with_ancestors(tuple(_described(read, votes)), candidates)


def _described(population: Population, votes: dict[int, int]) -> Iterator[SyntheticText]:
    for place, text in enumerate(population.texts):
        own, parent = int(population.ids[place]), int(population.parents[place])
        yield SyntheticText(
            id=own,
            text=text,
            codes=tuple(int(c) for c in population.codes[place]),
            round=int(population.rounds[place]),
            parent=None if parent == NO_PARENT else parent,
            votes=votes.get(own),
            examples=population.examples[place],
        )


def _votes(last: Scored) -> dict[int, int]:
    """Return noisy votes by candidate id. A stored score is `unit` times one vote."""
    scores = zip(last.population.ids, last.scores.value, strict=True)
    return {int(i): round(score / last.unit) for i, score in scores}


def _spends(usage: Mapping[str, Usage], price: Price | None) -> Iterator[Spend]:
    for name, step in usage.items():
        cost = cost_of(
            price,
            prompt_tokens=step.prompt_tokens,
            completion_tokens=step.completion_tokens,
            cached_prompt_tokens=step.cached_prompt_tokens,
        )
        yield Spend(step=name.replace("_", " "), usage=step, cost=cost)
