"""Chooses donated examples for prompts: the nearest to some metadata, or one of a few sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.randomness import Rng

EXAMPLE_SETS: Final = 16  # number of example sets of a run with a language model

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
    for part, distances in _distances(targets, donated_codes):
        # Distances are integers, so a random number below 1 only breaks ties.
        keys = distances + rng.random((len(distances), count))
        indices[part] = np.argsort(keys, axis=1)[:, :k]
    return indices[0] if np.ndim(target) == 1 else indices


def draw_example_sets(
    donated_codes: NDArray[np.integer[Any]], *, count: int, k: int, rng: Rng
) -> NDArray[np.int64]:
    """Return `count` sets of donated examples, as indices (count, min(k, m)).

    A set is a donated text and the k - 1 nearest to it, nearest first. The first texts are drawn
    without replacement until all donated texts are used, and then again. A few sets in place of one
    per prompt let prompts share their beginning (`sugarbush.generators.shared_prefixes`).

    Guarantee: donated texts are public, so the sets cost no budget. Shape: `donated_codes` (m, d).
    """
    size = len(donated_codes)
    first = np.concatenate([rng.permutation(size) for _ in range(-(-count // size))])[:count]
    # A text is one step nearer to itself than a text with equal codes, so it is in its set.
    itself = np.arange(size) == first[:, None]
    keys = np.concatenate([d for _, d in _distances(donated_codes[first], donated_codes)])
    keys = keys + rng.random(keys.shape) - itself
    return np.argsort(keys, axis=1)[:, :k].astype(np.int64)


def nearest_sets(
    targets: NDArray[np.integer[Any]],
    donated_codes: NDArray[np.integer[Any]],
    sets: NDArray[np.integer[Any]],
    *,
    rng: Rng,
) -> NDArray[np.int64]:
    """Return for each target the number of the nearest set of examples, (n,).

    The distance of a set is the sum of the Hamming distances of its examples. Ties are broken at
    random for each target. Guarantee and shapes of `targets` and `donated_codes` as in
    `choose_examples`; `sets` (s, k) are indices of donated texts.
    """
    nearest = np.empty(len(targets), dtype=np.int64)
    for part, distances in _distances(targets, donated_codes):
        sums = distances[:, sets].sum(axis=2)
        nearest[part] = np.argmin(sums + rng.random(sums.shape), axis=1)
    return nearest


def _distances(
    targets: NDArray[np.integer[Any]], donated_codes: NDArray[np.integer[Any]]
) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Yield the Hamming distances (block, m) of blocks of targets."""
    for start in range(0, len(targets), _BLOCK):
        block = targets[start : start + _BLOCK]
        different = block[:, None, :] != donated_codes[None, :, :]
        yield slice(start, start + len(block)), different.sum(axis=2)
