"""Survivors of a round of kernel scores: post-processing, so it costs no privacy.

Selection by rank would keep the candidates with the highest scores, which lie in the dense middle
of the corpus. Kernel herding chooses candidates with scores like those of the records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution.kernel_scores import scores_of, summed_scores
from sugarbush.evolution.selection import Votes

# if there are at most this many candidates, all their scores are computed at once
_ROWS_IN_MEMORY = 2000


def herd(
    scores: Votes, embeddings: NDArray[np.float32], *, width: float, count: int
) -> NDArray[np.int64]:
    """Indices of `count` different candidates.

    The sum of their own scores approximates a multiple of `scores`. The algorithm is greedy: it
    chooses the candidate where the gap left by the earlier choices is largest. So texts similar to
    a chosen one are chosen late. If the noisy scores have no positive sum, the choice spreads over
    the candidates. Guarantee: post-processing. Shapes: `scores` (m,) noisy sums in any unit,
    `embeddings` (m, d) of the candidates, unit vectors. Raises InvariantError when there are fewer
    than `count` candidates. Source: Chen, Welling & Smola 2010, "Super-samples from kernel
    herding", Eq. 8.

    >>> candidates = np.eye(3, dtype=np.float32)
    >>> herd(np.array([60, 10, 30]), candidates, width=0.2, count=2).tolist()
    [0, 2]
    """
    if len(embeddings) != len(scores) or not 0 <= count <= len(scores):
        raise InvariantError(f"{count} texts cannot be chosen from {len(scores)} candidates")
    total = float(np.sum(scores))
    own: NDArray[np.int64] | None = None
    if 0 < len(scores) <= _ROWS_IN_MEMORY:
        own = scores_of(embeddings, embeddings, width=width)
        whole = own.sum()
    else:
        whole = summed_scores(embeddings, embeddings, width=width).sum()
    one = whole / max(len(scores), 1)
    target = np.asarray(scores, dtype=np.float64) * (one / total if total > 0 else 0.0)
    missing, free, places = target.copy(), np.ones(len(scores), dtype=bool), []
    for _ in range(count):
        place = int(np.argmax(np.where(free, missing, -np.inf)))
        places.append(place)
        free[place] = False
        row = own[place] if own is not None else _row(place, embeddings, width=width)
        missing += target - row
    return np.array(places, dtype=np.int64)


def _row(place: int, embeddings: NDArray[np.float32], *, width: float) -> NDArray[np.int64]:
    row: NDArray[np.int64] = scores_of(embeddings[[place]], embeddings, width=width)[0]
    return row
