"""Opacus' DP optimizer with the project's noise, for gradients that are already clipped."""

from __future__ import annotations

import torch
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.optimizers.ddpoptimizer_fast_gradient_clipping import (
    DistributedDPOptimizerFastGradientClipping,
)
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed

from sugarbush.errors import InvariantError
from sugarbush.privacy.noise import add_gaussian


class NoisyOptimizer(DPOptimizerFastGradientClipping):  # type: ignore[misc]
    """Makes a step with (sum of clipped gradients + N(0, (noise_multiplier clip_norm)^2)) / batch
    size.

    `p.wide_grad` (float64) or `p.grad` must contain the sum over the whole logical batch. The sum
    of an empty batch is zero. Noise is added once per step, before a float64 sum is rounded to the
    type of the parameter. A second step on the same sum is refused. Use a noise multiplier of 0
    only for results that are charged as not private.
    """

    def accumulate(self) -> None:
        """Take the sums unchanged: the clipper has added all micro-batches into `p.grad`."""
        for parameter in self.params:
            wide = getattr(parameter, "wide_grad", None)
            if parameter.grad is None and wide is None:
                raise InvariantError("the gradient of an empty batch must be zeros, not None")
            parameter.summed_grad = parameter.grad if wide is None else wide

    def add_noise(self) -> None:
        """Add the project's noise to every sum, once, in place."""
        sums = [parameter.summed_grad for parameter in self.params]
        for summed in sums:
            _check_processed_flag(summed)
        if self.noise_multiplier > 0:
            add_gaussian(sums, stddev=self.noise_multiplier * self.max_grad_norm)
        for parameter, summed in zip(self.params, sums, strict=True):
            _mark_as_processed(summed)
            parameter.grad = summed.to(parameter.dtype)

    def zero_grad(self, set_to_none: bool = False) -> None:
        super().zero_grad(set_to_none)
        for parameter in self.params:
            parameter.wide_grad = None


class DistributedNoisyOptimizer(
    DistributedDPOptimizerFastGradientClipping,  # type: ignore[misc]
    NoisyOptimizer,
):
    """Adds up the sums of several processes. Only process 0 draws the noise."""


def noisy_optimizer(
    optimizer: torch.optim.Optimizer,
    *,
    noise_multiplier: float,
    clip_norm: float,
    expected_batch_size: float,
) -> NoisyOptimizer:
    """Make the optimizer of this process. `expected_batch_size` is for all processes together."""
    distributed = torch.distributed.is_initialized()
    # Opacus' distributed optimizer itself divides the sum by the number of processes.
    processes = torch.distributed.get_world_size() if distributed else 1
    return (DistributedNoisyOptimizer if distributed else NoisyOptimizer)(
        optimizer,
        noise_multiplier=noise_multiplier,
        max_grad_norm=clip_norm,
        expected_batch_size=expected_batch_size / processes,
    )
