"""Writes the guarantee of a run of CRT: confidentiality, and no DP epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.binomial import BoundedShare
from sugarbush.privacy.events import ConfidentialTraining
from sugarbush.training.crt.confidentiality import bayesian, uniform
from sugarbush.training.crt.recall import RecallMeasurement

_GAMMAS = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)


def confidentiality_card(
    training: ConfidentialTraining,
    *,
    gamma: float,
    delta: float,
    measured: RecallMeasurement | None,
    all_private: bool = True,
    other_packages: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the card as JSON: the guarantee for a secret, its assumptions and its limits.

    `gamma` is the miss rate of the accounting. A measured miss rate is an upper bound.
    `all_private` is False if there is a conservative policy. A conservative policy may declare a
    text with a secret public. So the card then states no guarantee for every secret. `confidence`
    holds for gamma and delta_2 together. `other_packages` have a detector that read the texts.
    """
    delta_2 = 0.0 if all_private or measured is None else measured.delta_2
    average = bayesian(training, gamma=gamma, delta=delta, delta_2=delta_2)

    def epsilon_at(value: float) -> float | str:
        return _number(bayesian(training, gamma=value, delta=delta, delta_2=delta_2).epsilon)

    always = uniform(training, delta=delta).epsilon if all_private else math.inf
    return {
        "heading": "Confidentiality, not differential privacy",
        "protects": "one secret in one record after deduplication: replacing the secret by a mask "
        "changes the distribution of the model by at most this",
        "relation": "replace one",
        "differential_privacy": {
            "epsilon": "infinite: after deduplication, one record can change two"
        },
        "mechanism": training.as_dict(),
        "in_theorem": True,
        "uniform": {"epsilon": _number(always), "delta": delta},
        "bayesian": {
            "epsilon": _number(average.epsilon),
            "delta": average.delta,
            "delta_2": delta_2,
            "gamma": gamma,
            "gamma_from": _source(gamma, measured),
            "confidence": None if measured is None else measured.confidence,
        },
        "by_gamma": [{"gamma": value, "epsilon": epsilon_at(value)} for value in _GAMMAS],
        "by_kind": {}
        if measured is None
        else {
            label: {
                "gamma": _number(share.upper),
                "secrets": share.total,
                "epsilon": epsilon_at(share.upper),
            }
            for label, share in measured.traced_by_label.items()
        },
        "recall": None if measured is None else _recall(measured),
        "not_covered": [
            "Other trainings on the same texts, and a choice among several: this card is about one "
            "training. Everything else that was drawn from the texts adds to what is known of a "
            "secret.",
            "A secret in several different sentences: epsilon grows with their number (group "
            "confidentiality).",
            "Whatever the policy does not define as a secret, such as authorship.",
            "A secret in a sentence of the texts that are given as known to all.",
            "Secrets from another source than the labelled secrets, which measured gamma.",
            "Kinds of secrets without a label, and kinds that methods.crt.must_find leaves out. "
            "The gamma of each kind holds alone, and not for all kinds at once.",
            "Secrets in the labelled texts: they determine gamma and so the noise. A redactor that "
            "was tuned with them may also reveal them by what it masks in other texts.",
            *_code_of(other_packages),
        ],
    }


def _code_of(packages: Sequence[str]) -> list[str]:
    return [
        f"The code of {package}: it read the private texts, as a detector." for package in packages
    ]


def _source(gamma: float, measured: RecallMeasurement | None) -> str:
    if measured is not None and gamma == measured.gamma:
        return measured.sample
    if measured is None and gamma == 1:
        return "nothing measured: the policy is not trusted"
    return "a setting"


def _recall(measured: RecallMeasurement) -> dict[str, Any]:
    return {
        "sample": measured.sample,
        "counted": "distinct secrets: text (without case and repeated white space) and label",
        "confidence": measured.confidence,
        "missed": _share(measured.missed),
        "missed_by_label": {k: _share(v) for k, v in measured.missed_by_label.items()},
        "precision": _share(measured.precision),
        "confidence_each": measured.confidence_each,
        "texts_left_out": measured.left_out,
        "labels_left_out": list(measured.left_out_labels),
        "traced": _share(measured.traced),
        "shown": None if measured.public is None else _share(measured.public),
    }


def _share(share: BoundedShare) -> dict[str, float]:
    return {
        "count": share.count,
        "total": share.total,
        "lower": float(rounded_down(share.lower, 5)),
        "upper": float(rounded_up(share.upper, 5)),
    }


def _number(value: float) -> float | str:
    """Round a bound up, because the card must not state less than the bound."""
    return float(rounded_up(value, 5)) if math.isfinite(value) else "infinite"
