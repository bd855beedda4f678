"""The Fréchet distance between two Gaussians fitted to embeddings (FID's formula).

Source: Heusel et al. 2017, Eq. 6; Dowson & Landau 1982. Depends on sample size: with few texts a
covariance is far from full rank and the distance too large, so compare only at equal sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigvalsh
from threadpoolctl import threadpool_limits

from sugarbush.errors import InvariantError


def frechet_distance(reference: NDArray[Any], synthetic: NDArray[Any]) -> float:
    """Squared Fréchet distance |a-b|^2 + tr(A + B - 2 (AB)^(1/2)), 0 where they agree.

    `reference` (n, d), `synthetic` (m, d), in squared units of the features.
    Raises InvariantError when either has fewer than two rows, which have no covariance.
    """
    if min(len(reference), len(synthetic)) < 2 or reference.shape[1] != synthetic.shape[1]:
        raise InvariantError(
            f"a covariance needs two rows of one dimension, got shapes {reference.shape} and "
            f"{synthetic.shape}"
        )
    # On matrices of a few hundred rows threads save nothing, and on a busy machine they wait.
    with threadpool_limits(1, user_api="blas"):
        mean_a, cov_a = _moments(reference)
        mean_b, cov_b = _moments(synthetic)
        # (AB)^(1/2) has the trace of (A^(1/2) B A^(1/2))^(1/2), whose argument is symmetric.
        values, vectors = eigh(cov_a)
        root = vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T
        cross = np.sqrt(np.clip(eigvalsh(root @ cov_b @ root), 0, None)).sum()
    distance = np.sum((mean_a - mean_b) ** 2) + np.trace(cov_a) + np.trace(cov_b) - 2 * cross
    return max(0.0, float(distance))


def _moments(features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    features = np.asarray(features, dtype=np.float64)
    return features.mean(axis=0), np.atleast_2d(np.cov(features, rowvar=False))
