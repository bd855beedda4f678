"""Policies by name, as in the settings: what to redact, and which texts are public."""

from __future__ import annotations

from collections.abc import Sequence

from sugarbush.training.crt.findings import Detector, PublicPolicy
from sugarbush.training.crt.patterns import PlainWords, RegexDetector
from sugarbush.training.crt.redact import Policy

REGEX, PRESIDIO = "regex", "presidio"
PLAIN_WORDS = "plain_words"


def make_policy(names: Sequence[str], *, threshold: float) -> Policy:
    """`regex`, `presidio`, or a token classification model by name or path; one or several.

    Raises ParamsError without a name, and for a name that is neither a detector nor a model.
    """
    return Policy([_detector(name) for name in names], threshold=threshold)


def make_public_policy(name: str | None) -> PublicPolicy | None:
    """`plain_words`, or a token classification model by name or path; None if no name is given.

    Raises ParamsError for a name that is neither.
    """
    if name is None:
        return None
    if name == PLAIN_WORDS:
        return PlainWords()
    from sugarbush.training.crt.token_classifier import TokenClassifier

    return TokenClassifier(name)


def _detector(name: str) -> Detector:
    if name == REGEX:
        return RegexDetector()
    if name == PRESIDIO:
        from sugarbush.training.crt.presidio import PresidioDetector

        return PresidioDetector()
    from sugarbush.training.crt.token_classifier import TokenClassifier

    return TokenClassifier(name)
