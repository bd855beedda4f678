"""Runs DP-SGD on canaries, with a tiny model in which every canary has its own weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sugarbush.privacy.data_types import Private
from sugarbush.privacy.session import PrivacySession
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.language_modelling import Example, pad_together, record_losses
from sugarbush.training.dpsgd.train import Decay, Learning, Mechanism, Performance, Training, train

_CLIP_NORM = 0.1  # far below the norm of a canary's gradient, so that every gradient is clipped
_LEARNING = Learning(learning_rate=1e-3, decay=Decay.CONSTANT, warmup_steps=0, weight_decay=0.0)


class RowPerCanary(nn.Module):
    """Predicts one of two tokens. The logits after token i are row i of one matrix."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, 2)
        nn.init.zeros_(self.table.weight)

    def forward(self, input_ids: Tensor, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(logits=self.table(input_ids))


def train_on_canaries(
    included: NDArray[np.bool_],
    *,
    steps: int,
    noise_multiplier: float,
    session: PrivacySession,
    folder: Path,
) -> NDArray[np.float64]:
    """Train on the included canaries, and return the scores of all canaries, `(m,)`. The attacker
    sees the weights before every step, and the noisy gradient sum of the step."""
    canaries = [_example(i, 0) for i in range(len(included))]
    units: Private[Sequence[Example]] = Private([(canaries[i],) for i in np.flatnonzero(included)])
    model = RowPerCanary(len(included))
    attacker = _Attacker(model, canaries, batch_size=len(included) / 2)
    train(
        model,
        units,
        training=Training(
            mechanism=Mechanism(
                rate=1.0,
                steps=steps,
                repeatable_steps=0,
                noise_multiplier=noise_multiplier,
                clip_norm=_CLIP_NORM,
                expected_batch_size=attacker.batch_size,
            ),
            learning=_LEARNING,
            performance=Performance(micro_batch_tokens=2**14, checkpoint_every=steps),
        ),
        probe=[_example(0, 0), _example(1, 0, 0)],
        checkpoints=Checkpoints(folder),
        session=session,
        before_step=attacker.before_step,
    )
    attacker.read_noisy_sum()
    return attacker.scores


class _Attacker:
    def __init__(
        self, model: RowPerCanary, canaries: Sequence[Example], *, batch_size: float
    ) -> None:
        self._model, self._batch, self.batch_size = model, pad_together(canaries), batch_size
        self._directions = np.zeros((len(canaries), 2))
        self.scores = np.zeros(len(canaries))

    def before_step(self, done: int) -> None:
        if done:
            self.read_noisy_sum()
        self._directions = self._clipped_gradients()

    def read_noisy_sum(self) -> None:
        """Add the products of the last step. `grad` contains its noisy mean gradient."""
        noisy_mean = self._model.table.weight.grad
        assert noisy_mean is not None
        noisy_sum = noisy_mean.double().numpy() * self.batch_size
        self.scores += (noisy_sum * self._directions).sum(axis=1) / _CLIP_NORM**2

    def _clipped_gradients(self) -> NDArray[np.float64]:
        """Return the clipped gradients of all canaries at the present weights. The gradient of
        canary i is zero except in row i. Row i of the result is this row."""
        losses = record_losses(self._model, self._batch)
        (gradient,) = torch.autograd.grad(losses.sum(), [self._model.table.weight])
        rows = gradient.double().numpy()
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows * np.minimum(1.0, _CLIP_NORM / np.maximum(norms, 1e-12)))


def _example(*tokens: int) -> Example:
    return Example(tokens=np.array(tokens, dtype=np.int32), prompt_length=0)
