"""Float32 linear layers by oneDNN.

PyTorch gives a float32 matrix product to MKL, which on a CPU that is not Intel's uses half of the
vector width. oneDNN, which PyTorch carries too, uses all of it: same arithmetic, twice the speed
there (docs/decisions/0301).
"""

import torch
from torch import nn


class _OneDnnLinear(nn.Module):
    """The same affine map as `linear`, for inference."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        # Plain attributes: a tensor of oneDNN's layout cannot be a parameter that moves or copies.
        self._weight = linear.weight.detach().to_mkldnn()
        bias = dict(linear.named_parameters()).get("bias", torch.zeros(len(linear.weight)))
        self._bias = bias.detach().to_mkldnn()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs = nn.functional.linear(inputs.to_mkldnn(), self._weight, self._bias)
        return outputs.to_dense()


def use_onednn(network: nn.Module) -> None:
    """Replace every float32 linear layer within `network`, in place. For inference on a CPU."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.float32:
                setattr(module, name, _OneDnnLinear(child))
