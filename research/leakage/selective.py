"""Selective DP-SGD for the LSTM. This baseline adds noise only where the policy finds a secret.

    private tokens        per-record clipped and noised gradients, as in DP-SGD
    the end of a span     the hidden and cell state are clipped together and noised
    public tokens         ordinary gradients, neither clipped nor noised

A loss is private if its target is private, or if its state has read a private token since the last
noise. If the policy misses a secret, the tokens of the secret are public tokens, and their gradient
has no bound. `true_cost` gives the guarantee of a policy that misses nothing.

The texts must be public. The noise has a public seed, so a run can be repeated. Noise with a public
seed protects nobody. Source: Shi et al. 2022, "Selective Differential Privacy for Language
Modeling", Algorithm 1, with Poisson samples and one loss per record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from dp_accounting import get_epsilon_gaussian
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor
from torch.nn import functional as F

from sugarbush.randomness import public_rng, seed_of
from sugarbush.training import Learning, LstmModel, PerRecordClipper, Policy


@dataclass(frozen=True, kw_only=True)
class MarkedExample:
    """The tokens of a text, (length,) int32, and which tokens are private, (length,) bool."""

    tokens: NDArray[np.int32]
    private: NDArray[np.bool_]


def marked_examples(
    texts: Sequence[str], *, policy: Policy, tokenizer: Any, max_length: int
) -> list[MarkedExample]:
    """Make one example per text: the text between two end tokens, cut at `max_length` tokens.

    A token is private if any of its characters is in a span of `policy`. If a text contains the
    name of a special token, this name is read as ordinary text.
    """
    end = tokenizer.eos_token_id
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=True,
        truncation=True,  # without truncation, the tokenizer prints the length of a long text
        max_length=max_length,
    )
    examples = []
    for ids, offsets, spans in zip(
        encoded["input_ids"], encoded["offset_mapping"], policy.spans(texts), strict=True
    ):
        private = [any(s.start < b and a < s.end for s in spans) for a, b in offsets]
        examples.append(
            MarkedExample(
                tokens=np.array([end, *ids, end][:max_length], dtype=np.int32),
                private=np.array([False, *private, False][:max_length]),
            )
        )
    return examples


@dataclass(frozen=True, kw_only=True)
class SelectiveMechanism:
    """The noise of a run. Each noise multiplier is a stddev divided by its clip norm."""

    rate: float
    steps: int
    expected_batch_size: float
    gradient_noise: float
    state_noise: float
    clip_norm: float
    state_clip_norm: float


def true_cost(mechanism: SelectiveMechanism, *, gamma: float, delta: float) -> float:
    """Return epsilon for replacing a secret in one span of one record.

    `gamma` is the share of secrets that the policy misses. If `gamma` > 0, epsilon is infinite.
    Otherwise each sampling of the record releases its gradient and one state. Gradient and state
    each have a sensitivity of 2 clip norms. So mu^2 = 4 / gradient_noise^2 + 4 / state_noise^2.
    Sampling gives no amplification, because the gradient of the public tokens has no noise and
    shows which records were sampled. The length of a span counts as public. Half of `delta` covers
    the chance that a record is sampled more often than assumed.
    """
    if gamma > 0:
        return math.inf
    times = int(binom.isf(delta / 2, mechanism.steps, mechanism.rate))
    if times == 0:
        return 0.0
    mu = 2 * math.sqrt(times * (mechanism.gradient_noise**-2 + mechanism.state_noise**-2))
    return float(get_epsilon_gaussian(1 / mu, delta / 2))


def train_selectively(
    model: LstmModel,
    examples: Sequence[MarkedExample],
    *,
    mechanism: SelectiveMechanism,
    learning: Learning,
    seed: int,
) -> None:
    """Train `model` in place on public `examples`."""
    optimizer = learning.optimizer(model)
    sampling = public_rng(seed, "selective samples")
    noise = torch.Generator().manual_seed(seed_of(seed, "selective noise"))
    model.train()
    for done in range(mechanism.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning.rate_at(done, steps=mechanism.steps)
        sampled = np.flatnonzero(sampling.random(len(examples)) < mechanism.rate).tolist()
        sums = gradient_sums(model, [examples[i] for i in sampled], mechanism, noise)
        add_noise(sums.private, stddev=mechanism.gradient_noise * mechanism.clip_norm, noise=noise)
        for parameter, public, private in zip(
            model.parameters(), sums.public, sums.private, strict=True
        ):
            parameter.grad = (public + private) / mechanism.expected_batch_size
        optimizer.step()
    optimizer.zero_grad()


def add_noise(tensors: Iterable[Tensor], *, stddev: float, noise: torch.Generator) -> None:
    """Add N(0, stddev^2) to every number of every tensor, in place."""
    for tensor in tensors:
        tensor.add_(torch.randn(tensor.shape, generator=noise), alpha=stddev)


@dataclass(frozen=True)
class GradientSums:
    """For each parameter, the sum of public gradients and the sum of clipped private gradients."""

    public: list[Tensor]
    private: list[Tensor]


def gradient_sums(
    model: LstmModel,
    examples: Sequence[MarkedExample],
    mechanism: SelectiveMechanism,
    noise: torch.Generator,
) -> GradientSums:
    """Compute both sums, with the noise on states but without the noise on gradients.

    The public and the private pass use the same noise on states, so each state is released once.
    """
    zeros = [torch.zeros_like(p) for p in model.parameters()]
    if not examples:
        return GradientSums(zeros, [z.clone() for z in zeros])
    batch = _padded(examples)
    on_states = torch.zeros((*batch.ids.shape, 2 * model.width))
    stddev = mechanism.state_noise * mechanism.state_clip_norm
    add_noise([on_states], stddev=stddev, noise=noise)
    gate = _noisy_state(batch, on_states, mechanism.state_clip_norm)
    losses = _losses(model, batch, gate, of_private=False)
    public = torch.autograd.grad(losses.sum(), list(model.parameters()), materialize_grads=True)
    clipper = PerRecordClipper(model, clip_norm=mechanism.clip_norm)
    model.zero_grad(set_to_none=True)
    try:
        with clipper.recording(records=len(examples)):
            clipper.add_clipped(_losses(model, batch, gate, of_private=True))
    finally:
        clipper.remove()
    private = [p.grad for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    return GradientSums(list(public), private)


@dataclass(frozen=True)
class _Batch:
    """A batch padded on the right, (records, length). `present` is False for padding."""

    ids: Tensor
    private: Tensor
    present: Tensor


def _padded(examples: Sequence[MarkedExample]) -> _Batch:
    shape = (len(examples), max(len(e.tokens) for e in examples))
    ids, private, present = np.zeros(shape, np.int64), np.zeros(shape, bool), np.zeros(shape, bool)
    for row, example in enumerate(examples):
        length = len(example.tokens)
        ids[row, :length], private[row, :length] = example.tokens, example.private
        present[row, :length] = True
    return _Batch(torch.from_numpy(ids), torch.from_numpy(private), torch.from_numpy(present))


def _noisy_state(batch: _Batch, noise: Tensor, clip_norm: float) -> Callable[[int, Any], Any]:
    """Return a gate that clips both states together and adds the noise at each end of a span.

    The gradients of later losses do not pass through the gate.
    """
    ends = batch.private & ~F.pad(batch.private[:, 1:], (0, 1), value=False)

    def gate(place: int, state: Any) -> Any:
        at_end = ends[:, place, None]
        if not bool(at_end.any()):
            return state
        both = torch.cat([state.hidden, state.cell], dim=1).detach()
        scale = (clip_norm / both.norm(dim=1, keepdim=True).clamp(min=1e-12)).clamp(max=1.0)
        hidden, cell = (both * scale + noise[:, place].to(both)).chunk(2, dim=1)
        return replace(
            state,
            hidden=torch.where(at_end, hidden, state.hidden),
            cell=torch.where(at_end, cell, state.cell),
        )

    return gate


def _losses(
    model: LstmModel, batch: _Batch, gate: Callable[[int, Any], Any], *, of_private: bool
) -> Tensor:
    """Return each record's loss over its private or its public targets, (records,).

    The sum of losses is divided by the number of all targets of the record.
    """
    logits = model(batch.ids, gate=gate).logits[:, :-1]
    losses = F.cross_entropy(logits.transpose(1, 2), batch.ids[:, 1:], reduction="none")
    private = batch.private[:, 1:] | batch.private[:, :-1]
    chosen = batch.present[:, 1:] & (private if of_private else ~private)
    return (losses * chosen).sum(1) / batch.present[:, 1:].sum(1).clamp(min=1)
