"""Computes precision, recall, density and coverage of embeddings, from balls around the points.

Precision and density measure whether synthetic texts are near real texts. Recall and coverage
measure whether every real text is near a synthetic text. Source: Kynkäänniemi et al. 2019
(precision, recall); Naeem et al. 2020, Eqs. 4 and 6 (density, coverage, k = 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import mean_interval
from sugarbush.evaluation.interface import (
    Metric,
    MetricSettings,
    MetricValue,
    Sample,
    features_by_space,
)
from sugarbush.randomness import public_rng

NEIGHBOURS = 5


@dataclass(frozen=True, kw_only=True)
class NeighbourScores:
    """One score for each text; a metric is the mean of its scores.

    `precision` and `density` (m,) contain a score per synthetic text. `recall` and `coverage` (n,)
    contain a score per real text. Density may exceed 1.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    density: NDArray[np.float64]
    coverage: NDArray[np.float64]


def neighbour_scores(reference: NDArray[Any], synthetic: NDArray[Any]) -> NeighbourScores:
    """Compute the four scores of `synthetic` (m, d) against `reference` (n, d).

    The radius of a ball is the distance from its centre to the 5th nearest neighbour in the same
    sample. The function needs memory for an (n, m) matrix. Raises InvariantError if a sample has
    fewer than 6 points.
    """
    if min(len(reference), len(synthetic)) <= NEIGHBOURS:
        raise InvariantError(
            f"each sample needs more than {NEIGHBOURS} points, got {len(reference)} and "
            f"{len(synthetic)}"
        )
    distances = pairwise_distances(reference, synthetic)
    reference_radii = _radii(reference)
    in_reference = distances <= reference_radii[:, None]
    in_synthetic = distances <= _radii(synthetic)[None, :]
    return NeighbourScores(
        precision=in_reference.any(axis=0).astype(np.float64),
        recall=in_synthetic.any(axis=1).astype(np.float64),
        density=in_reference.sum(axis=0) / NEIGHBOURS,
        coverage=(distances.min(axis=1) <= reference_radii).astype(np.float64),
    )


def _radii(points: NDArray[Any]) -> NDArray[np.float64]:
    """Compute the distance to the 5th nearest other point, `(n,)`."""
    search = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(points)
    return np.asarray(search.kneighbors()[0][:, -1], dtype=np.float64)


def _measure(heldout: Sample, synthetic: Sample, settings: MetricSettings) -> Iterator[MetricValue]:
    for space, real, made in features_by_space(heldout, synthetic, at_least=NEIGHBOURS + 1):
        for name, scores in vars(neighbour_scores(real, made)).items():
            rng = public_rng(settings.seed, name, space)
            estimate = mean_interval(scores, resamples=settings.resamples, rng=rng)
            yield MetricValue.of(name, space, estimate)


METRIC = Metric(name="precision_recall", measure=_measure)
