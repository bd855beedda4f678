"""Findings of secrets in a text, and the interfaces of detectors and policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

DEFAULT_DETECTORS = ("regex", "learned")
DESCRIPTION = "redactor.json"  # in the folder of a trained redactor


@dataclass(frozen=True, slots=True)
class Finding:
    """Characters `start` to `end` (exclusive) of a text that may be a `label`.

    `score` is the detector's score, in 0..1; it is not a probability.
    """

    start: int
    end: int
    label: str
    score: float


class Detector(Protocol):
    """Finds possible secrets. Its findings in a text depend on that text alone."""

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        """The findings in each of `texts`, in any order; they may overlap."""
        ...


class PublicPolicy(Protocol):
    """The conservative policy pi_c decides, for a sentence on its own, that it contains no
    secret."""

    def is_public(self, texts: Sequence[str]) -> list[bool]:
        """For each of `texts`, which are one or more sentences, whether no part of it may be a
        secret."""
        ...
