"""The selectors: which candidates survive a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.evolution.herding import herd
from sugarbush.evolution.parts import Encode, Scored, Selector
from sugarbush.evolution.selection import select_within_label
from sugarbush.randomness import Rng


@dataclass(frozen=True)
class ByRank(Selector):
    """The candidates of each label with the most votes survive (Xie et al. 2024, Section 3)."""

    def select(
        self, scored: Scored, *, counts: Mapping[int, int], encode: Encode, rng: Rng
    ) -> NDArray[np.int64]:
        votes = np.maximum(scored.scores.value, 0)  # below 0 is noise: equal, in random order
        return select_within_label(votes, scored.population.labels, counts=counts, rng=rng)


@dataclass(frozen=True, kw_only=True)
class ByHerding(Selector):
    """Kernel herding chooses survivors with the distribution of the scores. Labels do not matter.

    `width` is the width of the kernel, as a cosine distance.
    """

    width: float = 0.2

    def select(
        self, scored: Scored, *, counts: Mapping[int, int], encode: Encode, rng: Rng
    ) -> NDArray[np.int64]:
        population = scored.population
        count = min(sum(counts.values()), len(population))
        return herd(scored.scores.value, encode(population.texts), width=self.width, count=count)
