"""Each record votes for its nearest candidate by Euclidean distance.

A vote must not depend on other records. The search multiplies float32 matrices, one block of
records at a time. The last bits of a product depend on the other records of the block. Candidates
that differ by less than the rounding error are therefore compared again in float64, pair by pair.
The result depends only on the record and the candidates, as `Private.map_batch` requires. The
result is equal on every machine.

If candidates are bitwise equal, only the candidate with the lowest index gets votes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.threads import blocks, run_in_threads, thread_count

_SCORE_BYTES = 256 * 2**20  # memory for the scores of all blocks that run at the same time
_MAX_BLOCK_ROWS = 1024  # 512 and 2048 are slower (benchmarks/voting.py)
_UNIT_ROUNDOFF = float(np.finfo(np.float32).eps) / 2
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)

Search = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.int64]]


def nearest(queries: NDArray[np.float32], candidates: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the index of the nearest candidate of every query, `(n,)` int64.

    Guarantee: element i depends only on `queries[i]` and `candidates`, bit for bit. Distances are
    compared as float64 sums of squares. A tie goes to the first candidate.

    `queries` is (n, d), `candidates` (m, d). Besides its arguments and its result, the search needs
    about 300 MB of memory for any n. Raises InvariantError if there is no candidate, if the shapes
    do not fit, or if a squared norm is not finite in float32.

    >>> candidates = np.array([[0.0], [1.0], [5.0]], dtype=np.float32)
    >>> nearest(np.array([[0.8], [4.0]], dtype=np.float32), candidates).tolist()
    [1, 2]
    """
    _check(queries, candidates)
    return _search(queries, np.arange(len(queries)), candidates, count=1)[:, 0]


def nearest_few(
    queries: NDArray[np.float32], candidates: NDArray[np.float32], *, count: int
) -> NDArray[np.int64]:
    """Return the indices of the `count` nearest candidates of every query, `(n, count)` int64.

    The nearest comes first. A copy of an earlier candidate is never chosen. If there are fewer than
    `count` different candidates, the last columns are -1. The guarantee, the shapes and the errors
    are those of `nearest`.

    >>> candidates = np.array([[0.0], [1.0], [5.0]], dtype=np.float32)
    >>> nearest_few(np.array([[0.8], [4.0]], dtype=np.float32), candidates, count=2).tolist()
    [[1, 0], [2, 1]]
    """
    _check(queries, candidates)
    return _search(queries, np.arange(len(queries)), candidates, count=count)


def within_label(
    queries: NDArray[np.float32],
    candidates: NDArray[np.float32],
    *,
    query_labels: NDArray[np.int64],
    candidate_labels: NDArray[np.int64],
    search: Search,
) -> NDArray[np.int64]:
    """Search the nearest candidates of the same label for every query, `(n, k)` int64.

    `search(queries, candidates)` returns k indices of each query, such as `nearest_few`. If no
    candidate has the label of a query, the query votes among all candidates. Every record therefore
    votes exactly once, and the histogram over all labels has the sensitivity of one vote.

    Guarantee: row i depends only on `queries[i]`, `query_labels[i]` and the candidates.
    `query_labels` is (n,), `candidate_labels` (m,); labels are any integers. Raises the errors of
    `nearest`, and InvariantError if a vector has no label.
    """
    _check(queries, candidates)
    if query_labels.shape != (len(queries),) or candidate_labels.shape != (len(candidates),):
        raise InvariantError("every query and every candidate needs one label")
    votes: NDArray[np.int64] | None = None
    for label in np.unique(query_labels):
        rows = np.flatnonzero(query_labels == label)
        eligible = np.flatnonzero(candidate_labels == label)
        if not len(eligible):
            eligible = np.arange(len(candidates))
        indices = search(queries[rows], candidates[eligible])
        if votes is None:
            votes = np.empty((len(queries), indices.shape[1]), dtype=np.int64)
        votes[rows] = np.where(indices >= 0, eligible[indices], -1)
    return np.empty((0, 1), dtype=np.int64) if votes is None else votes


def _check(queries: NDArray[np.float32], candidates: NDArray[np.float32]) -> None:
    if queries.ndim != 2 or candidates.ndim != 2 or queries.shape[1] != candidates.shape[1]:
        raise InvariantError("queries (n, d) and candidates (m, d) must have the same d")
    if queries.dtype != np.float32 or candidates.dtype != np.float32:
        raise InvariantError("queries and candidates must be float32")
    if not len(candidates):
        raise InvariantError("there is no candidate to vote for")


@dataclass(frozen=True)
class _Target:
    """The distinct candidates, prepared for the matrix product.

    `vectors` (u, d) contains the distinct candidates c. `indices` (u,) contains the lowest index of
    each c, in increasing order. `augmented` (u, d+1) contains the rows (c, -|c|^2/2). The product
    of a row with (x, 1) is x.c - |c|^2/2. The product is largest where |x - c| is smallest.
    `largest_norm` is the largest |c|.
    """

    vectors: NDArray[np.float32]
    indices: NDArray[np.int64]
    augmented: NDArray[np.float32]
    largest_norm: float


def _target(candidates: NDArray[np.float32]) -> _Target:
    rows = np.ascontiguousarray(candidates)
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    indices = np.sort(np.unique(keys, return_index=True)[1])  # a later copy gets no vote
    vectors = np.ascontiguousarray(candidates[indices])
    squares = _squared_norms(vectors)
    augmented = np.concatenate([vectors, (-squares / 2)[:, None]], axis=1)
    return _Target(vectors, indices, augmented, float(np.sqrt(squares.max())))


def _search(
    queries: NDArray[np.float32],
    rows: NDArray[np.int64],
    candidates: NDArray[np.float32],
    *,
    count: int,
) -> NDArray[np.int64]:
    """Compute `nearest_few` for the queries at `rows`, `(len(rows), count)`."""
    target, threads = _target(candidates), thread_count()
    indices = np.full((len(rows), count), -1, dtype=np.int64)
    few = min(count, len(target.vectors))

    def fill(block: slice) -> None:
        batch = queries[rows[block]]
        if few == 1:
            chosen = _nearest_of_block(batch, target)[:, None]
        else:
            chosen = _nearest_few_of_block(batch, target, few)
        indices[block, :few] = target.indices[chosen]

    most = min(_SCORE_BYTES // (4 * len(target.vectors) * threads), -(-len(rows) // threads))
    size = max(1, min(_MAX_BLOCK_ROWS, most))
    run_in_threads(fill, blocks(len(rows), size), threads=threads, what="nearest candidates")
    return indices


def _scores(
    x: NDArray[np.float32], target: _Target
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return x.c - |c|^2/2 for every pair, `(b, u)`, and error bounds `(b,)`.

    The error bound of a row is twice the largest rounding error.
    """
    squares = _squared_norms(x)
    ones = np.ones((len(x), 1), dtype=np.float32)
    scores = np.concatenate([x, ones], axis=1) @ target.augmented.T
    # Higham 2002, Eq. 3.5: |fl(x.y) - x.y| <= gamma_d |x|.|y|, for any order of the sum.
    # gamma_(2d+4) also covers the rounding of |c|^2/2 and of this bound. _SMALLEST_NORMAL covers
    # underflow.
    terms = 2 * x.shape[1] + 4
    gamma = terms * _UNIT_ROUNDOFF / (1 - terms * _UNIT_ROUNDOFF)
    norms = np.sqrt(squares.astype(np.float64))
    size = norms * target.largest_norm + target.largest_norm**2 / 2
    return scores, 2 * (gamma * size + terms * _SMALLEST_NORMAL)


def _nearest_of_block(x: NDArray[np.float32], target: _Target) -> NDArray[np.int64]:
    scores, slack = _scores(x, target)
    every = np.arange(len(x))
    best: NDArray[np.int64] = scores.argmax(axis=1)
    lowest = scores[every, best] - slack
    top = scores[every, best]
    scores[every, best] = -np.inf
    for row in np.flatnonzero(scores.max(axis=1) >= lowest):
        scores[row, best[row]] = top[row]
        rivals = np.flatnonzero(scores[row] >= lowest[row])
        best[row] = rivals[_distances(x[row], target.vectors[rivals]).argmin()]
    return best


def _nearest_few_of_block(x: NDArray[np.float32], target: _Target, count: int) -> NDArray[np.int64]:
    """Return the `count` nearest candidates of each row, by exact distance, then by index.

    If a candidate's score is below the `count`-th largest score by more than the error bound, at
    least `count` other candidates are truly nearer. So the other candidates contain the nearest.
    """
    scores, slack = _scores(x, target)
    last = np.partition(scores, scores.shape[1] - count, axis=1)[:, scores.shape[1] - count]
    lowest = last - slack
    chosen = np.empty((len(x), count), dtype=np.int64)
    for row in range(len(x)):
        rivals = np.flatnonzero(scores[row] >= lowest[row])
        order = np.argsort(_distances(x[row], target.vectors[rivals]), kind="stable")
        chosen[row] = rivals[order[:count]]
    return chosen


def _distances(x: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the squared distances from x to `others`, with a fixed order of summation."""
    difference = others.astype(np.float64) - x.astype(np.float64)
    return np.asarray((difference * difference).sum(axis=1))


def _squared_norms(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    squares = np.einsum("ij,ij->i", vectors, vectors)
    if not np.isfinite(squares).all():
        raise InvariantError("an embedding is not finite, or too large for float32")
    return np.asarray(squares)
