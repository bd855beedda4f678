"""The enlargers: which texts are released, after further texts were written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.evolution.enlarge import choose_by_scores, predicted_scores, without_repeats
from sugarbush.evolution.parts import Encode, Enlarger, Lineage
from sugarbush.evolution.population import Population
from sugarbush.evolution.selection import select_by_rank
from sugarbush.randomness import Rng


@dataclass(frozen=True)
class MostVoted(Enlarger):
    """Releases the survivors of the last round, and further texts that got no vote.

    A release with fewer texts than survivors (or than texts that were scored once) contains the
    texts with the most votes.
    """

    def kept(self, lineage: Lineage, *, count: int, rng: Rng) -> Population:
        final = lineage.final
        if len(final) <= count:
            return final
        if lineage.rounds:
            last = lineage.rounds[-1]
            scores = last.scores.value[last.survivors]
        elif lineage.scored is not None:
            scores = lineage.scored.scores.value
        else:
            return final.take(np.arange(count))
        return final.take(select_by_rank(scores, count=count, rng=rng))

    def choose(
        self, lineage: Lineage, texts: Population, *, count: int, encode: Encode
    ) -> NDArray[np.int64]:
        return np.arange(min(count, len(texts)))


@dataclass(frozen=True, kw_only=True)
class ByPredictedScores(Enlarger):
    """Kernel herding chooses the release from twice as many texts, by their predicted scores.

    Candidates have noisy scores. A regression predicts the scores of all texts from them. `width`
    is the width of the kernel, as a cosine distance.
    """

    ratio: ClassVar[int] = 2
    uses_scores: ClassVar[bool] = True
    width: float = 0.2

    def kept(self, lineage: Lineage, *, count: int, rng: Rng) -> Population:
        if lineage.last is None:
            return MostVoted().kept(lineage, count=count, rng=rng)
        return without_repeats(lineage.last.population)

    def choose(
        self, lineage: Lineage, texts: Population, *, count: int, encode: Encode
    ) -> NDArray[np.int64]:
        last = lineage.last
        if last is None:
            return np.arange(min(count, len(texts)))
        embeddings = encode(texts.texts)
        scores = predicted_scores(
            embeddings,
            encode(last.population.texts),
            last.scores.value,
            stddev=last.stddev or 0.0,
            scored=np.isin(texts.ids, last.population.ids),
        )
        return choose_by_scores(scores, embeddings, width=self.width, count=min(count, len(texts)))
