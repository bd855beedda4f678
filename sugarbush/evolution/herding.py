"""Kernel herding chooses the survivors of a round with kernel scores.

Selection by rank would keep only candidates from the densest regions of the corpus. Kernel herding
chooses candidates with the distribution of the records. Kernel herding is post-processing and costs
no budget.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution.kernel_scores import FINE, KernelScores
from sugarbush.evolution.selection import Votes
from sugarbush.threads import blocks, run_in_threads, thread_count

# The scores of 2^15 candidates need 2 GiB of memory. For more candidates, the scores of each chosen
# candidate are computed again.
_ROWS_IN_MEMORY = 2**15
_BLOCK_ROWS = 512


def herd(
    scores: Votes, embeddings: NDArray[np.float32], *, width: float, count: int
) -> NDArray[np.int64]:
    """Choose `count` different candidates and return their indices.

    A candidate gives kernel scores to all candidates, as a record does. The sum of the chosen
    candidates' scores approximates a multiple of `scores`. Each step chooses the candidate where
    the sum is farthest below this multiple. Candidates similar to a chosen candidate are therefore
    chosen late. If the sum of the noisy scores is not positive, all scores are replaced by 0. The
    chosen candidates are then very different from each other. Guarantee: post-processing. Shapes:
    `scores` (m,) contains noisy sums in any unit. `embeddings` (m, d) contains unit vectors of the
    candidates. Raises InvariantError if there are fewer than `count` candidates. Source: Chen,
    Welling & Smola 2010, "Super-samples from kernel herding", Eq. 8.

    >>> candidates = np.eye(3, dtype=np.float32)
    >>> herd(np.array([60, 10, 30]), candidates, width=0.2, count=2).tolist()
    [0, 2]
    """
    if len(embeddings) != len(scores) or not 0 <= count <= len(scores):
        raise InvariantError(f"{count} texts cannot be chosen from {len(scores)} candidates")
    total = float(np.sum(scores))
    if not count:
        return np.empty(0, dtype=np.int64)
    own_scores = _OwnScores(embeddings, width=width)
    mean_sum = own_scores.sum / len(scores)
    target = np.asarray(scores, dtype=np.float64) * (mean_sum / total if total > 0 else 0.0)
    missing, indices = target.copy(), np.empty(count, dtype=np.int64)
    for number in range(count):
        indices[number] = index = int(missing.argmax())
        missing += target - own_scores.row(index)
        missing[index] = -np.inf
    return indices


class _OwnScores:
    """The scores (m, m) that the candidates give to each other, with their exact sum."""

    def __init__(self, embeddings: NDArray[np.float32], *, width: float) -> None:
        # FINE is the grid of earlier versions, so restored rounds choose the same texts as before.
        self._scores = KernelScores(embeddings, width=width, grid=FINE)
        self._embeddings = embeddings
        count = len(embeddings)
        kept = count if count <= _ROWS_IN_MEMORY else 0
        self._rows = np.empty((kept, count), dtype=np.uint16)  # scores are at most 4096
        sums = np.zeros(count, dtype=np.int64)

        def fill(rows: slice) -> None:
            scores = self._scores(embeddings[rows])
            sums[rows] = scores.sum(axis=1)
            if kept:
                self._rows[rows] = scores

        run_in_threads(
            fill, blocks(count, _BLOCK_ROWS), threads=thread_count(), what="scores of candidates"
        )
        self.sum = int(sums.sum())

    def row(self, index: int) -> NDArray[np.integer[Any]]:
        """Return the scores that one candidate gives to all candidates, `(m,)`."""
        rows = self._rows[[index]] if len(self._rows) else self._scores(self._embeddings[[index]])
        row: NDArray[np.integer[Any]] = rows[0]
        return row
