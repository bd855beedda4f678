"""Embeddings in two dimensions, on one map for synthetic and real texts.

The axes are principal components of the *synthetic* texts. Those are released, so the public map is
post-processing. Only the internal page shows real texts, on the same axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from sugarbush.errors import InvariantError


@dataclass(frozen=True)
class Projection:
    """Two fixed axes."""

    _axes: PCA

    def __call__(self, embeddings: NDArray[Any]) -> NDArray[np.float64]:
        """Positions on the map, `(n, 2)`."""
        return np.asarray(self._axes.transform(embeddings), dtype=np.float64)


def synthetic_projection(embeddings: NDArray[Any]) -> Projection:
    """The axes of synthetic texts' `embeddings` (n, d).

    Raises InvariantError when there are fewer than two texts.
    """
    if len(embeddings) < 2 or embeddings.shape[1] < 2:
        raise InvariantError("a map needs two texts and two dimensions")
    return Projection(PCA(n_components=2, svd_solver="full").fit(embeddings))
