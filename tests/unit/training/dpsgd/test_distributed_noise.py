"""Tests that several processes together add as much noise as one process, once per step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import multiprocessing, nn

from sugarbush.training.dpsgd.optimizer import noisy_optimizer

SIZE, NOISE, CLIP = 40_000, 3.0, 2.0


def one_step(rank: int, processes: int, folder: str) -> None:
    """Make a step of plain SGD with gradients of zero. The weights are then the negative noise."""
    torch.set_num_threads(1)
    if processes > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "USE_LIBUV": "0"}
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=processes
        )
    weights = nn.Parameter(torch.zeros(SIZE))
    optimizer = noisy_optimizer(
        torch.optim.SGD([weights], lr=1.0),
        noise_multiplier=NOISE,
        clip_norm=CLIP,
        expected_batch_size=1.0,
    )
    weights.grad = torch.zeros(SIZE)
    optimizer.step()
    torch.save(weights.detach(), f"{folder}/rank{rank}.pt")
    if processes > 1:
        torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_the_noise_of_a_step_is_that_of_one_process(tmp_path: Path, processes: int) -> None:
    """The mean square of 40,000 numbers must be within six standard errors of the variance, so a
    false alarm has probability below 1e-8. Half of the variance, or twice the variance, is 70
    standard errors away.
    """
    if processes == 1:
        one_step(0, 1, str(tmp_path))
    else:
        multiprocessing.start_processes(
            one_step, args=(processes, str(tmp_path)), nprocs=processes, start_method="spawn"
        )
    drawn = [torch.load(tmp_path / f"rank{r}.pt", weights_only=True) for r in range(processes)]
    assert all(torch.equal(drawn[0], other) for other in drawn)
    relative = float((drawn[0].double() / (NOISE * CLIP)).square().mean())
    assert abs(relative - 1) < 6 * (2 / SIZE) ** 0.5
