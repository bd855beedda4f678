"""Float32 linear layers by oneDNN.

PyTorch multiplies float32 matrices with MKL. If Intel did not make the CPU, MKL uses half of the
vector width. PyTorch also contains oneDNN, which uses the full width at twice the speed
(docs/decisions/embeddings.md).

oneDNN compiles a program for each shape of a product, and PyTorch and oneDNN each keep a thousand
of them, which took 400 MB. Texts are embedded in the order of their lengths, so a few are enough.
"""

import os
from typing import Final

import torch
from torch import nn

_PROGRAMS: Final = "64"
_KEPT_PROGRAMS: Final = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


class _OneDnnLinear(nn.Module):
    """The same affine map as `linear`, for inference only."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        # A tensor in oneDNN's layout cannot be a parameter. The plain attributes have the names of
        # nn.Linear, because some networks read the type of `layer.weight`.
        self.weight = linear.weight.detach().to_mkldnn()
        bias = dict(linear.named_parameters()).get("bias", torch.zeros(len(linear.weight)))
        self.bias = bias.detach().to_mkldnn()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs = nn.functional.linear(inputs.to_mkldnn(), self.weight, self.bias)
        return outputs.to_dense()


def use_onednn(network: nn.Module) -> None:
    """Replace every float32 linear layer of `network` in place, for inference on a CPU."""
    for variable in _KEPT_PROGRAMS:
        os.environ.setdefault(variable, _PROGRAMS)
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.float32:
                setattr(module, name, _OneDnnLinear(child))
