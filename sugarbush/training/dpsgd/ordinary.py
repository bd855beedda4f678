"""Trains without noise: on public text, or on private text for the baseline without DP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import NonPrivate
from sugarbush.privacy.session import PrivacySession
from sugarbush.progress import with_progress
from sugarbush.randomness import public_rng
from sugarbush.training.device import enough_memory
from sugarbush.training.dpsgd.language_modelling import Example, pad_together, token_losses
from sugarbush.training.dpsgd.sampling import micro_batches
from sugarbush.training.dpsgd.train import Learning


@dataclass(frozen=True, kw_only=True)
class OrdinaryTraining:
    """A training without noise, in batches of `batch_size` examples.

    `micro_batch_tokens` are computed at once. With `bfloat16`, the passes run in bfloat16.
    """

    learning: Learning
    epochs: float
    batch_size: int
    micro_batch_tokens: int
    bfloat16: bool = False


def train_on_public(
    model: nn.Module,
    examples: Sequence[Example],
    *,
    training: OrdinaryTraining,
    seed: int,
    report: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> None:
    """Train `model` in place by AdamW on the mean loss of a batch's tokens.

    This training has no privacy guarantee. Every example occurs once per epoch, in an order that
    depends on `seed`. After a step, `report` receives the step, the number of steps, and the
    batch's loss in nats per token.
    """
    learning, capacity = training.learning, training.micro_batch_tokens
    optimizer = learning.optimizer(model)
    steps = max(1, round(training.epochs * len(examples) / training.batch_size))
    model.train()
    device = next(model.parameters()).device
    batches = zip(range(steps), _shuffled(examples, training.batch_size, seed), strict=False)
    for step, batch in with_progress(batches, steps, what="training", private=True):
        for group in optimizer.param_groups:
            group["lr"] = learning.rate_at(step, steps=steps)
        optimizer.zero_grad(set_to_none=True)
        predicted = sum(len(e.tokens) - max(1, e.prompt_length) for e in batch)
        total = 0.0
        for micro_batch in micro_batches(
            batch, size_of=lambda example: len(example.tokens), capacity=capacity
        ):
            with enough_memory(device, setting="micro_batch_tokens", value=capacity):
                padded = pad_together(micro_batch).to(device)
                with torch.autocast(device.type, torch.bfloat16, enabled=training.bfloat16):
                    sums, _ = token_losses(model, padded)
                loss = sums.sum() / max(1, predicted)
                loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        report(step + 1, steps, total)


def train_without_privacy(
    model: nn.Module,
    units: Private[Sequence[Example]],
    *,
    training: OrdinaryTraining,
    seed: int,
    session: PrivacySession,
) -> Released[nn.Module]:
    """Run `train_on_public` on private records. The ledger gets a `NonPrivate` event.

    The model shows the best quality to expect, and is never released. The training reports nothing,
    because a loss on private records is private.
    """
    charge = session.charge(NonPrivate())
    train_on_public(
        model,
        [example for unit in units._per_unit for example in unit],
        training=training,
        seed=seed,
    )
    return Released(model, (charge,))


def _shuffled(examples: Sequence[Example], batch_size: int, seed: int) -> Iterator[list[Example]]:
    """Yield batches without end. An epoch may start within a batch."""
    queue: list[int] = []
    rng = public_rng(seed, "order")
    while True:
        while len(queue) < batch_size:
            queue += rng.permutation(len(examples)).tolist()
        yield [examples[index] for index in queue[:batch_size]]
        queue = queue[batch_size:]
