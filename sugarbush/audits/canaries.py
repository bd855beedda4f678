"""Canaries: invented secrets, put into a benchmark's corpus before training.

"My ID is: 341752", ten of them, twenty times each. A canary is in as it is, so the policy of a
benchmark arm is told with which probability gamma it misses one: a missed canary stays, a found one
is masked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sugarbush.randomness import public_rng

PREFIX = "My ID is: "
DIGITS = 6
CANDIDATES = 10**DIGITS
MEAN_BY_CHANCE = 1 / math.log(2)  # of an exposure, in bits, where nothing leaks


@dataclass(frozen=True)
class Canary:
    """One secret number, 0 to 999,999."""

    number: int

    @property
    def secret(self) -> str:
        return f"{self.number:0{DIGITS}d}"

    @property
    def text(self) -> str:
        return PREFIX + self.secret


def draw_canaries(*, count: int, seed: int) -> list[Canary]:
    """`count` different ones, from a public seed."""
    rng = public_rng(seed, "canaries")
    return [Canary(int(n)) for n in rng.choice(CANDIDATES, size=count, replace=False)]


def inserted(
    texts: Sequence[str], canaries: Sequence[Canary], *, repeats: int, seed: int
) -> list[str]:
    """`texts` with `repeats` of each canary as records of their own, at places by a public seed."""
    both = [*texts, *(canary.text for canary in canaries for _ in range(repeats))]
    return [both[place] for place in public_rng(seed, "places").permutation(len(both))]


def missed(canaries: Sequence[Canary], *, gamma: float, seed: int) -> list[Canary]:
    """The canaries that a policy of miss rate `gamma` overlooks: round(gamma n) of them."""
    chosen = public_rng(seed, "missed").permutation(len(canaries))[: round(gamma * len(canaries))]
    return [canaries[place] for place in sorted(chosen)]


def highest_by_chance(canaries: int) -> float:
    """The mean of the highest exposure of so many canaries where none leaks, in bits.

    Without a leak an exposure is exponential with mean 1/ln 2, but for its end at log2 |R|; the
    mean of the highest of n is then the n-th harmonic number times that.
    """
    return MEAN_BY_CHANCE * sum(1 / place for place in range(1, canaries + 1))
