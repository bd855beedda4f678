"""Who survives a round of scores: post-processing, so it costs no privacy.

By rank the candidates with the highest scores would survive, which lie in the dense middle. Kernel
herding chooses candidates that, taken for the records, would score like them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution.kernel_scores import scores_of, summed_scores
from sugarbush.evolution.selection import Votes


def herd(
    scores: Votes, embeddings: NDArray[np.float32], *, width: float, count: int
) -> NDArray[np.int64]:
    """Places of `count` different candidates whose own scores sum to the shape of `scores`.

    Greedy: each choice is the candidate where most is missing of what the choices before it should
    have brought. So a text like those chosen comes late, and equal ones share a single place's
    scores. Where noise has left no positive sum of scores, the choice spreads over the candidates.
    Shapes: `scores` (m,) noisy sums in any unit, `embeddings` (m, d), public like them.
    Raises InvariantError when there are fewer than `count` candidates.
    Source: Chen, Welling & Smola 2010, "Super-samples from kernel herding", Eq. 8.
    """
    if len(embeddings) != len(scores) or not 0 <= count <= len(scores):
        raise InvariantError(f"{count} texts cannot be chosen from {len(scores)} candidates")
    total = float(np.sum(scores))
    one = summed_scores(embeddings, embeddings, width=width).sum() / max(len(scores), 1)
    target = np.asarray(scores, dtype=np.float64) * (one / total if total > 0 else 0.0)
    missing, free, places = target.copy(), np.ones(len(scores), dtype=bool), []
    for _ in range(count):
        place = int(np.argmax(np.where(free, missing, -np.inf)))
        places.append(place)
        free[place] = False
        missing += target - scores_of(embeddings[[place]], embeddings, width=width)[0]
    return np.array(places, dtype=np.int64)
