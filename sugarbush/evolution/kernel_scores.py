"""Kernel scores: how near a record is to every candidate. A vote names only the nearest.

A record's scores are exp(cosine / width) at every candidate, scaled to norm 1. Their sum over the
records estimates the records' density at each candidate. Its L2 sensitivity is that of one vote,
but it contains information on all candidates, so the noise hides less of it
(docs/decisions/kernel-scores.md).

A record's scores depend on that record and the candidates alone, bit for bit:

1. Vectors are rounded to integers a, b in units of 1/4000, with |a|^2 and |b|^2 below 2^24. By
   Cauchy-Schwarz every sum of some of the products a_i b_i is an integer below 2^24 in size.
   float32 represents it exactly. So the matrix product is exact, in any order of summation.
2. The next steps (difference to the record's highest product, scaling, rounding down) are one
   correctly rounded operation per number each.
3. The exponential comes from a public table of integers w <= 2^20. At most 2^13 of their squares
   are added in float64, so these sums are at most 2^53 and exact. The rest is added in int64.
4. q = 4096 w / norm is at most 4096, and the norm an integer of at most 2^30 (2^20 candidates at
   most). float64 computes x = w (4096 / norm) (1 + 2^-45) with q <= x < q + 2^-32. A q that is no
   integer is at least 2^-30 below the next one. So floor(x) = floor(q).
5. The norm is rounded up from the root of S, the sum of the squares, which float64 computes with a
   relative error of at most 2^-52. So S / norm^2 < 1 + 2^-50, the squared norm of the scores is
   below 4096^2 + 1, and as an integer it is at most 4096^2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.threads import blocks, run_in_threads, thread_count

RESOLUTION = 4096  # the largest L2 norm of a record's scores, which are multiples of 1/4096

_COSINE_BITS = 14
_WEIGHT_BITS = 20
_BLOCK_ROWS = 512
_CACHED_NUMBERS = 2**16  # of one step at a time, so that they stay in the processor's cache
_EXACT_SQUARES = 2**13
_MOST_CANDIDATES = 2**20
_NOT_BELOW = 1 + 2.0**-45
_LONGEST = 1.04  # the largest squared norm on the grid; 1.04 * 4000^2 is below 2^24


@dataclass(frozen=True)
class Grid:
    """Vectors are rounded to multiples of 1/`steps`; sums of products are exact in `dtype`."""

    steps: int
    dtype: type[np.floating[Any]]


# A cosine is rounded by about 1e-4: two steps of the table.
FAST = Grid(steps=4000, dtype=np.float32)
# The grid of earlier versions, half as fast. Herding still uses it, so that it chooses the same.
FINE = Grid(steps=2**20, dtype=np.float64)


class KernelScores:
    """`scores_of` any block of records (n, d) for the same `candidates` (m, d)."""

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
        """The scores of the first records, of the next ones, and so on, in one array that is
        overwritten each time. It stays in the processor's cache.
        """
        dim, count = self._candidates.shape
        if not 0 < count <= _MOST_CANDIDATES or records.shape[1] != dim:
            raise InvariantError("records (n, d) need candidates (m, d) of the same d to score")
        products = _on_grid(records, self._grid) @ self._candidates
        size = max(1, min(len(products), _CACHED_NUMBERS // count))
        steps = np.empty((size, count), dtype=np.int64)
        weights, scores = np.empty((size, count)), np.empty((size, count), dtype=np.int32)
        for rows in blocks(len(products), size):
            own = slice(rows.stop - rows.start)
            self._score(products[rows], steps[own], weights[own], out=scores[own])
            yield scores[own]

    def _score(
        self,
        products: NDArray[Any],
        steps: NDArray[np.int64],
        weights: NDArray[np.float64],
        *,
        out: NDArray[np.int32],
    ) -> None:
        """The scores of rows of `products`. All arrays have one shape, and are overwritten."""
        below = np.subtract(products.max(axis=1, keepdims=True), products, out=products)
        below *= self._grid.dtype(2**_COSINE_BITS / self._grid.steps**2)
        steps[:] = below  # rounds down
        self._table.take(steps, mode="clip", out=weights)
        squares = np.zeros(len(weights), dtype=np.int64)
        for columns in blocks(weights.shape[1], _EXACT_SQUARES):
            own = weights[:, columns]
            squares += np.vecdot(own, own).astype(np.int64)
        norms = np.ceil(np.sqrt(squares.astype(np.float64)))
        weights *= (RESOLUTION / norms * _NOT_BELOW)[:, None]
        out[:] = weights  # rounds down


def scores_of(
    records: NDArray[np.float32], candidates: NDArray[np.float32], *, width: float
) -> NDArray[np.int32]:
    """The scores of every record for all candidates, `(n, m)` int32 in units of 1/RESOLUTION.

    Guarantee: row i depends on `records[i]` and `candidates` alone, bit for bit, and its L2 norm is
    at most RESOLUTION. The vectors have length 1: `records` (n, d), `candidates` (m, d); `width` in
    cosines. Raises InvariantError when a vector is not finite or is longer than 1 (sums would not
    be exact), when the numbers of dimensions d differ, and when there is no candidate.

    >>> candidates = np.eye(3, dtype=np.float32)
    >>> scores_of(candidates[:2], candidates, width=0.2).shape
    (2, 3)
    """
    return KernelScores(candidates, width=width)(records)


def summed_scores(
    records: NDArray[np.float32], candidates: NDArray[np.float32], *, width: float
) -> NDArray[np.int64]:
    """The sum of `scores_of` over `records`, `(m,)` int64, without noise."""
    scores, lock = KernelScores(candidates, width=width), Lock()
    total = np.zeros(len(candidates), dtype=np.int64)

    def add(places: slice) -> None:
        for rows in scores.by_rows(records[places]):
            own = rows.sum(axis=0)
            with lock:
                np.add(total, own, out=total)

    run_in_threads(add, blocks(len(records), _BLOCK_ROWS), threads=thread_count())
    return total


def _on_grid(vectors: NDArray[np.float32], grid: Grid) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        whole = np.rint(vectors.astype(grid.dtype) * grid.steps)
        squares = np.einsum("ij,ij->i", whole, whole)
    # Not >, so that NaN fails too. A sum that is not exact was over 2^24, and stays too large.
    if not (squares <= _LONGEST * grid.steps**2).all():
        raise InvariantError("an embedding is not a unit vector")
    return np.asarray(whole)


@lru_cache(maxsize=8)
def _table(width: float) -> NDArray[np.float64]:
    """The weight of a cosine that is k / 2^14 below the highest cosine of the record; k / 2^14 is
    at most 2."""
    below = np.arange(2 ** (_COSINE_BITS + 1) + 1) / 2**_COSINE_BITS
    return np.asarray(np.rint(np.exp(-below / width) * 2**_WEIGHT_BITS))
