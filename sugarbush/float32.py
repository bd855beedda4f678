"""Checks that PyTorch multiplies float32 matrices in full precision.

TF32 and bfloat16 keep 10 and 7 bits of each number. Settings of PyTorch, of oneDNN and of the GPU
can choose them for matrices that are stored as float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear

_FULL = ("none", "ieee")  # "none" means that the setting above decides
_BITS = 2.0**-23  # the last bit of a float32 number near 1
_ROWS, _COLUMNS = 64, 128  # smaller products never use oneDNN


def float32_problem(device: str | torch.device = "cpu") -> str | None:
    """Return why products of float32 matrices on `device` are not exact to float32, or None.

    The function reads the settings, and also multiplies two matrices with a known product, because
    environment variables of oneDNN and CUDA have no setting in PyTorch.
    """
    if _matmul_precision() != "highest" or any(
        _precision(backend) not in _FULL for backend in _BACKENDS
    ):
        return (
            "float32 matrix products are set to less than float32 precision. Call "
            "torch.set_float32_matmul_precision('highest')"
        )
    if not all(_exact(onednn, device) for onednn in (False, True)):
        return (
            "float32 matrix products have less than float32 precision on this machine. Unset "
            "ONEDNN_DEFAULT_FPMATH_MODE and NVIDIA_TF32_OVERRIDE, and turn autocast off"
        )
    return None


_BACKENDS = (
    torch.backends,
    torch.backends.cuda.matmul,
    torch.backends.mkldnn,
    torch.backends.mkldnn.matmul,  # type: ignore[attr-defined]
)


def _matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # PyTorch's older and newer settings contradict each other
        return "mixed"


def _precision(backend: Any) -> str:
    return str(getattr(backend, "fp32_precision", "none"))


def _exact(onednn: bool, device: str | torch.device) -> bool:
    """Return whether a product with the identity keeps every bit."""
    numbers = 1 + _BITS * torch.arange(_ROWS * _COLUMNS, dtype=torch.float32, device=device)
    numbers = numbers.reshape(_ROWS, _COLUMNS)
    identity = torch.eye(_COLUMNS, device=device)
    if not onednn:
        return torch.equal((numbers @ identity).float(), numbers)
    if numbers.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return torch.equal(linear(numbers, identity).float(), numbers)
    return torch.equal(packed_product(numbers, pack(identity)).float(), numbers)


def pack(weight: torch.Tensor) -> torch.Tensor:
    """Return a matrix (outputs, inputs) in the order in which oneDNN reads it, so that no product
    has to sort it again. These are the operators that `torch.compile` uses."""
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)  # noqa: SLF001
    return packed


def packed_product(
    inputs: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return `inputs` (..., inputs) times a packed matrix, plus `bias` (outputs,), by oneDNN."""
    pointwise = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001
    product: torch.Tensor = pointwise(inputs, packed, bias, "none", [], "")
    return product
