"""Membership inference: was a model trained on a given text, or on a given group of texts?

A text with a higher score is more likely a member. The score is minus the log perplexity of the
model. If there is a reference model, the log perplexity of the reference model is added. The
reference model was not trained on members or non-members. The accuracy averages over all texts. The
true positive rate at 1% false positives shows attacks that succeed on few texts. Source: Carlini et
al. 2022, "Membership Inference Attacks From First Principles".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm, rankdata, t

from sugarbush.randomness import public_rng

Scores = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with a two-sided interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Measures of how well scores separate members from non-members. Random guesses have an AUC of
    0.5, a true positive rate of 0.01 and an accuracy of 0.5."""

    auc: Interval
    true_positives_at_1_percent: Interval
    accuracy: Interval


def by_perplexity(losses: Scores) -> Scores:
    """Compute scores from the mean loss per token of each text, in nats."""
    return -losses


def by_reference(losses: Scores, reference_losses: Scores) -> Scores:
    """Compute scores from the losses of the model and of a reference model."""
    return reference_losses - losses


def groups(scores: Scores, *, count: int, size: int, seed: int) -> Scores:
    """Return the sums of scores of `count` groups. A public seed chooses `size` texts per group.

    Even groups use texts with even numbers, and odd groups use texts with odd numbers. `attack`
    chooses a threshold on one half of the groups and tests it on the other half. No text is in both
    halves. Two groups of the same half can share texts. Shared texts make the intervals of one run
    too narrow, so use `over_seeds`. Raises ValueError if there are too few texts for two groups.
    """
    if len(scores) < 2 * size:
        raise ValueError(f"two groups of {size} need more than {len(scores)} texts")
    rng = public_rng(seed, "groups")
    halves = scores[::2], scores[1::2]
    return np.array(
        [rng.choice(halves[place % 2], size=size, replace=False).sum() for place in range(count)]
    )


def attack(members: Scores, others: Scores, *, confidence: float = 0.95) -> Attack:
    """Compute the AUC, the TPR at 1% FPR, and the accuracy of a threshold on the scores.

    For the accuracy, the best threshold of one half of the texts is tested on the other half. If
    the same half chose and tested the threshold, random guesses would have an accuracy above 0.5.
    The accuracy uses equally many members and non-members (`others`). Raises ValueError for fewer
    than four members or non-members, or if a score is not finite.
    """
    if not (len(members) >= 4 and len(others) >= 4):
        raise ValueError("an attack needs the scores of at least four members and four non-members")
    if not (np.isfinite(members).all() and np.isfinite(others).all()):
        raise ValueError("a score is not finite")
    at_1_percent = np.quantile(others, 0.99, method="higher")
    most = min(len(members), len(others)) // 2 * 2
    (some, more), (these, those) = ((side[:most:2], side[1:most:2]) for side in (members, others))
    right = [*_tried(some, these, more, those), *_tried(more, those, some, these)]
    return Attack(
        auc=_auc(members, others, confidence),
        true_positives_at_1_percent=_share((members > at_1_percent).tolist(), confidence),
        accuracy=_share(right, confidence),
    )


def over_seeds(values: Sequence[float]) -> Interval:
    """Return the mean over seeds with Student's 95% interval. For one value, the interval is
    infinite."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(value=mean, lower=-math.inf, upper=math.inf)
    margin = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1)
    margin = float(margin) / math.sqrt(len(values))
    return Interval(value=mean, lower=mean - margin, upper=mean + margin)


def _share(cases: Sequence[bool], confidence: float) -> Interval:
    """Return the share of true cases with its exact interval. Source: Clopper & Pearson 1934."""
    bounds = binomtest(sum(cases), len(cases)).proportion_ci(confidence, method="exact")
    return Interval(
        value=sum(cases) / len(cases), lower=float(bounds.low), upper=float(bounds.high)
    )


def _auc(members: Scores, others: Scores, confidence: float) -> Interval:
    """Estimate the probability that a member scores above another text. A tie counts half. Source
    of the interval: DeLong et al. 1988."""
    m, n = len(members), len(others)
    ranks = rankdata(np.concatenate([members, others]))
    # For each member, the fraction of non-members with a lower score. For each non-member, the
    # fraction of members with a higher score.
    of_members = (ranks[:m] - rankdata(members)) / n
    of_others = 1 - (ranks[m:] - rankdata(others)) / m
    value = float(of_members.mean())
    spread = math.sqrt(of_members.var(ddof=1) / m + of_others.var(ddof=1) / n)
    margin = float(norm.ppf((1 + confidence) / 2)) * spread
    return Interval(value=value, lower=max(0.0, value - margin), upper=min(1.0, value + margin))


def _tried(members: Scores, others: Scores, new_members: Scores, new_others: Scores) -> list[bool]:
    """Choose the best threshold on the first texts. Return, for each new text, whether the
    threshold classifies it correctly."""
    values = np.unique(np.concatenate([members, others]))
    thresholds = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])
    found = 1 - np.searchsorted(np.sort(members), thresholds) / len(members)
    passed = np.searchsorted(np.sort(others), thresholds) / len(others)
    threshold = thresholds[int(np.argmax(found + passed))]
    return [*(new_members > threshold).tolist(), *(new_others <= threshold).tolist()]
