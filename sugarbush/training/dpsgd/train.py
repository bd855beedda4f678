"""Trains by DP-SGD. A whole run is charged before its first step. Noise is added once per logical
step.

A step takes a secret Poisson sample and adds up clipped per-record gradients over physical
micro-batches. The step adds noise once and divides by the *expected* batch size. A step with an
empty sample is noise alone. Only the noisy sum leaves a step: no loss, no norm, no batch size.
The progress bar depends only on settings and on numbers of steps.

Guarantee: the weights after every step have the cost that `Mechanism.charge` states, under
add/remove one unit (Abadi et al. 2016, Algorithm 1, with Poisson sampling). The run releases the
weights after the last step, and this choice does not depend on the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import nn

from sugarbush.errors import FailureError, InvariantError, PrivacyError, SugarbushError
from sugarbush.privacy.accounting import Relation, epsilon, rounded_up, within
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import (
    ConfidentialTraining,
    DpSgdBound,
    DpSgdGaussianBound,
    Event,
    NonPrivate,
    PoissonGaussian,
)
from sugarbush.privacy.session import PrivacySession
from sugarbush.progress import progress
from sugarbush.training.device import enough_memory
from sugarbush.training.dpsgd import exactness
from sugarbush.training.dpsgd.checkpoints import Checkpoints, RunStart
from sugarbush.training.dpsgd.clipping import Clipper, PerRecordClipper
from sugarbush.training.dpsgd.language_modelling import (
    Example,
    TokenBatch,
    pad_together,
    record_losses,
)
from sugarbush.training.dpsgd.optimizer import NoisyOptimizer, noisy_optimizer
from sugarbush.training.dpsgd.record_gradients import MOST_POSITIONS
from sugarbush.training.dpsgd.sampling import (
    BatchShape,
    PoissonSampler,
    batch_shapes,
    batches_of_fixed_shape,
    micro_batches,
)
from sugarbush.training.processes import broadcast_from_first

_PUBLIC_STEPS = Relation.ADD_OR_REMOVE_ONE  # the relation of runs whose steps are public
_NOTES = 20  # maximum number of times that a run computes the epsilon for the progress bar


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """All parameters of the guarantee, fixed before the first step.

    `noise_multiplier` is the standard deviation of the noise divided by `clip_norm`. A run with 0
    is charged as not private. A step samples a unit with probability `rate`. `repeatable_steps`
    additional steps are charged beforehand. These steps replace steps that a crash lost. If no
    repeatable step is left, each lost step shortens the training by one step. Under REPLACE_ONE the
    run is charged as confidential training, which has no DP epsilon.

    If a DP count decided `rate` and `steps`, `bound` is the charge. It holds for every count.
    """

    rate: float
    steps: int
    repeatable_steps: int
    noise_multiplier: float
    clip_norm: float
    expected_batch_size: float
    relation: Relation = Relation.ADD_OR_REMOVE_ONE
    bound: DpSgdBound | DpSgdGaussianBound | None = None

    @property
    def draws(self) -> int:
        """The number of noisy steps that the ledger charges."""
        return self.steps + self.repeatable_steps

    @property
    def event(self) -> Event:
        """The cost of the whole run, if `rate` and `steps` were fixed in advance."""
        return self.after(self.draws)

    @property
    def charge(self) -> Event:
        """The event in the ledger. Raises InvariantError if the run is not within `bound`."""
        event = self.event
        if self.bound is None:
            return event
        if not (isinstance(event, PoissonGaussian) and within(event, self.bound)):
            raise InvariantError(f"{event} is not within {self.bound}")
        return self.bound

    def after(self, draws: int) -> Event:
        """Return the cost of `draws` >= 1 steps."""
        if self.noise_multiplier == 0:
            return NonPrivate()
        kind = ConfidentialTraining if self.relation is Relation.REPLACE_ONE else PoissonGaussian
        return kind(noise_multiplier=self.noise_multiplier, rate=self.rate, count=draws)


class Decay(StrEnum):
    """The learning rate after the warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"


@dataclass(frozen=True, kw_only=True)
class Learning:
    """AdamW. `weight_decay` applies to matrices only, not to biases and LayerNorm."""

    learning_rate: float
    decay: Decay
    warmup_steps: int
    weight_decay: float

    def rate_at(self, step: int, *, steps: int) -> float:
        """Return the learning rate of step 0, 1, ... of `steps`."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        if self.decay is Decay.CONSTANT:
            return self.learning_rate
        return self.learning_rate * (steps - step) / max(1, steps - self.warmup_steps)

    def optimizer(self, model: nn.Module) -> torch.optim.AdamW:
        trainable = [p for p in model.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in trainable if p.dim() > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.learning_rate)


@dataclass(frozen=True, kw_only=True)
class Performance:
    """Settings that do not affect the guarantee. `micro_batch_tokens` includes padding.

    With `bfloat16_shapes`, the passes run in bfloat16, in micro-batches of these shapes only.
    Without shapes they run in float32.
    """

    micro_batch_tokens: int
    checkpoint_every: int
    bfloat16_shapes: tuple[BatchShape, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training by DP-SGD: its guarantee, its learning rate, and how it is computed."""

    mechanism: Mechanism
    learning: Learning
    performance: Performance


def performance_on(
    device: torch.device,
    *,
    max_length: int,
    micro_batch_tokens: int,
    checkpoint_every: int,
    processes: int = 1,
) -> Performance:
    """Return the fastest exact computation on `device`: bfloat16 on one GPU, otherwise float32.

    `max_length` is the maximum number of tokens of a record.
    """
    fast = (
        device.type == "cuda"
        and torch.cuda.is_bf16_supported(including_emulation=False)
        and processes == 1
        and max_length <= MOST_POSITIONS
    )
    shapes = batch_shapes(max_length=max_length, capacity=micro_batch_tokens)
    return Performance(
        micro_batch_tokens=micro_batch_tokens,
        checkpoint_every=checkpoint_every,
        bfloat16_shapes=shapes if fast else (),
    )


def train(
    model: nn.Module,
    units: Private[Sequence[Example]],
    *,
    training: Training,
    probe: Sequence[Example],
    checkpoints: Checkpoints,
    session: PrivacySession,
    before_step: Callable[[int], None] = lambda step: None,
) -> Released[nn.Module]:
    """Train `model` in place by DP-SGD, or continue the run in `checkpoints`.

    Guarantee: the run costs `training.mechanism.charge`, which is charged before the first step.
    After a crash the steps since the last checkpoint run again with new noise. The charge for
    `repeatable_steps` covers these repeated steps.

    A unit has one or more examples. `probe` are two public examples of unequal length. On them, the
    clipper must agree with autograd. `before_step` is called before each step with the number of
    finished steps. After a crash, `before_step` is called again for the repeated steps. If
    `before_step` changes the weights, the guarantee does not cover the changes. Under torchrun each
    process trains on some of the units. Raises PrivacyError if the model's gradients cannot be
    clipped exactly. Raises BudgetExceededError before any step. Raises FailureError if the weights
    are no longer finite.
    """
    mechanism, learning, performance = training.mechanism, training.learning, training.performance
    rank, processes = _process()
    if performance.bfloat16_shapes and (
        processes > 1 or mechanism.relation is not Relation.ADD_OR_REMOVE_ONE
    ):
        raise InvariantError("bfloat16 is for one process, and for adding or removing a unit")
    require_exact_clipping(model, probe, clip_norm=mechanism.clip_norm, performance=performance)
    bfloat16 = bool(performance.bfloat16_shapes)
    with open_clipper(model, mechanism.clip_norm, bfloat16=bfloat16) as clipper:
        optimizer = learning.optimizer(model)
        step = NoisyStep(
            model,
            clipper=clipper,
            optimizer=noisy_optimizer(
                optimizer,
                noise_multiplier=mechanism.noise_multiplier,
                clip_norm=mechanism.clip_norm,
                expected_batch_size=mechanism.expected_batch_size,
            ),
            sampler=PoissonSampler(units, rate=mechanism.rate, rank=rank, world_size=processes),
            performance=performance,
        )
        charge = ""
        if rank == 0:
            charge = _charged(mechanism, checkpoints, session)
        span = broadcast_from_first(_span(mechanism, checkpoints) if rank == 0 else None)
        assert span is not None
        first, last = span
        if first:
            checkpoints.restore(first, model, optimizer)
        _make_equal(model)
        # The number of steps is public for DP-SGD. CRT computes it from the exact number of units.
        total, exact = last - first if rank == 0 else 0, mechanism.relation is not _PUBLIC_STEPS
        with progress(total, what="training with noise", private=exact) as advance:
            for done in range(first, last):
                for group in optimizer.param_groups:
                    group["lr"] = learning.rate_at(done, steps=mechanism.steps)
                before_step(done)
                if rank == 0:
                    checkpoints.note_draw()
                step.take()
                is_last = done + 1 == last
                if rank == 0 and ((done + 1) % performance.checkpoint_every == 0 or is_last):
                    _require_finite(model)
                    checkpoints.save(done + 1, model, optimizer)
                note = ""
                if rank == 0 and _is_due(done + 1, first=first, last=last):
                    cost = epsilon(
                        [mechanism.after(checkpoints.draws)],
                        delta=session.ledger.delta,
                        relation=mechanism.relation,
                    )
                    note = f"epsilon {rounded_up(cost, 3)} by the plan"
                advance(1, note)
    return Released(model, (charge,) if charge else ())


@contextmanager
def open_clipper(
    model: nn.Module, clip_norm: float, *, bfloat16: bool = False
) -> Iterator[PerRecordClipper]:
    """Open a clipper for the trainable weights of `model`, and remove it at the end.

    Raises PrivacyError if a trainable module has no clipping rule.
    """
    clipper = PerRecordClipper(model, clip_norm=clip_norm, bfloat16=bfloat16)
    try:
        yield clipper
    finally:
        clipper.remove()


def require_exact_clipping(
    model: nn.Module, probe: Sequence[Example], *, clip_norm: float, performance: Performance
) -> None:
    """Raise PrivacyError if the run's clipper and autograd disagree on two public records.

    The check uses the clipper and the device of the run. The check sets the model to training mode
    and changes nothing else. For bfloat16, the rules are checked in float32, and then
    `exactness.require_independent` checks the computation in bfloat16.
    """
    model.train()
    device = next(model.parameters()).device
    try:
        with open_clipper(model, clip_norm) as clipper:
            exactness.require_exact(
                model,
                clipper,
                record_losses,
                together=pad_together(probe).to(device),
                alone=[pad_together([example]).to(device) for example in probe],
            )
        if performance.bfloat16_shapes:
            with open_clipper(model, clip_norm, bfloat16=True) as clipper:
                exactness.require_independent(model, clipper, shapes=performance.bfloat16_shapes)
    except (SugarbushError, InvariantError):
        raise
    except Exception as error:  # torch raises errors of many types
        raise PrivacyError(
            f"this model cannot be clipped: a trial on two public records failed "
            f"({type(error).__name__}). Set methods.dpft.model to another model."
        ) from error


class NoisyStep:
    """One logical step: sample, clip, add up, add noise once, update."""

    def __init__(
        self,
        model: nn.Module,
        *,
        clipper: Clipper,
        optimizer: NoisyOptimizer,
        sampler: PoissonSampler[Example],
        performance: Performance,
    ) -> None:
        self._model, self._clipper = model, clipper
        self._optimizer, self._sampler, self._performance = optimizer, sampler, performance
        self._device = next(model.parameters()).device

    def take(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        for batch in self._batches(self._sampler.draw()):
            with enough_memory(
                self._device,
                setting="micro_batch_tokens",
                value=self._performance.micro_batch_tokens,
            ):
                self._add(batch.to(self._device))
        for parameter in self._optimizer.params:
            self._clipper.sum_of(parameter)  # zeros if the sample is empty, in the usual type
        self._optimizer.step()

    def _batches(self, sample: Sequence[Example]) -> Iterator[TokenBatch]:
        shapes = self._performance.bfloat16_shapes
        if not shapes:
            for examples in micro_batches(
                sample, size_of=_length, capacity=self._performance.micro_batch_tokens
            ):
                yield pad_together(examples)
            return
        for shape, examples in batches_of_fixed_shape(sample, size_of=_length, shapes=shapes):
            yield pad_together(examples, shape=(shape.records, shape.length))

    def _add(self, batch: TokenBatch) -> None:
        with self._clipper.recording(records=len(batch)):
            self._clipper.add_clipped(record_losses(self._model, batch))


def _length(example: Example) -> int:
    return len(example.tokens)


def _is_due(step: int, *, first: int, last: int) -> bool:
    """Return whether the epsilon after `step` is shown. It is shown at most `_NOTES` times."""
    every = max(1, math.ceil((last - first) / _NOTES))
    return (step - first) % every == 0 or step == last


def _charged(mechanism: Mechanism, checkpoints: Checkpoints, session: PrivacySession) -> str:
    """Return the id of the run's ledger entry. A continued run is not charged again."""
    begun = checkpoints.start()
    if begun is None:
        charge = session.charge(mechanism.charge)
        checkpoints.begin(RunStart(ledger_id=charge, event=mechanism.event))
        return charge
    (entry,) = session.ledger.of([begun.ledger_id])
    if begun.event != mechanism.event or entry.event != mechanism.charge:
        raise PrivacyError(
            f"{checkpoints.folder}: has a run with other settings of DP-SGD. Restore these "
            "settings to continue, or remove the folder to train again, with a new charge."
        )
    return begun.ledger_id


def _span(mechanism: Mechanism, checkpoints: Checkpoints) -> tuple[int, int]:
    """Return the step to continue from, and the last step that the charge covers."""
    first, drawn = checkpoints.step(), checkpoints.draws
    if drawn < first:
        raise PrivacyError(
            f"{checkpoints.folder}: the count of noisy steps is missing. Remove the folder to "
            "train again, with a new charge."
        )
    unused = mechanism.draws - drawn
    last = min(mechanism.steps, first + max(0, unused))
    if last == 0:
        raise PrivacyError(
            f"{checkpoints.folder}: all charged steps have run, and none reached a checkpoint. "
            "Lower training.checkpoint_every, and remove the folder to train again, with a new "
            "charge."
        )
    return first, last


def _make_equal(model: nn.Module) -> None:
    """Copy the weights of process 0 to all processes, because new LoRA factors are random."""
    if torch.distributed.is_initialized():
        for parameter in model.parameters():
            torch.distributed.broadcast(parameter.detach(), src=0)


def _process() -> tuple[int, int]:
    if not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _require_finite(model: nn.Module) -> None:
    """Raise FailureError if weights are not finite. The weights contain noise already, so this
    check costs no budget."""
    if not all(bool(p.isfinite().all()) for p in model.parameters() if p.requires_grad):
        raise FailureError(
            "fine-tuning diverged: the weights are not finite. Lower methods.dpft.learning_rate."
        )
