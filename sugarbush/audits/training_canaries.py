"""Builds the training examples of an audit (canaries and known records), and computes gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sugarbush.audits.noisy_sum_attack import Seen, view_of
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.data import plain_examples
from sugarbush.training.dpsgd.language_modelling import Example, pad_together, record_losses
from sugarbush.training.dpsgd.train import Mechanism

CLIP_NORM, MAX_LENGTH = 0.1, 48
ALMOST_NONE = 1e-3  # noise multiplier in the attacker's model of a run without noise
_VOCABULARY = 640
_SHAPE = models.ModelShape(layers=1, width=16, heads=2, context=MAX_LENGTH)


@dataclass(frozen=True)
class CanaryExamples:
    """The training examples of an audit. If `replaced` is not empty, each excluded canary is
    replaced by one of its examples. `known` contains the records that the attacker knows."""

    tokenizer: Any
    included: Sequence[Example]
    replaced: Sequence[Example]
    known: Sequence[Example]

    @property
    def vocabulary(self) -> int:
        return len(self.tokenizer)

    def new_model(self) -> Any:
        return models.new_model(self.tokenizer, _SHAPE, seed=1)

    def seen(self, model: Any, mechanism: Mechanism) -> Seen:
        """Compute the attacker's view of the noisy gradient sum of one step."""
        own, known = (_clipped_gradients(model, e) for e in (self.included, self.known))
        if self.replaced:  # own or others = (own + others) / 2 ± (own - others) / 2
            others = _clipped_gradients(model, self.replaced)
            rows = np.concatenate([own - others, (own + others) / 2, known])
            spread = np.repeat([0.25, 1.0, 1.0], [len(own), len(own), len(known)])
            without = others.sum(axis=0) + known.sum(axis=0)
        else:
            rows = np.concatenate([own, known])
            spread = np.repeat([0.5, 1.0], [len(own), len(known)])
            without = known.sum(axis=0)
        noise = max(mechanism.noise_multiplier, ALMOST_NONE) * mechanism.clip_norm
        rate, m = mechanism.rate, len(own)
        view = view_of(rows, canaries=m, stddev=noise, rate=rate, spread=spread)
        return Seen(view, without=rate * without, half=rate * rows[:m].sum(axis=0) / 2)


def _clipped_gradients(model: Any, examples: Sequence[Example]) -> NDArray[np.float64]:
    losses = record_losses(model, pad_together(examples))
    found = torch.autograd.grad(
        losses,
        list(model.parameters()),
        grad_outputs=torch.eye(len(losses)),
        is_grads_batched=True,
    )
    rows = torch.cat([g.flatten(1) for g in found], dim=1).double().numpy()
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, CLIP_NORM / np.maximum(norms, 1e-12)))


def canary_examples(texts: tuple[str, ...], *, canaries: int, replaced: bool) -> CanaryExamples:
    """Return canaries that each repeat one rare token. With `replaced`, also return their
    replacements. `texts` contains the known records."""
    tokenizer = _tokenizer(texts)
    units = plain_examples(texts, tokenizer=tokenizer, max_length=MAX_LENGTH)
    rare = [_repeated(token) for token in reversed(range(len(tokenizer)))]
    others = rare[canaries : 2 * canaries] if replaced else []
    return CanaryExamples(tokenizer, rare[:canaries], others, [unit[0] for unit in units])


def _repeated(token: int) -> Example:
    return Example(tokens=np.full(MAX_LENGTH // 3, token, dtype=np.int32), prompt_length=0)


@cache
def _tokenizer(texts: tuple[str, ...]) -> Any:
    return models.train_tokenizer(texts, vocabulary=_VOCABULARY)
