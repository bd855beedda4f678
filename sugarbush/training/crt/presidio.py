"""Microsoft Presidio's recognisers as a detector. It is an optional package.

Its recognisers by pattern and checksum need no model. With a spaCy pipeline, by name or path, the
whole analyser runs, including names and places.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from sugarbush.errors import ParamsError
from sugarbush.training.crt.findings import Finding


class PresidioDetector:
    """Presidio for English; `spacy_model` is a pipeline by name or path; None means patterns
    only."""

    def __init__(self, *, spacy_model: str | None = None) -> None:
        try:
            from presidio_analyzer import AnalyzerEngine, PatternRecognizer, RecognizerRegistry
            from presidio_analyzer.nlp_engine import NlpEngineProvider
        except ImportError:
            raise ParamsError(
                "the detector 'presidio' needs a package: pip install 'sugarbush[redaction]'"
            ) from None
        logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
        self._analyzer: Any = None
        self._recognizers: list[Any] = []
        if spacy_model is None:
            registry = RecognizerRegistry()
            registry.load_predefined_recognizers(languages=["en"])
            self._recognizers = [
                r for r in registry.recognizers if isinstance(r, PatternRecognizer)
            ]
            return
        models = [{"lang_code": "en", "model_name": spacy_model}]
        try:
            engine = NlpEngineProvider(
                nlp_configuration={"nlp_engine_name": "spacy", "models": models}
            ).create_engine()
        except (OSError, SystemExit, ValueError) as error:
            raise ParamsError(
                f"the spaCy pipeline {spacy_model!r} cannot be loaded ({type(error).__name__})"
            ) from None
        self._analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        return [
            [Finding(r.start, r.end, r.entity_type, min(1.0, r.score)) for r in self._results(text)]
            for text in texts
        ]

    def _results(self, text: str) -> list[Any]:
        if self._analyzer is not None:
            return list(self._analyzer.analyze(text, language="en"))
        return [
            result
            for recognizer in self._recognizers
            for result in recognizer.analyze(text, recognizer.supported_entities, None) or ()
        ]
