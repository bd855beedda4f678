"""Trains the first model of a data set on its public texts. Every method starts from this model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from research.leakage.grid import HEADS, ModelKind, ModelSize, TrainingSettings
from sugarbush.training import (
    Decay,
    Example,
    Learning,
    LstmModel,
    ModelShape,
    OrdinaryTraining,
    add_mask_token,
    new_model,
    text_units,
    train_on_public,
    train_tokenizer,
)

MICRO_BATCH_TOKENS = 8192
_SEED = 1  # seed of the initial weights and of the order of the public texts


@dataclass(frozen=True)
class FirstModel:
    """A model and its tokenizer. Texts are cut at `context` tokens."""

    model: Any
    tokenizer: Any
    context: int

    def examples(self, texts: Sequence[str]) -> list[tuple[Example]]:
        return text_units(texts, tokenizer=self.tokenizer, max_length=self.context)


def untrained(public: Sequence[str], shape: ModelSize, model: ModelKind) -> FirstModel:
    """Make an untrained model of size `shape`, and train its tokenizer on the public texts."""
    tokenizer = train_tokenizer(public, vocabulary=shape.vocabulary)
    add_mask_token(tokenizer)
    made: Any = (
        LstmModel(vocabulary=len(tokenizer), width=shape.width, seed=_SEED)
        if model is ModelKind.LSTM
        else new_model(
            tokenizer,
            ModelShape(layers=shape.layers, width=shape.width, heads=HEADS, context=shape.context),
            seed=_SEED,
        )
    )
    return FirstModel(made, tokenizer, shape.context)


def train_first_model(start: FirstModel, public: Sequence[str], training: TrainingSettings) -> None:
    """Train the first model, in place."""
    train_on_public(
        start.model,
        [example for (example,) in start.examples(public)],
        training=OrdinaryTraining(
            learning=learning_at(training.learning_rate, Decay.LINEAR),
            epochs=training.public_epochs,
            batch_size=training.batch_size,
            micro_batch_tokens=MICRO_BATCH_TOKENS,
            bfloat16=False,
        ),
        seed=_SEED,
    )


def learning_at(rate: float, decay: Decay = Decay.CONSTANT) -> Learning:
    """Return the settings of AdamW for a learning rate. All trainings of a grid use these
    settings."""
    return Learning(learning_rate=rate, decay=decay, warmup_steps=0, weight_decay=0.0)
