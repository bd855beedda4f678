"""Clips Opacus' own per-sample gradients: the slow reference for `PerRecordClipper`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from opacus import GradSampleModule
from torch import Tensor, nn

from sugarbush.errors import InvariantError
from sugarbush.training.dpsgd.clipping import STABILISER


class HooksClipper:
    """A `Clipper` that stores one whole gradient per record and weight. Guarantee: the same as for
    `PerRecordClipper`, which is tested against this class. This class is slow and needs much
    memory. Do not use it for large models.
    """

    def __init__(self, model: nn.Module, *, clip_norm: float) -> None:
        self.clip_norm = clip_norm
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._hooked = GradSampleModule(model, loss_reduction="sum")
        self._hooked.remove_hooks()
        self._records = 0

    def remove(self) -> None:
        """Does nothing: the hooks are on the model only during `recording`."""

    @contextmanager
    def recording(self, *, records: int) -> Iterator[None]:
        """Record the forward and backward pass of one micro-batch. The micro-batch must not be
        empty."""
        if records < 1:
            raise InvariantError("an empty micro-batch has no gradient: skip it")
        self._records = records
        self._hooked.add_hooks(loss_reduction="sum", batch_first=True)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Full backward hook is firing")
                yield
        finally:
            self._hooked.remove_hooks()
            for parameter in self._parameters:
                parameter.grad_sample = None  # type: ignore[attr-defined]

    def sum_of(self, parameter: nn.Parameter) -> Tensor:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        return parameter.grad

    def add_clipped(self, losses: Tensor) -> Tensor:
        if losses.shape != (self._records,):
            raise InvariantError("there must be one loss per record")
        sums = [p.grad for p in self._parameters]
        for parameter in self._parameters:
            # backward() also adds an unclipped sum to `grad`. It must not change `sums`.
            parameter.grad = None
        losses.sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            each = [p.grad_sample.flatten(1) for p in self._parameters]  # type: ignore[attr-defined]
            squares = [(g * g).sum(1, dtype=torch.float64) for g in each]
            norms = torch.stack(squares).sum(0).sqrt()
            usable = norms.isfinite()
            scales = torch.where(usable, self.clip_norm / (norms + STABILISER), 0.0).clamp(max=1.0)
            for parameter, gradients, earlier in zip(self._parameters, each, sums, strict=True):
                kept = torch.where(usable[:, None], gradients, 0)
                added = (scales.to(kept.dtype) @ kept).view_as(parameter)
                parameter.grad = added if earlier is None else earlier + added
        return norms
