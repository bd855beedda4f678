"""Makes random choices for one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from sugarbush.randomness import public_rng

T = TypeVar("T")

_BLOCK = 256


class SeededRandom:
    """Makes random choices for one text. Equal seeds and names give equal choices.

    A text needs a few hundred random numbers. For speed, numpy computes these numbers in blocks.
    """

    def __init__(self, seed: int, *names: str | int) -> None:
        self._rng = public_rng(seed, *names)
        self._uniforms: list[float] = []

    def uniform(self) -> float:
        if not self._uniforms:
            self._uniforms = self._rng.random(_BLOCK).tolist()
        return self._uniforms.pop()

    def below(self, count: int) -> int:
        """Return a random integer from 0 to count - 1."""
        return int(self.uniform() * count)

    def between(self, low: int, high: int) -> int:
        """Return a random integer from low to high."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        return self.uniform() < probability

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def weighted_key(self, weights: Mapping[T, float]) -> T:
        return self.weighted_choice(tuple(weights), tuple(weights.values()))

    def weighted_choice(self, options: Sequence[T], weights: Sequence[float]) -> T:
        ends = list(accumulate(weights))
        mark = self.uniform() * ends[-1]
        return next(option for option, end in zip(options, ends, strict=True) if mark < end)

    def shuffled(self, options: Sequence[T]) -> list[T]:
        rest = list(options)
        for last in range(len(rest) - 1, 0, -1):
            other = self.below(last + 1)
            rest[last], rest[other] = rest[other], rest[last]
        return rest
