"""The variers: requests for variations of the survivors (VARIATION_API)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sugarbush.data.schema import Schema
from sugarbush.evolution.parts import Encode, Varier
from sugarbush.evolution.population import Population
from sugarbush.generators.interface import Answer, Request, VariationRequest
from sugarbush.languages import count_words
from sugarbush.randomness import public_rng, seed_of

_MIN_WORDS = 25  # a variation of a longer parent requests at least this many words


@dataclass(frozen=True, kw_only=True)
class FillIn(Varier):
    """A variation replaces a fraction `mask_share` of its parent's words.

    Below 0.05, it is a paraphrase. `tones` are used in turn. A parent with n words gets the
    requested length max(25, n + N(0, s)), where s = mask_share * word_scale (Xie et al. 2024,
    "adaptive text lengths"). If n is below 25, n takes its place. The parent is synthetic, so
    requests contain no private length.
    """

    copies: int
    mask_share: float = 0.5
    tones: tuple[str, ...] = ()
    word_scale: float = 0.0

    def requests(
        self, parents: Population, *, schema: Schema, encode: Encode, number: int, seed: int
    ) -> tuple[Request, ...]:
        rng = public_rng(seed, "lengths", number)
        scale = self.mask_share * self.word_scale
        requests: list[Request] = []
        for index, parent in enumerate(parents.texts):
            for copy in range(self.copies):
                length = count_words(parent)
                words = length + rng.normal(0.0, scale) if scale else length
                requests.append(
                    VariationRequest(
                        subject=schema.subject,
                        style=schema.style,
                        language=schema.language,
                        parent=parent,
                        mask_share=self.mask_share,
                        words=max(min(_MIN_WORDS, length), round(words), 1),
                        tone=self.tones[len(requests) % len(self.tones)] if self.tones else "",
                        sample=seed_of(seed, "vary", number, int(parents.ids[index]), copy) >> 1,
                    )
                )
        return tuple(requests)

    def longest_request(self, first: Request) -> Request:
        words = first.words or 0
        return VariationRequest(
            subject=first.subject,
            style=first.style,
            language=first.language,
            parent="word " * words,
            mask_share=self.mask_share,
            words=words,
        )


def with_variations(
    parents: Population, answers: tuple[Answer, ...], *, copies: int, number: int, next_id: int
) -> Population:
    """Return the parents, followed by their variations. Unusable answers are dropped.

    `answers` has `copies` answers for each parent. `number` is the round that wrote them.
    """
    usable = np.array([i for i, a in enumerate(answers) if a.text is not None], dtype=np.int64)
    of = usable // max(copies, 1)
    children = Population(
        ids=next_id + np.arange(len(usable), dtype=np.int64),
        texts=tuple(str(answers[i].text) for i in usable),
        codes=parents.codes[of],
        values=parents.values[of],
        labels=parents.labels[of],
        parents=parents.ids[of],
        rounds=np.full(len(usable), number, dtype=np.int64),
    )
    return parents.join(children)
