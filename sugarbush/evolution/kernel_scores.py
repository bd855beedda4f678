"""Kernel scores measure how near a record is to every candidate. A vote names only one candidate.

A record's scores are exp(cosine / width) for every candidate, scaled to norm 1. The sum over all
records estimates the density of records at each candidate. One record changes the sum by at most 1
in L2 norm, like one vote. A sum of scores is more exact than a count of votes with the same noise,
because a record's scores describe all candidates.

A record's scores depend only on this record and the candidates, bit for bit. The L2 norm of a
record's scores is at most RESOLUTION. Proof: `docs/decisions/kernel-scores.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.threads import blocks

RESOLUTION = 4096  # maximum L2 norm of a record's integer scores; corresponds to one vote

_COSINE_BITS = 14
_WEIGHT_BITS = 20
_CACHED_NUMBERS = 2**16  # maximum number of scores that fit the processor's cache
_EXACT_SQUARES = 2**13
_MOST_CANDIDATES = 2**20
_NOT_BELOW = 1 + 2.0**-45
_LONGEST = 1.04  # the largest squared norm on the grid; 1.04 * 4000^2 is below 2^24


@dataclass(frozen=True)
class Grid:
    """A grid: multiples of 1/`steps`. Dot products of vectors on the grid are exact in `dtype`."""

    steps: int
    dtype: type[np.floating[Any]]


# This grid rounds a cosine by about 1e-4, which is two steps of the table.
FAST = Grid(steps=4000, dtype=np.float32)
# Kernel herding uses the slower grid of earlier versions, to choose the same texts as before.
FINE = Grid(steps=2**20, dtype=np.float64)


class KernelScores:
    """Computes `scores_of` for blocks of records (n, d) and the same `candidates` (m, d)."""

    def __init__(self, candidates: NDArray[np.float32], *, width: float, grid: Grid = FAST) -> None:
        self._grid, self._table = grid, _table(width)
        self._candidates = _on_grid(candidates, grid).T

    def __call__(self, records: NDArray[np.float32]) -> NDArray[np.int32]:
        scores = np.empty((len(records), self._candidates.shape[1]), dtype=np.int32)
        start = 0
        for rows in self.by_rows(records):
            scores[start : start + len(rows)] = rows
            start += len(rows)
        return scores

    def by_rows(self, records: NDArray[np.float32]) -> Iterator[NDArray[np.int32]]:
        """Yield the scores of the records, a few rows at a time.

        Each step overwrites the same array, so that the array stays in the processor's cache.
        """
        dim, count = self._candidates.shape
        if not 0 < count <= _MOST_CANDIDATES or records.shape[1] != dim:
            raise InvariantError("records (n, d) and candidates (m, d) must have the same d")
        products = _on_grid(records, self._grid) @ self._candidates
        size = max(1, min(len(products), _CACHED_NUMBERS // count))
        steps = np.empty((size, count), dtype=np.int64)
        weights, scores = np.empty((size, count)), np.empty((size, count), dtype=np.int32)
        for rows in blocks(len(products), size):
            filled = slice(rows.stop - rows.start)
            self._score(products[rows], steps[filled], weights[filled], out=scores[filled])
            yield scores[filled]

    def _score(
        self,
        products: NDArray[Any],
        steps: NDArray[np.int64],
        weights: NDArray[np.float64],
        *,
        out: NDArray[np.int32],
    ) -> None:
        """Compute the scores of rows of `products`, and overwrite all arrays."""
        below = np.subtract(products.max(axis=1, keepdims=True), products, out=products)
        below *= self._grid.dtype(2**_COSINE_BITS / self._grid.steps**2)
        steps[:] = below  # rounds down
        self._table.take(steps, mode="clip", out=weights)
        squares = np.zeros(len(weights), dtype=np.int64)
        for columns in blocks(weights.shape[1], _EXACT_SQUARES):
            block = weights[:, columns]
            squares += np.vecdot(block, block).astype(np.int64)
        norms = np.ceil(np.sqrt(squares.astype(np.float64)))
        weights *= (RESOLUTION / norms * _NOT_BELOW)[:, None]
        out[:] = weights  # rounds down


def scores_of(
    records: NDArray[np.float32], candidates: NDArray[np.float32], *, width: float
) -> NDArray[np.int32]:
    """Return the scores of every record for all candidates, `(n, m)` int32, in 1/RESOLUTION.

    Guarantee: row i depends only on `records[i]` and `candidates`, bit for bit. The L2 norm of a
    row is at most RESOLUTION. `records` (n, d) and `candidates` (m, d) are unit vectors. `width` is
    a difference of cosines. Raises InvariantError if there is no candidate, if the dimensions d
    differ, or if a vector is not finite or is longer than 1.

    >>> candidates = np.eye(3, dtype=np.float32)
    >>> scores_of(candidates[:2], candidates, width=0.2).shape
    (2, 3)
    """
    return KernelScores(candidates, width=width)(records)


def _on_grid(vectors: NDArray[np.float32], grid: Grid) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        whole = np.rint(vectors.astype(grid.dtype) * grid.steps)
        squares = np.einsum("ij,ij->i", whole, whole)
    # `not <=` also refuses NaN. Sums above 2^24 are inexact, but rounding keeps them above 2^24.
    if not (squares <= _LONGEST * grid.steps**2).all():
        raise InvariantError("an embedding is not a unit vector")
    return np.asarray(whole)


@lru_cache(maxsize=8)
def _table(width: float) -> NDArray[np.float64]:
    """Return the weights of all cosine differences k / 2^14 from 0 to 2."""
    below = np.arange(2 ** (_COSINE_BITS + 1) + 1) / 2**_COSINE_BITS
    return np.asarray(np.rint(np.exp(-below / width) * 2**_WEIGHT_BITS))
