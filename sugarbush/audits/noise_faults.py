"""Draws deliberately wrong noise, for the positive controls of the audit. Only the audit may import
this module.

A control replaces the noise functions in the modules that call them, during one audit of invented
records. No mechanism has a setting for wrong noise. The ledger charges the correct noise, so an
audit that does not detect the fault is too weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sugarbush.privacy import mechanisms
from sugarbush.randomness import Rng, public_rng
from sugarbush.tables import marginal_measurer
from sugarbush.training.dpsgd import optimizer

_ON_COUNTS, _ON_TENSORS = "discrete_gaussian", "add_gaussian"
_CALLERS: tuple[tuple[ModuleType, str], ...] = (
    (mechanisms, _ON_COUNTS),
    (marginal_measurer, _ON_COUNTS),
    (optimizer, _ON_TENSORS),
)
_KNOWN_SEED = 1


class Fault(StrEnum):
    """The possible faults of the noise."""

    NO_NOISE = "no noise"
    TENTH = "tenth"
    ROOT_TWO = "1/sqrt2"
    """The sensitivity is too small by a factor of sqrt(2), as if a record in two bins were in one
    bin."""
    KNOWN_SEED = "seeded"
    """The noise comes from a generator with a known seed, which an attacker can run too."""


@contextmanager
def broken_noise(fault: Fault) -> Iterator[None]:
    """Within this context, all mechanisms draw their noise with `fault`. The context is not
    thread-safe. In every context, the known seed gives the same noise again."""
    rng = public_rng(_KNOWN_SEED, "broken noise")
    originals = [(module, name, getattr(module, name)) for module, name in _CALLERS]
    for module, name, original in originals:
        broken = _counts_with if name == _ON_COUNTS else _tensors_with
        setattr(module, name, broken(fault, original, rng))
    try:
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


def _scale(fault: Fault) -> float:
    return {Fault.TENTH: 0.1, Fault.ROOT_TWO: math.sqrt(0.5)}[fault]


def _counts_with(fault: Fault, original: Callable[..., Any], rng: Rng) -> Callable[..., Any]:
    def broken(
        counts: NDArray[np.integer[Any]], *, stddev: float, sensitivity: float = 1.0
    ) -> NDArray[np.int64]:
        if fault is Fault.NO_NOISE:
            return np.array(counts, dtype=np.int64)
        if fault is Fault.KNOWN_SEED:
            return np.asarray(counts + np.rint(rng.normal(0, stddev, len(counts))), dtype=np.int64)
        noisy: NDArray[np.int64] = original(
            counts, stddev=stddev * _scale(fault), sensitivity=sensitivity
        )
        return noisy

    return broken


def _tensors_with(fault: Fault, original: Callable[..., Any], rng: Rng) -> Callable[..., Any]:
    def broken(tensors: Iterable[torch.Tensor], *, stddev: float) -> None:
        if fault is Fault.NO_NOISE:
            return
        if fault is Fault.KNOWN_SEED:
            for tensor in tensors:
                tensor.add_(torch.from_numpy(rng.normal(0, stddev, tuple(tensor.shape))))
            return
        original(tensors, stddev=stddev * _scale(fault))

    return broken
