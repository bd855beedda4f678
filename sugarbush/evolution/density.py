"""A final set that follows the density of the votes: post-processing, so it costs no privacy.

Selection by rank keeps the best single candidates. If a candidate has only a few votes and the
noise is as large, selection by rank misses the regions with most records. The sum over a cluster
does not miss them: votes grow with the number of candidates, noise with its square root.
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
    """Indices of `count` different candidates, in proportion to the votes of their clusters.

    k-means makes one cell per `candidates_a_cell` candidates. The number of texts from a cell is in
    proportion to the sum of its noisy votes; a negative sum counts as 0. A cell contributes its
    candidates with the most votes. If a cell has too few candidates, the best remaining candidates
    of other cells are used. Guarantee: post-processing. Shapes: `votes` (m,), `embeddings` (m, d)
    of the candidates. Raises InvariantError when there are fewer than `count` candidates.

    >>> from sugarbush.randomness import public_rng
    >>> places = np.repeat(np.eye(2, dtype=np.float32), 2, axis=0)
    >>> chosen = select_by_density(
    ...     np.array([9, 1, 8, 2]), places, count=2, rng=public_rng(1), candidates_a_cell=2
    ... )
    >>> sorted(chosen.tolist())
    [0, 2]
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
