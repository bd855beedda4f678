"""Selective DP-SGD for the LSTM, a baseline: noise only where the policy found a secret.

    private tokens    per-record clipped and noised gradients, as in DP-SGD
    a span's end      hidden and cell state, clipped together and noised, go on to public tokens
    public tokens     ordinary gradients, neither clipped nor noised

A loss is private if its target is private, or if its state has read a private token since the last
noise. This training is charged as not private. If the policy misses a secret, the tokens of the
secret are public tokens, and their gradient has no bound. `true_cost` gives the guarantee of a
policy that misses nothing. Source: Shi et al. 2022, "Selective Differential Privacy for Language
Modeling", Algorithm 1, with Poisson samples and one loss per record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor
from torch.nn import functional as F

from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import GaussianDp, NonPrivate
from sugarbush.privacy.noise import add_gaussian
from sugarbush.privacy.session import PrivacySession
from sugarbush.training.crt.confidentiality import Guarantee
from sugarbush.training.crt.lstm import LstmModel, State
from sugarbush.training.crt.redact import Policy
from sugarbush.training.dpsgd.clipping import PerRecordClipper
from sugarbush.training.dpsgd.sampling import PoissonSampler
from sugarbush.training.dpsgd.train import Learning


@dataclass(frozen=True, kw_only=True)
class MarkedExample:
    """The tokens of a text, (length,) int32, and which tokens are private, (length,) bool."""

    tokens: NDArray[np.int32]
    private: NDArray[np.bool_]


def marked_units(
    texts: Sequence[str], *, policy: Policy, tokenizer: Any, max_length: int
) -> list[tuple[MarkedExample]]:
    """Make one unit per text: the text between two end tokens, cut at `max_length` tokens.

    A token is private when any of its characters is in a span of `policy`. The name of a special
    token in a text is read as ordinary text.
    """
    end = tokenizer.eos_token_id
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=True,
        truncation=True,  # else the tokenizer prints the length of a long text
        max_length=max_length,
    )
    units = []
    for ids, offsets, spans in zip(
        encoded["input_ids"], encoded["offset_mapping"], policy.spans(texts), strict=True
    ):
        private = [any(s.start < b and a < s.end for s in spans) for a, b in offsets]
        units.append(
            (
                MarkedExample(
                    tokens=np.array([end, *ids, end][:max_length], dtype=np.int32),
                    private=np.array([False, *private, False][:max_length]),
                ),
            )
        )
    return units


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


def true_cost(mechanism: SelectiveMechanism, *, gamma: float, delta: float) -> Guarantee:
    """Return the guarantee for a secret in one span of one record, under REPLACE_ONE.

    Epsilon is infinite if the policy misses a share `gamma` > 0. Otherwise each sampling of the
    record releases its gradient and one state. Both have a sensitivity of twice their clip norm, so
    mu^2 = 4 / gradient_noise^2 + 4 / state_noise^2. Sampling gives no amplification: the gradient
    of the public tokens has no noise and shows which records were sampled. The length of a span
    counts as public. Half of `delta` covers the chance that a record is sampled more often than
    assumed.
    """
    if gamma > 0:
        return Guarantee(epsilon=math.inf, delta=delta)
    times = int(binom.isf(delta / 2, mechanism.steps, mechanism.rate))
    if times == 0:
        return Guarantee(epsilon=0.0, delta=delta)
    mu = 2 * math.sqrt(times * (mechanism.gradient_noise**-2 + mechanism.state_noise**-2))
    return Guarantee(epsilon=epsilon([GaussianDp(mu=mu)], delta=delta / 2), delta=delta)


def train_selectively(
    model: LstmModel,
    units: Private[Sequence[MarkedExample]],
    *,
    mechanism: SelectiveMechanism,
    learning: Learning,
    session: PrivacySession,
) -> Released[LstmModel]:
    """Train `model` in place.

    The training is charged as `NonPrivate` before the first sample. The model is never released.
    """
    charge = session.charge(NonPrivate())
    optimizer = learning.optimizer(model)
    sampler = PoissonSampler(units, rate=mechanism.rate)
    model.train()
    for done in range(mechanism.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning.rate_at(done, steps=mechanism.steps)
        sums = gradient_sums(model, sampler.draw(), mechanism)
        add_gaussian(sums.private, stddev=mechanism.gradient_noise * mechanism.clip_norm)
        for parameter, public, private in zip(
            model.parameters(), sums.public, sums.private, strict=True
        ):
            parameter.grad = (public + private) / mechanism.expected_batch_size
        optimizer.step()
    optimizer.zero_grad()
    return Released(model, (charge,))


@dataclass(frozen=True)
class GradientSums:
    """Sums over a sample, per parameter: of public gradients, and of clipped private gradients."""

    public: list[Tensor]
    private: list[Tensor]


def gradient_sums(
    model: LstmModel, examples: Sequence[MarkedExample], mechanism: SelectiveMechanism
) -> GradientSums:
    """Compute both sums, with the noise on states but without the noise on gradients.

    The sums are zero without examples. Both passes use the same noise on states, so each state is
    released once.
    """
    zeros = [torch.zeros_like(p) for p in model.parameters()]
    if not examples:
        return GradientSums(zeros, [z.clone() for z in zeros])
    batch = _padded(examples)
    noise = torch.zeros((*batch.ids.shape, 2 * model.width))
    add_gaussian([noise], stddev=mechanism.state_noise * mechanism.state_clip_norm)
    gate = _noisy_state(batch, noise, mechanism.state_clip_norm)
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


def _noisy_state(batch: _Batch, noise: Tensor, clip_norm: float) -> Callable[[int, State], State]:
    """Return a gate that clips both states together and adds the noise, at each end of a private
    span. The gradients of later losses do not pass through the gate."""
    ends = batch.private & ~F.pad(batch.private[:, 1:], (0, 1), value=False)

    def gate(place: int, state: State) -> State:
        at_end = ends[:, place, None]
        if not bool(at_end.any()):
            return state
        both = torch.cat([state.hidden, state.cell], dim=1).detach()
        scale = (clip_norm / both.norm(dim=1, keepdim=True).clamp(min=1e-12)).clamp(max=1.0)
        hidden, cell = (both * scale + noise[:, place].to(both)).chunk(2, dim=1)
        return State(
            torch.where(at_end, hidden, state.hidden), torch.where(at_end, cell, state.cell)
        )

    return gate


def _losses(
    model: LstmModel, batch: _Batch, gate: Callable[[int, State], State], *, of_private: bool
) -> Tensor:
    """Return each record's loss over its private targets, or over its public ones, (records,). The
    sum of losses is divided by the number of all targets of the record."""
    logits = model(batch.ids, gate=gate).logits[:, :-1]
    losses = F.cross_entropy(logits.transpose(1, 2), batch.ids[:, 1:], reduction="none")
    private = batch.private[:, 1:] | batch.private[:, :-1]
    chosen = batch.present[:, 1:] & (private if of_private else ~private)
    return (losses * chosen).sum(1) / batch.present[:, 1:].sum(1).clamp(min=1)
