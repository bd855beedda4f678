"""The device that a model runs on, and its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sugarbush.errors import FailureError, ParamsError


def open_device(name: str) -> torch.device:
    """Return the device that a setting names. `auto` is the first GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ParamsError(
            f"params.yaml: training.device: {name!r} is not a PyTorch device"
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParamsError(
            f"params.yaml: training.device: {name}, but PyTorch finds no GPU here. Set cpu"
        )
    return device


@contextmanager
def enough_memory(device: torch.device, *, setting: str, value: int) -> Iterator[None]:
    """Raise FailureError with the setting to lower if a GPU has too little memory.

    >>> with enough_memory(torch.device("cuda"), setting="batch_size", value=64):
    ...     raise torch.OutOfMemoryError
    Traceback (most recent call last):
    sugarbush.errors.FailureError: the model ran out of memory on cuda; lower batch_size=64
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise FailureError(
            f"the model ran out of memory on {device}; lower {setting}={value}"
        ) from None
