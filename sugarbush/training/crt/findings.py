"""Findings of secrets in a text, and the interfaces of detectors and policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

LEARNED = "learned"  # the detector that is trained at its first use, by a plug-in
DEFAULT_DETECTORS = ("regex", LEARNED)
DESCRIPTION = "redactor.json"  # a folder with this file is opened by the plug-in `learned`


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


class ClassifierDetector(Detector, PublicPolicy, Protocol):
    """A detector that is also a conservative policy."""


class DetectorPlugin(Protocol):
    """A detector of an installed package, in the entry-point group `sugarbush.detectors`.

    The name of the entry point is the name of the detector in settings. The entry point is a class
    without arguments. Its import must be quick.
    """

    @property
    def packages(self) -> tuple[tuple[str, str], ...]:
        """The extra of Sugarbush and the package, for each optional package that is needed."""

    def open(self) -> ClassifierDetector:
        """Open the detector."""

    def open_folder(self, folder: Path) -> ClassifierDetector:
        """Open a trained detector in a folder. Only the plug-in `learned` is asked."""
