"""Chooses the donated examples nearest to the requested metadata, for a prompt."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.randomness import Rng

_BLOCK = 1024  # number of targets per block; limits the memory of the comparison (block, m, d)


def choose_examples(
    target: NDArray[np.integer[Any]], donated_codes: NDArray[np.integer[Any]], *, k: int, rng: Rng
) -> NDArray[np.int64]:
    """Return the indices of the k nearest donated examples, nearest first.

    The distance is the Hamming distance: the number of attributes in which two rows of codes
    differ. Ties are broken at random for each target, so the order of the file has no effect.

    Guarantee: this function costs no budget. Targets are post-processed DP metadata, and donated
    examples are public. Shapes: `target` (d,) and result (k,), or `target` (n, d) and result (n,
    k); `donated_codes` (m, d). If there are fewer than k examples, the result contains all of them.
    Source: MAPLE (Chien et al. 2026), the choice of in-context examples.
    """
    targets = np.atleast_2d(target)
    count, k = len(donated_codes), min(k, len(donated_codes))
    indices = np.empty((len(targets), k), dtype=np.int64)
    for start in range(0, len(targets), _BLOCK):
        block = targets[start : start + _BLOCK]
        distances = (block[:, None, :] != donated_codes[None, :, :]).sum(axis=2)
        # Distances are integers, so a random number below 1 only breaks ties.
        keys = distances + rng.random((len(block), count))
        indices[start : start + len(block)] = np.argsort(keys, axis=1)[:, :k]
    return indices[0] if np.ndim(target) == 1 else indices
