"""Makes token batches, and computes the loss of a causal language model for each record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

IGNORED = -100  # the label of tokens without a loss
_PADDING = 0  # any id works, because the mask marks padding


@dataclass(frozen=True, kw_only=True)
class Example:
    """One training example: `tokens` (length,) int32, with a loss on all except the first
    `prompt_length`.

    `given` (length,) bool marks further tokens without a loss; None if there are none.
    """

    tokens: NDArray[np.int32]
    prompt_length: int
    given: NDArray[np.bool_] | None = None


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """Examples padded on the right to the same length; each tensor is (records, length) int64."""

    ids: Tensor
    mask: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device) -> TokenBatch:
        return TokenBatch(
            ids=self.ids.to(device), mask=self.mask.to(device), labels=self.labels.to(device)
        )


LossFunction = Callable[[nn.Module, Any], Tensor]


def pad_together(
    examples: Sequence[Example], *, shape: tuple[int, int] | None = None
) -> TokenBatch:
    """Pad examples to one batch, (records, longest) or `shape`. End-of-text tokens keep their loss.

    Rows without an example have one token and no loss, so their gradients are zero.
    """
    if shape is None:
        shape = (len(examples), max(len(example.tokens) for example in examples))
    ids, labels = np.full(shape, _PADDING), np.full(shape, IGNORED)
    mask = np.zeros(shape, dtype=np.int64)
    mask[len(examples) :, 0] = 1
    for row, example in enumerate(examples):
        length, start = len(example.tokens), example.prompt_length
        ids[row, :length] = example.tokens
        mask[row, :length] = 1
        labels[row, start:length] = example.tokens[start:]
        if example.given is not None:
            labels[row, :length][example.given] = IGNORED
    return TokenBatch(
        ids=torch.from_numpy(ids), mask=torch.from_numpy(mask), labels=torch.from_numpy(labels)
    )


def record_losses(model: nn.Module, batch: TokenBatch) -> Tensor:
    """Compute each record's cross-entropy, averaged over its *own* tokens: (records,), in nats.

    Guarantee: a record's loss depends on that record alone. The loss of Hugging Face has no such
    guarantee. Hugging Face computes a mean over the tokens of a batch, so the weight of a record
    depends on the other records. A record without a token to predict has loss 0.
    """
    sums, counts = token_losses(model, batch)
    return sums / counts.clamp(min=1)


def token_losses(model: nn.Module, batch: TokenBatch) -> tuple[Tensor, Tensor]:
    """Compute each record's summed cross-entropy in nats, and its number of predicted tokens."""
    positions = torch.arange(batch.ids.shape[1], device=batch.ids.device)
    logits = model(
        input_ids=batch.ids,
        attention_mask=batch.mask,
        position_ids=positions.repeat(len(batch), 1),  # Opacus' hooks need positions per record
        use_cache=False,
    ).logits
    # Position t - 1 predicts the token at position t. Moving the labels avoids a copy of the
    # logits.
    targets = F.pad(batch.labels[:, 1:], (0, 1), value=IGNORED)
    losses = F.cross_entropy(
        logits.flatten(0, 1).float() if logits.dtype is torch.bfloat16 else logits.flatten(0, 1),
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="none",
    )
    return losses.view(targets.shape).sum(1), targets.ne(IGNORED).sum(1)


@torch.inference_mode()
def perplexity(model: nn.Module, examples: Sequence[Example], *, batch_size: int) -> float:
    """Compute the exponential of the mean loss per token. The perplexity of private texts is
    private.

    Raises ValueError when there is no token to predict.
    """
    device = next(model.parameters()).device
    model.eval()
    total = count = 0.0
    ordered = sorted(examples, key=lambda example: len(example.tokens))
    for start in range(0, len(ordered), batch_size):
        sums, counts = token_losses(
            model, pad_together(ordered[start : start + batch_size]).to(device)
        )
        total, count = total + float(sums.sum()), count + float(counts.sum())
    if not count:
        raise ValueError("no token to predict")
    return math.exp(total / count)
