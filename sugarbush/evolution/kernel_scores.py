"""Kernel scores: how near a record is to every candidate. A vote names only the nearest.

A record's scores are exp(cosine / width) at every candidate, scaled to norm 1. Their sum over the
records estimates the records' density at each candidate. Its L2 sensitivity is that of one vote,
but it contains information on all candidates, so the noise hides less of it
(docs/decisions/kernel-scores.md).

A record's scores depend on that record and the candidates alone, bit for bit. Products of rounded
vectors are whole numbers that float64 represents exactly, and the exponential comes from a table.
All later steps use integers, rounded towards 0.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError

RESOLUTION = 4096  # the largest L2 norm of a record's scores, which are multiples of 1/4096

# Binary places that a vector is rounded to: sums of products stay below 2^53.
_VECTOR_BITS = 20
_COSINE_BITS = 14
_WEIGHT_BITS = 20
_BLOCK_ROWS = 512
_LONGEST = 1.001  # the largest squared norm: 1 plus the rounding of float32


def scores_of(
    records: NDArray[np.float32], candidates: NDArray[np.float32], *, width: float
) -> NDArray[np.int64]:
    """The scores of every record for all candidates, `(n, m)` int64 in units of 1/RESOLUTION.

    Guarantee: row i depends on `records[i]` and `candidates` alone, bit for bit, and its L2 norm is
    at most RESOLUTION. The vectors have length 1: `records` (n, d), `candidates` (m, d); `width` in
    cosines. Raises InvariantError when a vector is not finite or is longer than 1 (sums would not
    be exact), when the numbers of dimensions d differ, and when there is no candidate.

    >>> candidates = np.eye(3, dtype=np.float32)
    >>> scores_of(candidates[:2], candidates, width=0.2).shape
    (2, 3)
    """
    if not len(candidates) or records.shape[1] != candidates.shape[1]:
        raise InvariantError("records (n, d) need candidates (m, d) of the same d to score")
    products = _whole(records) @ _whole(candidates).T
    below = (products.max(axis=1, keepdims=True) - products) * 2.0 ** (
        _COSINE_BITS - 2 * _VECTOR_BITS
    )
    table = _table(width)
    weights = table[np.minimum(below.astype(np.int64), len(table) - 1)]
    norms = np.ceil(np.sqrt((weights**2).sum(axis=1, keepdims=True).astype(np.float64)))
    scores: NDArray[np.int64] = weights * RESOLUTION // norms.astype(np.int64)
    return scores


def summed_scores(
    records: NDArray[np.float32], candidates: NDArray[np.float32], *, width: float
) -> NDArray[np.int64]:
    """The sum of `scores_of` over `records`, `(m,)` int64, without noise."""
    total = np.zeros(len(candidates), dtype=np.int64)
    for start in range(0, len(records), _BLOCK_ROWS):
        block = records[start : start + _BLOCK_ROWS]
        total += scores_of(block, candidates, width=width).sum(axis=0)
    return total


def _whole(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    if not (np.einsum("ij,ij->i", wide, wide) <= _LONGEST).all():  # not <=, so that NaN fails too
        raise InvariantError("an embedding is not a unit vector")
    return np.asarray(np.rint(wide * 2**_VECTOR_BITS))


@lru_cache(maxsize=8)
def _table(width: float) -> NDArray[np.int64]:
    """The weight of a cosine that is k / 2^14 below the highest cosine of the record; k / 2^14 is
    at most 2."""
    below = np.arange(2 ** (_COSINE_BITS + 1) + 1) / 2**_COSINE_BITS
    return np.asarray(np.rint(np.exp(-below / width) * 2**_WEIGHT_BITS), dtype=np.int64)
