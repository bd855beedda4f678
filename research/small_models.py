"""Trains the small models that metrics use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoConfig

from sugarbush.randomness import Rng, public_rng

Batch = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """Hyperparameters of one training. Texts are cut after `max_tokens` tokens."""

    epochs: int
    batch_texts: int
    learning_rate: float
    weight_decay: float
    max_tokens: int


def window(model: str, tokenizer: Any, max_tokens: int) -> int:
    """Return the number of tokens at which texts are cut.

    The result is `max_tokens`, or the limit of `model` if this is smaller. Two positions of RoBERTa
    are not for tokens, so the limit of the tokenizer counts too.
    """
    positions = getattr(AutoConfig.from_pretrained(model), "max_position_embeddings", max_tokens)
    return min(max_tokens, int(positions), int(tokenizer.model_max_length))


def device() -> torch.device:
    """Return a GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fit(
    model: nn.Module,
    texts: int,
    *,
    batch_of: Callable[[NDArray[np.intp]], Batch],
    training: Hyperparameters,
    seed: int,
) -> None:
    """Train in place by AdamW, with a linearly falling learning rate and a new order per epoch.

    `batch_of` converts indices of texts to arguments of the model, on the model's device. The model
    returns its loss. On one machine, equal seeds give equal weights.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    steps = training.epochs * -(-texts // training.batch_texts)
    schedule = torch.optim.lr_scheduler.LinearLR(
        optimizer, start_factor=1.0, end_factor=0.0, total_iters=max(steps, 1)
    )
    rng = public_rng(seed, "order")
    model.train()
    with torch.random.fork_rng(devices=[device()] if device().type == "cuda" else []):
        torch.manual_seed(seed % 2**63)  # the seed of dropout
        for _ in range(training.epochs):
            for places in shuffled(texts, training.batch_texts, rng=rng):
                loss = model(**batch_of(places)).loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
    model.eval()


def shuffled(count: int, batch: int, *, rng: Rng) -> Iterator[NDArray[np.intp]]:
    """Yield all indices in random order, in batches of size `batch`."""
    order = rng.permutation(count)
    for start in range(0, count, batch):
        yield order[start : start + batch]


def seeded(make: Callable[[], nn.Module], *, seed: int) -> nn.Module:
    """Make a model with new weights that depend on `seed` alone.

    The global random state does not change.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        return make().to(device())
