"""Candidates to come near to and to keep away from, told by the last noisy votes.

Both are released text, and the votes are paid for: showing them to the generator spends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.evolution.population import Population


@dataclass(frozen=True)
class Contrast:
    """The texts with most votes, most first, and those with fewest, fewest first."""

    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


NO_CONTRAST = Contrast()


def contrasts(
    population: Population, votes: NDArray[np.int64], *, count: int
) -> Mapping[int, Contrast]:
    """For every label up to `count` of each; no text is both.

    Shapes: `votes` (n,) of the n candidates. Equal votes count in the order of writing.
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
