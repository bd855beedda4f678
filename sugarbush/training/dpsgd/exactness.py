"""Tests before training whether clipping agrees with autograd on two public records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sugarbush.errors import PrivacyError
from sugarbush.randomness import public_rng
from sugarbush.training.dpsgd.clipping import STABILISER, Clipper, PerRecordClipper
from sugarbush.training.dpsgd.language_modelling import (
    Example,
    LossFunction,
    pad_together,
    record_losses,
)
from sugarbush.training.dpsgd.sampling import BatchShape


def require_exact(
    model: nn.Module,
    clipper: Clipper,
    losses_of: LossFunction,
    *,
    together: Any,
    alone: Sequence[Any],
) -> None:
    """Raise PrivacyError if norms or clipped sum differ from the results of a loop over the
    records.

    `together` is one batch of all records, and `alone` has one batch per record. The records should
    be public and differ in length. The check detects a weight that is used outside its own module.
    The check also detects a loss or a layer that couples records, and a layer with a wrong rule for
    its gradient. Weights, gradients and dropout stay unchanged.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    with _no_dropout(model), _gradients_put_aside(parameters):
        singly = [_gradients(model, parameters, losses_of, record) for record in alone]
        expected_norms = torch.stack([_norm(gradients) for gradients in singly])
        scales = (clipper.clip_norm / (expected_norms + STABILISER)).clamp(max=1.0)
        with clipper.recording(records=len(alone)):
            norms = clipper.add_clipped(losses_of(model, together))
        expected = [
            sum(scale.to(g.dtype) * g for scale, g in zip(scales, of_one, strict=True))
            for of_one in zip(*singly, strict=True)
        ]
        error = _norm([p.grad - e for p, e in zip(parameters, expected, strict=True)])
        tolerance = torch.finfo(parameters[0].dtype).eps ** 0.5
        exact = torch.allclose(norms, expected_norms, rtol=tolerance, atol=tolerance)
        if not (exact and bool(error <= tolerance * (1 + _norm(expected)))):
            raise PrivacyError(
                "this model's gradients cannot be clipped exactly: the gradients of two records "
                "in one batch differ from the gradients of each record alone. Set "
                "methods.dpft.model to another model."
            )


def require_independent(
    model: Any, clipper: PerRecordClipper, *, shapes: Sequence[BatchShape]
) -> None:
    """Raise PrivacyError if a record's factors depend on its row or on the other rows of a batch.

    For each shape of a micro-batch, a long and a short public record are computed in several rows:
    alone, beside copies of themselves, and beside long and short records of random tokens. The
    factors, the bound and the size must be equal in every bit. The check cannot try all records. It
    detects kernels that choose the order of a sum by the row, or add up in the order in which
    threads finish, and code that computes in another way if a batch has no padding. Then one whole
    micro-batch is clipped, so that an error of the device comes before the charge.
    """
    rng = public_rng(0, "independent")
    device = next(model.parameters()).device
    vocabulary = model.get_input_embeddings().num_embeddings
    for shape in shapes:

        def of_random_tokens(length: int) -> Example:
            tokens = rng.integers(0, vocabulary, length).astype(np.int32)
            return Example(tokens=tokens, prompt_length=1)

        def numbers_of(row: int, examples: Sequence[Example], shape: BatchShape = shape) -> Any:
            batch = pad_together(examples, shape=(shape.records, shape.length)).to(device)
            with clipper.recording(records=shape.records):
                return clipper.numbers_of(record_losses(model, batch), row)

        count = shape.capacity
        rows = sorted({0, 1, count // 2, count - 1} & set(range(count)))
        lengths = (shape.length, max(2, shape.length - 3))
        others = [[of_random_tokens(length) for _ in range(count)] for length in lengths]
        for length in lengths:
            record = of_random_tokens(length)
            expected = numbers_of(0, [record])
            for row in rows:
                among = [[*them[:row], record, *them[row + 1 :]] for them in others]
                for examples in ([record] * count, *among):
                    if not all(map(torch.equal, expected, numbers_of(row, examples))):
                        raise PrivacyError(
                            "on this device, the gradient of a record depends on the other records "
                            f"of its batch in bfloat16 ({shape.records} rows of {shape.length} "
                            "tokens). Set training.device: cpu, which computes in float32."
                        )
        with _sums_put_aside(model), clipper.recording(records=shape.records):
            whole = pad_together(others[0], shape=(shape.records, shape.length)).to(device)
            clipper.add_clipped(record_losses(model, whole))


@contextmanager
def _sums_put_aside(model: nn.Module) -> Iterator[None]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    kept = [getattr(p, "wide_grad", None) for p in parameters]
    for parameter in parameters:
        parameter.wide_grad = None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for parameter, sums in zip(parameters, kept, strict=True):
            parameter.wide_grad = sums  # type: ignore[attr-defined]


def _gradients(
    model: nn.Module, parameters: Sequence[nn.Parameter], losses_of: LossFunction, record: Any
) -> list[Tensor]:
    (loss,) = losses_of(model, record)
    gradients = torch.autograd.grad(
        loss, list(parameters), allow_unused=True, materialize_grads=True
    )
    return list(gradients)


def _norm(tensors: Sequence[Tensor]) -> Tensor:
    squares = [torch.linalg.vector_norm(t, dtype=torch.float64) ** 2 for t in tensors]
    return torch.stack(squares).sum().sqrt()


@contextmanager
def _no_dropout(model: nn.Module) -> Iterator[None]:
    """Turn dropout off. Masks of dropout depend on the batch, so the check would fail."""
    layers = [m for m in model.modules() if isinstance(m, nn.Dropout)]
    rates = [layer.p for layer in layers]
    for layer in layers:
        layer.p = 0.0
    try:
        yield
    finally:
        for layer, rate in zip(layers, rates, strict=True):
            layer.p = rate


@contextmanager
def _gradients_put_aside(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    kept = [p.grad for p in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, kept, strict=True):
            parameter.grad = gradient
