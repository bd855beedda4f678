"""The device that a model runs on."""

from __future__ import annotations

import torch

from sugarbush.errors import ParamsError


def open_device(name: str) -> torch.device:
    """Return the device that a setting names. `auto` is the first GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ParamsError(f"params.yaml: device: {name!r} is not a PyTorch device") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParamsError(f"params.yaml: device: {name}, but PyTorch finds no GPU here. Set cpu")
    return device
