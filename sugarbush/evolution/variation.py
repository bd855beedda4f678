"""The requests for variations of the survivors (VARIATION_API)."""

from __future__ import annotations

import numpy as np

from sugarbush.data.schema import Schema
from sugarbush.evolution.population import Population
from sugarbush.evolution.settings import EvolutionSettings
from sugarbush.generators.interface import Answer, VariationRequest
from sugarbush.randomness import public_rng, seed_of


def variation_requests(
    parents: Population, *, schema: Schema, params: EvolutionSettings, round_: int, seed: int
) -> tuple[VariationRequest, ...]:
    """Make `variations` - 1 requests per parent, in order.

    A parent with n words gets the requested length max(min_words, n + N(0, s)), where s =
    mask_share * word_scale (Xie et al. 2024, "adaptive text lengths"). The parent is synthetic, so
    requests contain no private length.
    """
    rng = public_rng(seed, "lengths", round_)
    scale = params.mask_share * params.word_scale
    requests: list[VariationRequest] = []
    for place, parent in enumerate(parents.texts):
        for copy in range(params.variations - 1):
            words = len(parent.split()) + rng.normal(0.0, scale) if scale else len(parent.split())
            requests.append(
                VariationRequest(
                    subject=schema.subject,
                    parent=parent,
                    mask_share=params.mask_share,
                    words=max(params.min_words, round(words)),
                    tone=params.tones[len(requests) % len(params.tones)] if params.tones else "",
                    sample=seed_of(seed, "vary", round_, int(parents.ids[place]), copy) >> 1,
                )
            )
    return tuple(requests)


def with_variations(
    parents: Population,
    answers: tuple[Answer, ...],
    *,
    params: EvolutionSettings,
    round_: int,
    next_id: int,
) -> Population:
    """Return the parents, followed by their variations. Unusable answers are dropped."""
    copies = params.variations - 1
    kept = np.array([i for i, a in enumerate(answers) if a.text is not None], dtype=np.int64)
    of = kept // max(copies, 1)
    children = Population(
        ids=next_id + np.arange(len(kept), dtype=np.int64),
        texts=tuple(str(answers[i].text) for i in kept),
        codes=parents.codes[of],
        labels=parents.labels[of],
        parents=parents.ids[of],
        rounds=np.full(len(kept), round_, dtype=np.int64),
    )
    return parents.join(children)
