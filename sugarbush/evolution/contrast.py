"""Good and bad examples for the generator, chosen by the last noisy votes.

Texts and votes are already released and charged, so showing them spends no budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.evolution.population import Population


@dataclass(frozen=True)
class Contrast:
    """The texts with the most votes, most first, and those with the fewest, fewest first."""

    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


NO_CONTRAST = Contrast()


def contrasts(
    population: Population, votes: NDArray[np.int64], *, count: int
) -> Mapping[int, Contrast]:
    """Up to `count` good and bad texts of every label; no text is in both lists.

    Shapes: `votes` (n,) of the n candidates. Candidates with equal votes keep their order.
    """
    found = {}
    for label in np.unique(population.labels) if count else ():
        places = np.flatnonzero(population.labels == label)
        ranked = places[np.argsort(-votes[places], kind="stable")]
        shown = min(count, len(ranked) // 2)
        good = tuple(population.texts[i] for i in ranked[:shown])
        last = (population.texts[i] for i in ranked[::-1][:shown])
        found[int(label)] = Contrast(good=good, bad=tuple(t for t in last if t not in good))
    return found
