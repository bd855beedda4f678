"""What a detector finds in a text, and what a detector is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Finding:
    """Characters `start` to `end` (exclusive) of a text, thought to be a `label`.

    `score` is in 0..1, as the detector gives it; it is no probability.
    """

    start: int
    end: int
    label: str
    score: float


class Detector(Protocol):
    """Finds what may be a secret. What it says of a text depends on that text alone."""

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        """The findings in each of `texts`, in any order; they may overlap."""
        ...


class PublicPolicy(Protocol):
    """The conservative policy pi_c: says of a sentence, by itself, that it holds no secret."""

    def is_public(self, texts: Sequence[str]) -> list[bool]:
        """For each of `texts`, one sentence or more, whether nothing in it may be a secret."""
        ...
