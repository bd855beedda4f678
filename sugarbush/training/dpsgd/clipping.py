"""Exact per-record gradient clipping with one backward pass.

For each use of a weight matrix, the gradient of record i is a product of two factors, G_i = L_i^T
R_i. A factor has one row per position of the record. The forward and the backward pass compute both
factors anyway:

    Linear     (out, in)   L = gradient of the output   R = input
    Conv1D     (in, out)   L = input                    R = gradient of the output
    Embedding  (V, d)      L = one-hot token ids        R = gradient of the output

The norm of G is computed without G: <L^T R, M^T S> = sum_st <L_s, M_t> <R_s, S_t>. A weight may be
used twice, such as an embedding that is tied to the head. Then the norm includes the cross terms of
both uses. The clipped sum over records is sum_i L_i^T (c_i R_i). The sum needs the same factors, so
autograd computes no weight gradient. Gradients that are smaller than their factors (of LayerNorm,
biases and LoRA) are stored in full.

Guarantee: one record adds a vector of L2 norm at most `clip_norm` * (1 + 2^-20) to `p.grad`, over
all parameters together. The bound includes the rounding errors of the norm and of the product, even
if terms cancel. A record with a gradient that is not finite adds zero. Each loss must depend on its
own record alone. Before training, `exactness.check` tests the losses on two records.

The guarantee does not cover two kinds of float32 rounding. First, the sum over records is rounded.
Second, a long record makes the padding of its micro-batch longer. Longer padding may change the
last bits of other records' gradients. Lower precision rounds more, so a model in lower precision is
refused. The guarantee does not cover timing attacks, or attackers who read the memory of the
process.

With `bfloat16`, the clipper itself runs the forward and the backward pass in bfloat16. Then the
guarantee covers both kinds of rounding: all micro-batches have one of a few fixed shapes, and a
record moves the *computed* sum by at most `clip_norm`. This needs three facts. The factors of a
record are the same numbers in each row of a batch, and beside any other records;
`exactness.require_independent` tests this before training. A secret order puts the records into
rows. And `clip_norm` pays for the rounding of the sum: gradients are clipped to 15/16 of it.

Source: Bu, Wang, Zha, Karypis 2023, "Differentially Private Optimization on Large Model at Small
Cost", section 3 (book-keeping). docs/decisions/dp-sgd-clipping.md derives the cross terms and the
rounding bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.pytorch_utils import Conv1D

from sugarbush.errors import InvariantError, PrivacyError
from sugarbush.float32 import float32_problem
from sugarbush.training.dpsgd.record_gradients import (
    Factors,
    Norms,
    RecordGradients,
    Tokens,
    Use,
    Whole,
    add_scaled,
    measure,
)

# This constant is added to a norm before the division, as in Opacus. The constant only makes
# gradients smaller.
STABILISER = 1e-6

# In bfloat16, gradients are clipped to this share of the clip norm. Rounding takes the other share.
EXACT_SHARE = 15 / 16
# In bfloat16, S is at most this number of clip norms after scaling (S is in record_gradients.py).
_LARGEST_SIZE = 8.0

_WITH_A_RULE = (nn.Linear, Conv1D, nn.Embedding, nn.LayerNorm, LlamaRMSNorm)
_EXACT_ENOUGH = (torch.float32, torch.float64)


class Clipper(Protocol):
    """Adds clipped per-record gradients to the tensor `sum_of` a parameter."""

    clip_norm: float

    def recording(self, *, records: int) -> AbstractContextManager[None]: ...

    def add_clipped(self, losses: Tensor) -> Tensor: ...

    def sum_of(self, parameter: nn.Parameter) -> Tensor: ...

    def remove(self) -> None: ...


class PerRecordClipper:
    """Clips each record's gradient, and adds it to the `grad` of the trainable parameters.

        with clipper.recording(records=len(batch)):
            clipper.add_clipped(losses_of(model, batch))      # (records,), each of its own record

    The gradients of all micro-batches of a batch are added up. With `bfloat16`, the sum is the
    float64 tensor `wide_grad` of each parameter, and `grad` stays unchanged. `usual_length` is a
    public number of tokens. Gradients of records with this length need the least memory. Raises
    PrivacyError if no exact rule covers a trainable parameter.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        clip_norm: float,
        usual_length: int = 128,
        bfloat16: bool = False,
    ) -> None:
        self.clip_norm = clip_norm
        self.bfloat16 = bfloat16
        self._usual_length = usual_length
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._trainable = {id(p) for p in self._parameters}
        owners = [m for m in model.modules() if self._owned(m)]
        self._require_rules(owners)
        _require_float32(model)
        self._hooks = [m.register_forward_hook(self._after_forward) for m in owners]
        self._records = 0
        self._gradients: dict[int, RecordGradients] = {}

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    @contextmanager
    def recording(self, *, records: int) -> Iterator[None]:
        """Record the forward and backward pass of one micro-batch. The micro-batch must not be
        empty."""
        if records < 1:
            raise InvariantError("an empty micro-batch has no gradient: skip it")
        self._records = records
        self._gradients = {
            id(p): RecordGradients(
                records=records, usual_length=self._usual_length, device=p.device
            )
            for p in self._parameters
        }
        for parameter in self._parameters:
            parameter.requires_grad_(False)
        device = self._parameters[0].device.type
        try:
            with in_bfloat16(device) if self.bfloat16 else nullcontext():
                yield
        finally:
            self._records, self._gradients = 0, {}
            for parameter in self._parameters:
                parameter.requires_grad_(True)

    def add_clipped(self, losses: Tensor) -> Tensor:
        """Backpropagate, clip and add up. Returns the norms before clipping, (records,) float64.

        The norms are private. If a record's norm is not finite, the record adds zero.
        """
        self._backward(losses)
        with torch.no_grad(), torch.autocast(losses.device.type, enabled=False):
            gradients = [self._gradients.pop(id(p)) for p in self._parameters]
            of = measure(gradients)
            scales = self._scales(of)
            # A subnormal scale would lose digits in float32, so the record adds zero.
            usable = of.bounds.isfinite() & (scales >= torch.finfo(torch.float32).tiny)
            scales = torch.where(usable, scales, 0.0)
            if not bool(usable.all()):
                for of_parameter in gradients:
                    of_parameter.zero_all_but(usable)
            outs = [self.sum_of(parameter) for parameter in self._parameters]
            add_scaled(gradients, scales, outs=outs)
        return of.norms

    def numbers_of(self, losses: Tensor, record: int) -> list[Tensor]:
        """Backpropagate, and return all numbers from which the clipped gradient of one record is
        computed: its factors, its bound and its size. Nothing is added to a sum.
        """
        self._backward(losses)
        gradients = list(self._gradients.values())
        with torch.no_grad(), torch.autocast(losses.device.type, enabled=False):
            of = measure(gradients)
        factors = [numbers for one in gradients for numbers in one.of_record(record)]
        return [*factors, of.bounds[record], of.sizes[record]]

    def _backward(self, losses: Tensor) -> None:
        if losses.shape != (self._records,):
            raise InvariantError("there must be one loss per record")
        with torch.autocast(losses.device.type, enabled=False):
            losses.sum().backward()  # type: ignore[no-untyped-call]

    def _scales(self, of: Norms) -> Tensor:
        limit, larger = self.clip_norm, of.bounds
        if self.bfloat16:
            limit = EXACT_SHARE * self.clip_norm
            larger = torch.maximum(of.bounds, of.sizes / _LARGEST_SIZE)
        return (limit / (larger + STABILISER)).clamp(max=1.0)

    def sum_of(self, parameter: Any) -> Tensor:
        """Return the tensor to which the clipped gradients of a parameter are added. The first call
        makes it, with zeros."""
        if self.bfloat16:
            if getattr(parameter, "wide_grad", None) is None:
                parameter.wide_grad = torch.zeros_like(parameter, dtype=torch.float64)
            return cast(Tensor, parameter.wide_grad)
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        return cast(Tensor, parameter.grad)

    def _after_forward(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Any:
        if not self._records:
            return None
        if not self.bfloat16 and torch.is_autocast_enabled(output.device.type):
            raise PrivacyError(
                "the model computes in less than float32 (autocast), so the padding of a batch "
                "changes the gradients of its records. Turn autocast off."
            )
        values = inputs[0]
        if isinstance(module, nn.Embedding) and output.shape[0] == 1:
            # All records share one lookup of the position embeddings. Each record needs its own
            # copy.
            output = output.expand(self._records, *output.shape[1:])
            values = values.expand(self._records, *values.shape[1:])
        if output.shape[0] != self._records:
            raise PrivacyError(
                f"a {type(module).__name__} of the model does not keep its records on the first "
                "axis, so they cannot be clipped one by one. Set methods.dpft.model to another "
                "model."
            )
        # While the pass is recorded, no weight requires a gradient. Without the anchor, autograd
        # would stop before the lowest trainable module.
        anchor = torch.zeros((), device=output.device, requires_grad=True)
        receive = partial(self._after_backward, module)
        return _HandOver.apply(output, values, anchor, receive)  # type: ignore[no-untyped-call]

    def _after_backward(self, module: nn.Module, values: Tensor, gradient: Tensor) -> None:
        with torch.no_grad():
            for parameter, use in _uses(module, values, gradient):
                if id(parameter) in self._trainable:
                    self._gradients[id(parameter)].add(use)

    def _owned(self, module: nn.Module) -> list[nn.Parameter]:
        return [p for p in module.parameters(recurse=False) if id(p) in self._trainable]

    def _require_rules(self, owners: Sequence[nn.Module]) -> None:
        for module in owners:
            problem = _problem(module)
            if problem is not None:
                raise PrivacyError(
                    f"a trainable {type(module).__name__} {problem}, so its gradients cannot be "
                    "clipped exactly. Set methods.dpft.model to a GPT-2 or Llama, or train it by "
                    "LoRA."
                )


@contextmanager
def in_bfloat16(device: str) -> Iterator[None]:
    """Run forward passes on `device` in bfloat16, by operations with results that do not depend on
    the time or the order of their threads.
    """
    reduced = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.autocast(device, dtype=torch.bfloat16):
            yield
    finally:
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = reduced


class _HandOver(torch.autograd.Function):
    """The identity. Its backward pass reports a module's input and the gradient of its output.
    Autograd saves the input, so gradient checkpointing can drop and recompute the input."""

    @staticmethod
    def forward(
        ctx: Any,
        output: Tensor,
        values: Tensor,
        anchor: Tensor,
        receive: Callable[[Tensor, Tensor], None],
    ) -> Tensor:
        ctx.save_for_backward(values)
        ctx.receive = receive
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.receive(ctx.saved_tensors[0].detach(), gradients[0])
        return (gradients[0] if ctx.needs_input_grad[0] else None), None, None, None


def _uses(module: Any, values: Tensor, gradient: Tensor) -> Iterator[tuple[Any, Use]]:
    """Yield each parameter of `module` with its gradient from one call of `module`."""
    backward = gradient.reshape(len(gradient), -1, gradient.shape[-1])
    if isinstance(module, nn.Embedding):
        ids = values.reshape(len(gradient), -1)
        # in the embedding, autograd gives the padding row no gradient
        if module.padding_idx is not None:
            backward = backward.masked_fill((ids == module.padding_idx).unsqueeze(2), 0)
        yield module.weight, Tokens(ids, backward)
        return
    forward = values.reshape(len(gradient), -1, values.shape[-1])
    wide = torch.promote_types(gradient.dtype, torch.float32)
    match module:
        case nn.LayerNorm():
            normalised = F.layer_norm(forward.to(wide), module.normalized_shape, eps=module.eps)
            yield module.weight, Whole((backward * normalised).sum(1))
        case LlamaRMSNorm():
            normalised = F.rms_norm(
                forward.to(wide), forward.shape[-1:], eps=module.variance_epsilon
            )
            yield module.weight, Whole((backward * normalised).sum(1))
        case nn.Linear():
            yield module.weight, Factors(backward, forward.to(backward.dtype))
        case Conv1D():
            yield module.weight, Factors(forward.to(backward.dtype), backward)
    if getattr(module, "bias", None) is not None:
        yield module.bias, Whole(backward.sum(1, dtype=wide))


def _require_float32(model: nn.Module) -> None:
    """Raise PrivacyError if a weight or a matrix product has lower precision than float32."""
    for parameter in model.parameters():
        if parameter.is_floating_point() and parameter.dtype not in _EXACT_ENOUGH:
            raise PrivacyError(
                f"weights are {parameter.dtype}; gradients are clipped in float32 or float64. Load "
                "the model in float32."
            )
    if (problem := float32_problem(next(model.parameters()).device)) is not None:
        raise PrivacyError(f"{problem}.")


def _problem(module: Any) -> str | None:
    """Return why `module` has no exact rule, or None. Subclasses of a type with a rule have no
    rule."""
    if type(module) not in _WITH_A_RULE:
        return "has no clipping rule"
    if isinstance(module, nn.LayerNorm) and len(module.normalized_shape) != 1:
        return "normalises over several axes"
    if isinstance(module, nn.Embedding) and (
        module.max_norm is not None or module.scale_grad_by_freq
    ):
        return "has max_norm or scale_grad_by_freq"
    return None
