"""Detects secrets by the patterns and checksums of Microsoft Presidio, an optional package."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from sugarbush.training.crt.findings import Finding


class PresidioDetector:
    """The recognisers of Presidio for English that need no model."""

    def __init__(self) -> None:
        from presidio_analyzer import PatternRecognizer, RecognizerRegistry

        self.identity = f"presidio {version('presidio-analyzer')}"
        logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
        registry = RecognizerRegistry()
        registry.load_predefined_recognizers(languages=["en"])
        self._recognizers: list[Any] = [
            r for r in registry.recognizers if isinstance(r, PatternRecognizer)
        ]

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        return [
            [Finding(r.start, r.end, r.entity_type, min(1.0, r.score)) for r in self._results(text)]
            for text in texts
        ]

    def _results(self, text: str) -> list[Any]:
        return [
            result
            for recognizer in self._recognizers
            for result in recognizer.analyze(text, recognizer.supported_entities, None) or ()
        ]


def if_installed() -> list[PresidioDetector]:
    """Return the detector, or nothing if Presidio is not installed."""
    return [PresidioDetector()] if find_spec("presidio_analyzer") else []
