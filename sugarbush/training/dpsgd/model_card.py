"""The model card of a model that was trained by DP-SGD.

The card depends on settings and released values only. The card does not contain the number of
records.
"""

from __future__ import annotations

import math
from typing import Any

from sugarbush.paths import last_part
from sugarbush.privacy.accounting import epsilon as epsilon_of
from sugarbush.privacy.events import NonPrivate
from sugarbush.privacy.spending import WHEN_WRITTEN, Spending
from sugarbush.privacy.unit import ADJACENCY, Unit
from sugarbush.training.dpsgd.settings import DpSgdSettings
from sugarbush.training.dpsgd.train import Mechanism


def model_card(
    mechanism: Mechanism,
    *,
    steps_taken: int,
    spending: Spending,
    unit: Unit,
    records_per_unit: int,
    delta: float,
    settings: DpSgdSettings,
) -> dict[str, Any]:
    """Return the card as plain values for JSON. An infinite epsilon is the text "infinity".

    `steps_taken` is below `mechanism.steps` if crashes lost more steps than may be repeated.
    The charges `own` of `spending` are those of the training and of all that it may depend on: the
    profiles of the dataset and the DP table. Their results may decide the rate, the number of steps
    and the noise. `mechanism.charge` covers every result. The first epsilon counts all charges of
    the dataset, because this model may be chosen among several results.
    """
    private = not isinstance(mechanism.event, NonPrivate)
    charge = mechanism.charge
    return {
        "unit": unit.value,
        "records_per_unit": records_per_unit,
        "adjacency": ADJACENCY,
        "epsilon": _number(spending.epsilon),
        "epsilon_of_this_run": _number(spending.of_run),
        "epsilon_of_training_alone": _number(epsilon_of([charge], delta=delta)),
        "dataset_total_epsilon": _number(spending.total),
        "delta": delta,
        "mechanism": "DP-SGD: Poisson sampling, clipping of the gradient of one record "
        "per unit and step, Gaussian noise"
        if private
        else "training without differential privacy",
        "noise_multiplier": mechanism.noise_multiplier,
        "sampling_rate": mechanism.rate,
        "steps": mechanism.steps,
        "steps_taken": steps_taken,
        "repeatable_steps": mechanism.repeatable_steps,
        "clip_norm": mechanism.clip_norm,
        "expected_batch_size": mechanism.expected_batch_size,
        "starts_from": last_part(settings.model),
        "trained": "all weights"
        if settings.lora_rank is None
        else f"low-rank factors of rank {settings.lora_rank}, merged",
        "max_length": settings.max_length,
        "learning": {
            "optimizer": "AdamW",
            "learning_rate": settings.learning_rate,
            "decay": settings.decay,
            "warmup_steps": settings.warmup_steps,
            "weight_decay": settings.weight_decay,
        },
        "remarks": [
            f"{WHEN_WRITTEN} The release card counts them, too. epsilon_of_this_run covers the "
            "training, the DP table and every profile of the dataset.",
            "The charge covers the steps and the repeatable steps, even if these were not needed.",
            "The weights are those after the last step. The number of steps was fixed before the "
            "first step; a run that was killed too often has taken fewer steps.",
            "Noise is drawn in floating point from a generator that the operating system seeds "
            "for each step; Poisson samples use random bits of the operating system.",
            "The model that training starts from, and the texts that it was trained on, are "
            "public and not protected.",
        ],
    }


def _number(value: float) -> float | str:
    return "infinity" if math.isinf(value) else value
