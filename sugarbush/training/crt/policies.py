"""Makes the policies that settings name: what to redact, and which texts are public."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from sugarbush.errors import ParamsError
from sugarbush.extras import require_extra
from sugarbush.registry import DETECTORS, load_plugin, package_of, plugin_names
from sugarbush.training.crt.findings import (
    DESCRIPTION,
    LEARNED,
    ClassifierDetector,
    Detector,
    DetectorPlugin,
    PublicPolicy,
)
from sugarbush.training.crt.patterns import PATTERNS, WEAK, PlainWords, RegexDetector
from sugarbush.training.crt.redact import Policy

REGEX, PRESIDIO, SPACY = "regex", "presidio", "spacy"
INSTALLED = "installed"
PLAIN_WORDS = "plain_words"
_OF_OTHER_PACKAGES = (PRESIDIO, f"{SPACY}:<pipeline>", INSTALLED)


def require_learned(names: Sequence[str]) -> None:
    """Raise ParamsError if `learned` is among the names and no installed package provides it."""
    if LEARNED in names and LEARNED not in plugin_names(DETECTORS):
        raise ParamsError(
            f"detectors: no installed package provides the detector '{LEARNED}' (an entry point of "
            f"the group '{DETECTORS}'). Install such a package, or choose other detectors, such as "
            f"detectors: [{REGEX}]"
        )


def extras_of(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the extras and optional packages that the detectors need."""
    return tuple(needed for name in names for needed in _packages_of(name))


def _packages_of(name: str) -> tuple[tuple[str, str], ...]:
    if name in plugin_names(DETECTORS):
        return _plugin(name).packages
    if name == PRESIDIO:
        return (("redaction", "presidio_analyzer"),)
    return (("redaction", "spacy"),) if name.startswith(f"{SPACY}:") else ()


def other_packages_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return name and version of each package of another author that has one of the detectors."""
    plugins = (LEARNED if _is_trained(name) else name for name in names)
    packages = (package_of(DETECTORS, name) for name in plugins)
    return tuple(dict.fromkeys(filter(None, packages)))


def require_packages_of(names: Sequence[str]) -> None:
    """Raise ParamsError if an optional package that one of the detectors needs is missing."""
    for extra, package in extras_of(names):
        require_extra(extra, package)


def make_policy(names: Sequence[str], *, threshold: float) -> Policy:
    """Make a policy of one or more detectors.

    A name is `regex`, `learned`, `presidio`, `spacy:<pipeline>`, `installed`, the detector of
    another package, or a token classification model by name or path. `learned` is the redactor of
    the default recipe. Sugarbush trains this redactor at its first use. `installed` means every
    detector of Presidio and spaCy that is installed. With `learned` or the folder of a tuned
    redactor, `regex` omits its weak patterns. Raises ParamsError if `names` is empty or contains an
    unknown name, or if no installed package provides `learned`.
    """
    for name in names:  # all of them before `learned`, whose first use takes minutes
        _require_known(name, (REGEX, *plugin_names(DETECTORS), *_OF_OTHER_PACKAGES))
    require_packages_of(names)
    detectors = [detector for name in names for detector in _detectors(name)]
    if any(hasattr(detector, "trained_on") for detector in detectors):
        strong = [label for label in PATTERNS if label not in WEAK]
        detectors = [RegexDetector(strong) if type(d) is RegexDetector else d for d in detectors]
    return Policy(detectors, threshold=threshold)


def make_public_policy(name: str | None) -> PublicPolicy | None:
    """Make the conservative policy called `name`. Returns None if `name` is None.

    A name is `plain_words`, `learned`, the detector of another package, or a token classification
    model by name or path. Raises ParamsError for an unknown name.
    """
    if name is None:
        return None
    if name == PLAIN_WORDS:
        return PlainWords()
    _require_known(name, (PLAIN_WORDS, *plugin_names(DETECTORS)))
    return _classifier(name)


def _require_known(name: str, choices: Sequence[str]) -> None:
    """Raise ParamsError for a name that is neither in `choices` nor the name or path of a model.

    The name of a model on a hub contains its owner: `owner/model`.
    """
    require_learned([name])
    if name in choices or "/" in name or name.startswith(f"{SPACY}:") or Path(name).exists():
        return
    if "," in name:
        raise ParamsError(f"'{name}' is not a detector. Name detectors one by one, without a comma")
    close = difflib.get_close_matches(name, choices, n=1)
    meant = f"; did you mean '{close[0]}'?" if close else "."
    raise ParamsError(
        f"detectors: '{name}' is not a detector{meant} Choose {', '.join(choices)}, or the name "
        "(owner/model) or folder of a token classification model"
    )


def _detectors(name: str) -> list[Detector]:
    if name == REGEX:
        return [RegexDetector()]
    if name in {PRESIDIO, INSTALLED} or name.startswith(f"{SPACY}:"):
        return _of_other_packages(name)
    return [_classifier(name)]


def _classifier(name: str) -> ClassifierDetector:
    if name in plugin_names(DETECTORS):
        return _plugin(name).open()
    if _is_trained(name):
        require_learned([LEARNED])
        return _plugin(LEARNED).open_folder(Path(name))
    from sugarbush.training.crt.token_classifier import TokenClassifier

    return TokenClassifier(name)


def _is_trained(name: str) -> bool:
    return (Path(name) / DESCRIPTION).exists()


def _plugin(name: str) -> DetectorPlugin:
    plugin: DetectorPlugin = load_plugin(DETECTORS, name)()
    return plugin


def _of_other_packages(name: str) -> list[Detector]:
    from sugarbush.training.crt import presidio, spacy_entities

    if name == INSTALLED:
        return [*presidio.if_installed(), *spacy_entities.if_installed()]
    if name == PRESIDIO:
        return [presidio.PresidioDetector()]
    return [spacy_entities.SpacyDetector(name.removeprefix(f"{SPACY}:"))]
