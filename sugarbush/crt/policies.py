"""A redaction policy from names, as the settings hold them."""

from __future__ import annotations

from collections.abc import Sequence

from sugarbush.crt.findings import Detector
from sugarbush.crt.patterns import RegexDetector
from sugarbush.crt.redact import Policy

REGEX, PRESIDIO = "regex", "presidio"


def make_policy(names: Sequence[str], *, threshold: float) -> Policy:
    """`regex`, `presidio`, or a token classification model by name or path; one or several.

    Raises ParamsError on no name, and on one that is neither a detector nor a model.
    """
    return Policy([_detector(name) for name in names], threshold=threshold)


def _detector(name: str) -> Detector:
    if name == REGEX:
        return RegexDetector()
    if name == PRESIDIO:
        from sugarbush.crt.presidio import PresidioDetector

        return PresidioDetector()
    from sugarbush.crt.token_classifier import TokenClassifier

    return TokenClassifier(name)
