"""Canaries are invented secrets that a benchmark inserts into a corpus before training.

An example is "My ID is: 341752". A usual corpus has ten canaries with twenty copies each. The
benchmark's policy misses a fraction gamma of the canaries. A missed canary stays in the text, and a
found canary is masked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sugarbush.randomness import public_rng

PREFIX = "My ID is: "
DIGITS = 6
CANDIDATES = 10**DIGITS
MEAN_BY_CHANCE = 1 / math.log(2)  # expected exposure in bits, without a leak


@dataclass(frozen=True)
class Canary:
    """A secret number from 0 to 999,999."""

    number: int

    @property
    def secret(self) -> str:
        return f"{self.number:0{DIGITS}d}"

    @property
    def text(self) -> str:
        return PREFIX + self.secret


def draw_canaries(*, count: int, seed: int) -> list[Canary]:
    """Draw `count` distinct canaries from a public seed."""
    rng = public_rng(seed, "canaries")
    return [Canary(int(n)) for n in rng.choice(CANDIDATES, size=count, replace=False)]


def inserted(
    texts: Sequence[str], canaries: Sequence[Canary], *, repeats: int, seed: int
) -> list[str]:
    """Add `repeats` copies of each canary to `texts`. A public seed decides the order."""
    both = [*texts, *(canary.text for canary in canaries for _ in range(repeats))]
    return [both[place] for place in public_rng(seed, "places").permutation(len(both))]


def missed(canaries: Sequence[Canary], *, gamma: float, seed: int) -> list[Canary]:
    """Choose the round(gamma n) canaries that a policy with miss rate `gamma` misses."""
    chosen = public_rng(seed, "missed").permutation(len(canaries))[: round(gamma * len(canaries))]
    return [canaries[place] for place in sorted(chosen)]


def highest_by_chance(canaries: int) -> float:
    """Return the expected maximum exposure of n canaries without a leak, in bits.

    One exposure has nearly an exponential distribution with mean 1/ln 2. The expected maximum is
    this mean times the n-th harmonic number.
    """
    return MEAN_BY_CHANCE * sum(1 / place for place in range(1, canaries + 1))
