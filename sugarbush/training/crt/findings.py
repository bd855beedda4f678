"""Findings of secrets in a text, and the interfaces of detectors and policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

DEFAULT_DETECTORS = ("regex", "learned")
DESCRIPTION = "redactor.json"  # name of a file in the folder of a trained redactor


@dataclass(frozen=True, slots=True)
class Finding:
    """A possible secret: characters `start` to `end` (exclusive) of a text, and its kind `label`.

    `score` is the detector's score, in 0..1; it is not a probability.
    """

    start: int
    end: int
    label: str
    score: float


class Detector(Protocol):
    """Finds possible secrets. The findings in a text depend on that text alone."""

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        """Return the findings in each text, in any order. Findings may overlap."""


class PublicPolicy(Protocol):
    """The conservative policy pi_c, which declares a text public if it finds no possible secret."""

    def is_public(self, texts: Sequence[str]) -> list[bool]:
        """Return, for each text, whether it contains no possible secret."""
