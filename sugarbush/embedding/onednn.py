"""Float32 linear layers by oneDNN.

PyTorch multiplies float32 matrices with MKL. Its bits depend on the number of rows more often than
those of oneDNN, which PyTorch also contains (docs/decisions/embeddings.md).

oneDNN compiles a program for each shape of a product, and PyTorch and oneDNN each keep a thousand
of them, which took 400 MB. Texts are embedded in the order of their lengths, so a few are enough.
"""

import os
from typing import Final

import torch
from torch import nn

from sugarbush.float32 import pack, packed_product

_PROGRAMS: Final = "64"
_KEPT_PROGRAMS: Final = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


class _PackedLinear(nn.Module):
    """The same affine map as `linear`, for inference only."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        # The plain attributes have the names of nn.Linear, because some networks read the type of
        # `layer.weight`.
        self.weight = pack(linear.weight.detach())
        bias = dict(linear.named_parameters()).get("bias")
        self.bias = None if bias is None else bias.detach()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return packed_product(inputs, self.weight, self.bias)


def use_onednn(network: nn.Module) -> None:
    """Replace every float32 linear layer of `network` in place, for inference on a CPU."""
    for variable in _KEPT_PROGRAMS:
        os.environ.setdefault(variable, _PROGRAMS)
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.float32:
                setattr(module, name, _PackedLinear(child))
