"""Measures the perplexity of a trained model of the grid, and attacks the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from research.leakage.corpus import LeakageCorpus, Planted
from research.leakage.exposure import candidate_losses, ranked
from research.leakage.first_model import FirstModel
from research.leakage.grid import LeakageGrid
from research.leakage.membership import Attack, attack, by_perplexity, by_reference, groups
from research.leakage.selective import marked_examples
from sugarbush.training import (
    Example,
    Policy,
    RegexDetector,
    pad_together,
    token_losses,
)

BATCH = 32
Candidates = tuple[list[int], NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Losses:
    """The mean loss per token of a model for each text, and its perplexity on the other texts.

    `outside` is the perplexity on tokens outside the spans that a pattern finds.
    """

    members: NDArray[np.float64]
    others: NDArray[np.float64]
    perplexity: float
    outside: float


def losses_of(model: Any, start: FirstModel, corpus: LeakageCorpus) -> Losses:
    """Compute the losses for the attacks on membership, for equally many members and other
    texts."""
    (members, _), (others, whole) = (
        _mean_losses(model, start.examples(texts[: len(corpus.others)]))
        for texts in (corpus.members, corpus.others)
    )
    marks = marked_examples(
        corpus.others,
        policy=Policy([RegexDetector()]),
        tokenizer=start.tokenizer,
        max_length=start.context,
    )
    plain = [
        (replace(example, given=mark.private),)
        for (example,), mark in zip(start.examples(corpus.others), marks, strict=True)
    ]
    return Losses(
        members=members,
        others=others,
        perplexity=whole,
        outside=_mean_losses(model, plain)[1],
    )


def attacks(
    model: Any,
    own: Losses,
    before: Losses,
    planted: Planted,
    candidates: Candidates,
    *,
    grid: LeakageGrid,
    seed: int,
) -> dict[str, Any]:
    """Run three attacks: exposure of canaries, membership of texts, membership of groups of texts.

    `before` contains the losses of the first model. This model was not trained on members or other
    texts, so it is the reference of the attacks on membership.
    """
    exposed = ranked(candidate_losses(model, *candidates), planted.canaries)
    scores = [by_perplexity(own.members), by_perplexity(own.others)]
    against = attack(
        by_reference(own.members, before.members), by_reference(own.others, before.others)
    )
    grouped = attack(
        *(
            groups(side, count=grid.groups, size=grid.group_size, seed=2 * seed + place)
            for place, side in enumerate(scores)
        )
    )
    bits = np.array(exposed.bits)
    return {
        "perplexity": own.perplexity,
        "perplexity_outside": own.outside,
        "start_perplexity": before.perplexity,
        "start_perplexity_outside": before.outside,
        "exposure_mean": exposed.mean,
        "exposure_highest": exposed.highest,
        "exposure_missed": bits[planted.missed].round(2).tolist(),
        **_named("membership", attack(*scores)),
        **_named("reference", against),
        **_named("group", grouped),
    }


def _named(name: str, found: Attack) -> dict[str, float]:
    return {
        f"{name}_accuracy": found.accuracy.value,
        f"{name}_auc": found.auc.value,
        f"{name}_tpr_1": found.true_positives_at_1_percent.value,
    }


@torch.inference_mode()
def _mean_losses(model: Any, units: Sequence[tuple[Example]]) -> tuple[NDArray[np.float64], float]:
    """Return the mean loss per token of each text, and the perplexity over all texts."""
    model.eval()
    sums, counts = [], []
    for first in range(0, len(units), BATCH):
        batch = pad_together([example for (example,) in units[first : first + BATCH]])
        summed, counted = token_losses(model, batch)
        sums.append(summed.double().numpy())
        counts.append(counted.numpy())
    total, count = np.concatenate(sums), np.concatenate(counts)
    return total / count, float(np.exp(total.sum() / count.sum()))
