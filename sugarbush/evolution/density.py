"""A final set that carries the density of the votes: post-processing, so it costs no privacy.

Selection by rank keeps the candidates that are best one by one. At a few records a candidate and
a noise of as many, it misses where most of the records lie; the sum over a cluster of candidates
does not, since noise grows with the root of their number and votes with the number itself.
"""

from __future__ import annotations

import faiss
import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution.selection import Votes, apportion, select_by_rank
from sugarbush.randomness import Rng

CANDIDATES_A_CELL = 16
_ITERATIONS = 30


def select_by_density(
    votes: Votes,
    embeddings: NDArray[np.float32],
    *,
    count: int,
    rng: Rng,
    candidates_a_cell: int = CANDIDATES_A_CELL,
) -> NDArray[np.int64]:
    """Places of `count` different candidates, in proportion to the votes of their clusters.

    Candidates are clustered by k-means, a cell for every `candidates_a_cell` of them; a cell's
    seats follow the sum of its noisy votes, negative sums as 0, and go to its candidates by rank.
    Seats that a cell cannot fill go to the best of all that are left.
    Shapes: `votes` (m,), `embeddings` (m, d) of the candidates, public like them.
    Raises InvariantError when there are fewer than `count` candidates.
    """
    if len(embeddings) != len(votes) or not 0 <= count <= len(votes):
        raise InvariantError(f"{count} texts cannot be chosen from {len(votes)} candidates")
    ranked = select_by_rank(votes, count=len(votes), rng=rng)
    cells = max(1, len(votes) // candidates_a_cell)
    labels = _cells(embeddings, cells, seed=int(rng.integers(2**31 - 1)))
    seats = apportion(np.bincount(labels, weights=votes, minlength=cells), count)
    chosen = [ranked[labels[ranked] == cell][: seats[cell]] for cell in range(cells)]
    places = np.concatenate(chosen)
    left = ranked[~np.isin(ranked, places)]
    return np.concatenate([places, left[: count - len(places)]])


def _cells(embeddings: NDArray[np.float32], cells: int, *, seed: int) -> NDArray[np.int64]:
    """The cluster of each row, `(m,)` in [0, cells)."""
    if cells == 1:
        return np.zeros(len(embeddings), dtype=np.int64)
    k_means = faiss.Kmeans(
        embeddings.shape[1],
        cells,
        niter=_ITERATIONS,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=len(embeddings),
    )
    k_means.train(embeddings)
    return np.asarray(k_means.index.search(embeddings, 1)[1][:, 0], dtype=np.int64)
