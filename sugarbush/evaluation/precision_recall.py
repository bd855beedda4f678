"""Precision, recall, density and coverage of embeddings by nearest-neighbour balls.

Source: Kynkäänniemi et al. 2019 (precision, recall); Naeem et al. 2020, Eqs. 4 and 6 (density,
coverage, k = 5). Precision and density ask whether synthetic texts lie where real ones do, recall
and coverage whether all that is real is reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from sugarbush.errors import InvariantError

NEIGHBOURS = 5


@dataclass(frozen=True, kw_only=True)
class NeighbourScores:
    """One score a text; a metric is the mean of its column.

    `precision` and `density` (m,) over synthetic texts, `recall` and `coverage` (n,) over real
    ones. Density may exceed 1.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    density: NDArray[np.float64]
    coverage: NDArray[np.float64]


def neighbour_scores(
    reference: NDArray[Any], synthetic: NDArray[Any], *, neighbours: int = NEIGHBOURS
) -> NeighbourScores:
    """The four scores of `synthetic` (m, d) against `reference` (n, d).

    A ball around a point reaches to its `neighbours`-th nearest in its own sample; its edge
    belongs to it, so points that coincide are inside each other's ball. Holds an (n, m) matrix.
    Raises InvariantError when a sample has no more than `neighbours` points.
    """
    if min(len(reference), len(synthetic)) <= neighbours:
        raise InvariantError(
            f"balls to the {neighbours}-th neighbour need more points than that, got "
            f"{len(reference)} and {len(synthetic)}"
        )
    distances = pairwise_distances(reference, synthetic)
    reference_radii = _radii(reference, neighbours)
    in_reference = distances <= reference_radii[:, None]
    in_synthetic = distances <= _radii(synthetic, neighbours)[None, :]
    return NeighbourScores(
        precision=in_reference.any(axis=0).astype(np.float64),
        recall=in_synthetic.any(axis=1).astype(np.float64),
        density=in_reference.sum(axis=0) / neighbours,
        coverage=(distances.min(axis=1) <= reference_radii).astype(np.float64),
    )


def _radii(points: NDArray[Any], neighbours: int) -> NDArray[np.float64]:
    """Distance to the `neighbours`-th nearest other point, `(n,)`."""
    search = NearestNeighbors(n_neighbors=neighbours).fit(points)
    return np.asarray(search.kneighbors()[0][:, -1], dtype=np.float64)
