"""The only source of privacy noise.

Exact discrete Gaussian noise and report-noisy-max come from OpenDP, with a seed from the operating
system. Callers cannot set a seed, because noise and samples must stay secret. Every call compares
the expected cost with OpenDP's own privacy map, so a scale in the wrong unit raises an error.

This module also draws the Poisson samples and the noise of DP-SGD. Samples use random bits from the
operating system. Noise on tensors is floating point. Each call uses a new generator with a seed
from the operating system.

The module does not protect against timing attacks, or attackers who read this process's memory.
"""

import math
import os
import secrets
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError

if TYPE_CHECKING:
    import torch

_RELATIVE_SLACK = 1e-9  # OpenDP rounds the result of its map up, by a few ulp
_BLOCK = 2**20  # numbers drawn at one time, to save memory


# OpenDP is imported inside functions, because most stages draw no noise. opendp.prelude is not
# used, because it would import scikit-learn.
@lru_cache(maxsize=64)
def _gaussian(stddev: float) -> Any:
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    counts = domains.vector_domain(domains.atom_domain(T="i64"))
    return measurements.make_gaussian(counts, metrics.l2_distance(T=float), scale=stddev)


@lru_cache(maxsize=64)
def _noisy_max(scale: float) -> Any:
    from opendp import domains, measurements, measures, metrics, mod

    mod.enable_features("contrib")
    scores = domains.vector_domain(domains.atom_domain(T=float, nan=False))
    return measurements.make_noisy_max(
        scores, metrics.linf_distance(T=float), measures.zero_concentrated_divergence(), scale=scale
    )


def discrete_gaussian(
    counts: NDArray[np.integer[Any]], *, stddev: float, sensitivity: float = 1.0
) -> NDArray[np.int64]:
    """Add exact discrete Gaussian noise to counts, `(m,)` int64.

    `stddev` is sigma of N_Z(0, sigma^2), and `sensitivity` is the L2 sensitivity of `counts`. The
    unit is one count. The cost in zCDP is rho = (sensitivity/stddev)^2 / 2; the function compares
    rho with OpenDP's map. Source: Canonne, Kamath, Steinke 2020, Theorem 4 and Algorithm 3.
    """
    if not (math.isfinite(stddev) and stddev > 0):
        raise InvariantError(f"stddev={stddev!r} is not positive and finite")
    if not np.issubdtype(counts.dtype, np.integer) or counts.ndim != 1:
        raise InvariantError("counts must be a one-dimensional array of integers")
    measurement = _gaussian(float(stddev))
    _confirm(measurement.map(float(sensitivity)), (sensitivity / stddev) ** 2 / 2)
    return np.asarray(measurement([int(c) for c in counts]), dtype=np.int64)


def report_noisy_max(
    scores: NDArray[np.floating[Any]], *, epsilon: float, sensitivity: float
) -> int:
    """Choose an index by the exponential mechanism; larger scores are more likely.

    One unit must change each score by at most `sensitivity`. The function adds Gumbel noise of
    scale 2*sensitivity/epsilon, so the choice is epsilon-DP. A bounded-range mechanism is also
    (epsilon^2/8)-zCDP; the function compares this cost with OpenDP's map. Source: Cesar & Rogers
    2021, Lemma 4; Durfee & Rogers 2019.
    """
    if not (math.isfinite(epsilon) and epsilon > 0 and sensitivity > 0):
        raise InvariantError("epsilon and sensitivity must be positive and finite")
    measurement = _noisy_max(2.0 * sensitivity / epsilon)
    _confirm(measurement.map(float(sensitivity)), epsilon**2 / 8)
    return int(measurement([float(s) for s in scores]))


def poisson_sample(size: int, *, rate: float) -> NDArray[np.int64]:
    """Include each of `size` units with probability `rate`, and return the increasing indices.

    `rate` is rounded down to a multiple of 2^-64, so the true cost is at most the accounted cost.
    The sample must stay secret, like the noise.
    """
    if not (math.isfinite(rate) and 0 < rate <= 1):
        raise InvariantError(f"rate={rate!r} is not above 0 and at most 1")
    if rate == 1:
        return np.arange(size)
    below = np.uint64(int(rate * 2.0**64))
    pieces = [np.empty(0, dtype=np.int64)]
    for start in range(0, size, _BLOCK):
        bits = np.frombuffer(os.urandom(8 * min(_BLOCK, size - start)), dtype=np.uint64)
        pieces.append(start + np.flatnonzero(bits < below))
    return np.concatenate(pieces)


def secret_choice(size: int) -> int:
    """Draw a uniform index below `size`. The index must stay secret, like the noise."""
    return secrets.randbelow(size)


def secret_order(size: int) -> list[int]:
    """Draw a uniform order of the indices below `size`. The order must stay secret."""
    order = list(range(size))
    secrets.SystemRandom().shuffle(order)
    return order


def add_gaussian(tensors: Iterable["torch.Tensor"], *, stddev: float) -> None:
    """Add N(0, stddev^2) to every number of every tensor, in place.

    `stddev` = noise multiplier * sensitivity, in the unit of the tensors. The arithmetic is float32
    or float64. The noise does not protect against attacks on the last bits (Mironov 2012); the card
    states this limit.
    """
    import torch  # imported here, because most stages need no torch

    if not (math.isfinite(stddev) and stddev > 0):
        raise InvariantError(f"stddev={stddev!r} is not positive and finite")
    on_cpu = np.random.Generator(np.random.Philox(np.random.SeedSequence(secrets.randbits(256))))
    on_device: dict[Any, torch.Generator] = {}
    for tensor in tensors:
        if tensor.dtype not in (torch.float32, torch.float64) or not tensor.is_contiguous():
            raise InvariantError("noise is added to contiguous float32 or float64 tensors")
        if tensor.device.type != "cpu" and tensor.device not in on_device:
            generator = torch.Generator(device=tensor.device)
            on_device[tensor.device] = generator.manual_seed(secrets.randbits(63))
        for block in torch.split(tensor.detach().view(-1), _BLOCK):
            if tensor.device.type == "cpu":
                # numpy draws the noise, because torch's CPU generator uses only 32 bits of a seed.
                drawn = torch.from_numpy(
                    on_cpu.standard_normal(len(block), dtype=block.numpy().dtype)
                )
            else:
                drawn = torch.empty_like(block).normal_(generator=on_device[tensor.device])
            block.add_(drawn, alpha=stddev)


def _confirm(stated_rho: float, expected_rho: float) -> None:
    if abs(stated_rho - expected_rho) > _RELATIVE_SLACK * expected_rho:
        raise InvariantError(f"OpenDP states rho={stated_rho!r}, expected {expected_rho!r}")
