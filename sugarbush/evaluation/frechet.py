"""The Fréchet distance between two Gaussians fitted to embeddings (FID's formula).

Source: Heusel et al. 2017, Eq. 6; Dowson & Landau 1982. With few texts the distance is too large,
because the rank of a covariance is low. Compare distances only at equal sample sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svdvals

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import ResampledRows
from sugarbush.evaluation.interface import (
    Metric,
    MetricSettings,
    MetricValue,
    Sample,
    distance_value,
    features_by_space,
)
from sugarbush.threads import one_blas_thread

_MAX_RESAMPLES = 25  # one distance takes as long as MAUVE with 100 resamples


def frechet_distance(reference: NDArray[Any], synthetic: NDArray[Any]) -> float:
    """Compute the squared Fréchet distance |a-b|^2 + tr(A + B - 2 (AB)^(1/2)).

    a and b are the means, A and B the covariances of `reference` (n, d) and `synthetic` (m, d). The
    unit is the squared unit of the features. Raises InvariantError if a sample has fewer than two
    rows or the dimensions differ.
    """
    if min(len(reference), len(synthetic)) < 2 or reference.shape[1] != synthetic.shape[1]:
        raise InvariantError(
            "the Fréchet distance needs at least two rows of each sample and equal dimensions, "
            f"got shapes {reference.shape} and {synthetic.shape}"
        )
    with one_blas_thread():
        mean_a, a = _moments(reference)
        mean_b, b = _moments(synthetic)
        # For A = a'a and B = b'b, tr (AB)^(1/2) is the sum of the singular values of ba', so the
        # code needs no covariance and no matrix root.
        cross = svdvals(b @ a.T).sum()
    distance = np.sum((mean_a - mean_b) ** 2) + np.sum(a**2) + np.sum(b**2) - 2 * cross
    return max(0.0, float(distance))


def _moments(features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean (d,), and a matrix f (min(n, d), d) such that the covariance is f'f."""
    features = np.asarray(features, dtype=np.float64)
    mean = features.mean(axis=0)
    factor = (features - mean) / np.sqrt(len(features) - 1)
    if len(factor) > factor.shape[1]:
        factor = np.asarray(np.linalg.qr(factor, mode="r"))
    return mean, factor


def _measure(heldout: Sample, synthetic: Sample, settings: MetricSettings) -> Iterator[MetricValue]:
    few = replace(settings, resamples=min(settings.resamples, _MAX_RESAMPLES))
    for space, real, made in features_by_space(heldout, synthetic, at_least=2):

        def distance(
            p: ResampledRows, q: ResampledRows, real: NDArray[Any] = real, made: NDArray[Any] = made
        ) -> float:
            return frechet_distance(real[p], made[q])

        yield distance_value("frechet", space, distance, (heldout, synthetic), few)


METRIC = Metric(name="frechet", measure=_measure)
