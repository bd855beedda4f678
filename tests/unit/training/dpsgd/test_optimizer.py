"""Tests that a step of DP-SGD adds noise once, with the right scale.

The step then divides the noisy sum by the expected batch size.
"""

import math

import pytest
import torch

from sugarbush.errors import InvariantError
from sugarbush.training.dpsgd.optimizer import noisy_optimizer


def optimizer_of(weight, **changes):
    settings = {"noise_multiplier": 2.0, "clip_norm": 0.5, "expected_batch_size": 10.0}
    return noisy_optimizer(torch.optim.SGD([weight], lr=1.0), **(settings | changes))


def test_a_step_moves_by_the_noisy_sum_over_the_expected_batch_size():
    """n = 40,000, limit |z| < 5 for the variance, false-alarm rate 6e-7. A scale that is wrong by
    5% gives |z| > 13."""
    weight = torch.nn.Parameter(torch.zeros(200, 200))
    optimizer = optimizer_of(weight)
    weight.grad = torch.full_like(weight, 30.0)
    optimizer.step()
    noise = (-weight.detach() * 10.0 - 30.0).double()
    z = (float((noise**2).mean()) / (2.0 * 0.5) ** 2 - 1) * math.sqrt(noise.numel() / 2)
    assert abs(z) < 5


def test_two_steps_on_empty_samples_have_different_noise():
    """n = 100, limit 0.5 for the correlation, false-alarm rate 1e-7."""
    weight = torch.nn.Parameter(torch.zeros(100))
    optimizer = optimizer_of(weight)
    moves = []
    for _ in range(2):
        before = weight.detach().clone()
        optimizer.zero_grad(set_to_none=True)
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
        moves.append(weight.detach() - before)
    assert float(moves[0].std()) > 0.05
    assert abs(float(torch.corrcoef(torch.stack(moves))[0, 1])) < 0.5


def test_a_sum_that_was_stepped_on_is_refused():
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = optimizer_of(weight)
    weight.grad = torch.ones(3)
    optimizer.step()
    with pytest.raises(ValueError, match="zero_grad"):
        optimizer.step()


def test_a_step_without_a_sum_is_refused():
    with pytest.raises(InvariantError, match="empty batch"):
        optimizer_of(torch.nn.Parameter(torch.zeros(3))).step()


def test_without_noise_the_step_is_exact():
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = optimizer_of(weight, noise_multiplier=0.0)
    weight.grad = torch.tensor([10.0, 20.0, 30.0])
    optimizer.step()
    assert weight.tolist() == [-1.0, -2.0, -3.0]
