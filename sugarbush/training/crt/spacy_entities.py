"""Detects named entities by a pipeline of spaCy, an optional package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from sugarbush.errors import ParamsError
from sugarbush.privacy.results import digest_of_folder
from sugarbush.training.crt.findings import Finding

# These kinds of entities are not secrets. A mask would remove text and protect nobody.
_PLAIN = {
    "CARDINAL", "ORDINAL", "MONEY", "PERCENT", "QUANTITY", "TIME", "LANGUAGE", "WORK_OF_ART", "LAW",
    "EVENT", "PRODUCT", "ORG", "NORP", "DATE", "MISC",
}  # fmt: skip


class SpacyDetector:
    """Finds persons and places by a pipeline of spaCy, given by name or path."""

    def __init__(self, name: str) -> None:
        import spacy

        try:
            self.pipeline: Any = spacy.load(name)
        except (OSError, ValueError, ImportError) as error:
            raise ParamsError(
                f"'spacy:{name}' cannot be loaded ({type(error).__name__}). Name an installed "
                "pipeline, or the folder of a pipeline."
            ) from None

    @cached_property
    def identity(self) -> str:
        """A digest of the pipeline's files. The version does not help: spaCy writes 0.0.0 at each
        training."""
        return digest_of_folder(self.pipeline.path)

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        longest: int = self.pipeline.max_length
        return [
            [
                Finding(start + e.start_char, start + e.end_char, e.label_, 1.0)
                for start in range(0, len(text), longest)
                for e in self.pipeline(text[start : start + longest]).ents
                if e.label_ not in _PLAIN
            ]
            for text in texts
        ]


def if_installed() -> list[SpacyDetector]:
    """Return a detector for each installed pipeline that finds entities."""
    if not find_spec("spacy"):
        return []
    from spacy.util import get_installed_models

    detectors = (SpacyDetector(name) for name in get_installed_models())
    return [detector for detector in detectors if detector.pipeline.has_pipe("ner")]
