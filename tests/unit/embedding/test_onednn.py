"""Tests that linear layers with oneDNN compute the same results as the original layers."""

import pytest
import torch
from torch import nn

from sugarbush.embedding.onednn import use_onednn


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")
@pytest.mark.parametrize("bias", [True, False])
def test_the_map_stays_the_same(bias: bool) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(24, 48, bias=bias), nn.GELU(), nn.Linear(48, 8, bias=bias))
    inputs = torch.rand(3, 5, 24)
    with torch.inference_mode():
        expected = network(inputs)
        use_onednn(network)
        assert not any(type(module) is nn.Linear for module in network.modules())
        assert torch.allclose(network(inputs), expected, atol=1e-6)


def test_what_is_not_float32_is_left_alone() -> None:
    network = nn.Sequential(nn.Linear(4, 4)).bfloat16()
    use_onednn(network)
    assert type(network[0]) is nn.Linear
