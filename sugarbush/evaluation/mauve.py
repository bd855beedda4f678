"""MAUVE: the area under the divergence frontier of two samples, on quantised embeddings.

Source: Pillutla et al. 2021, "MAUVE: Measuring the Gap Between Neural Text and Human Text using
Divergence Frontiers". We wrote this code from the paper, because the package `mauve-text` is GPL-3.
All hyperparameters are from the paper's appendix:

    features    embeddings of length 1, PCA to 90% of the variance
    clusters    k-means on both samples together, the best of five starts
                number: 1/10 of the number of texts in the smaller sample
    frontier    scaling c = 5, 25 mixture weights
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import BootstrapEstimate, ResampledRows, normal_interval
from sugarbush.evaluation.interface import (
    Metric,
    MetricSettings,
    MetricValue,
    Sample,
    features_by_space,
)
from sugarbush.randomness import Rng, public_rng, seed_of

_SCALING = 5.0
_MIXTURES = np.linspace(1e-6, 1 - 1e-6, 25)
_EXPLAINED = 0.9
_STARTS = 5
_MAX_ITERATIONS = 500
_QUANTISATIONS = 5
# Threads make k-means faster above this number of multiplications per iteration. For less work on a
# shared machine, the wait for threads costs up to thirty times the saved time.
_MULTIPLICATIONS_FOR_THREADS = 1e9


@dataclass(frozen=True, kw_only=True)
class Quantised:
    """The cluster of each text of two samples: (n,) and (m,) numbers in [0, clusters)."""

    reference: NDArray[np.int64]
    synthetic: NDArray[np.int64]
    clusters: int


def mauve(
    reference: NDArray[Any], synthetic: NDArray[Any], *, seed: int, clusters: int | None = None
) -> float:
    """Compute MAUVE of two samples of features, in (0, 1]. Equal samples have the value 1.

    The samples are (n, d) and (m, d). `quantise` explains `clusters`. Compare values only at equal
    sample sizes and equal numbers of clusters. Raises InvariantError if a sample is empty or the
    dimensions differ.
    """
    quantised = quantise(reference, synthetic, clusters=clusters, seed=seed)
    return _of_labels(quantised.reference, quantised.synthetic, quantised.clusters)


def mauve_interval(
    reference: NDArray[Any],
    synthetic: NDArray[Any],
    *,
    seed: int,
    resamples: int,
    rng: Rng,
    clusters: int | None = None,
) -> BootstrapEstimate:
    """Compute the mean of MAUVE over several quantisations, and its bootstrap interval.

    The bootstrap does not repeat the quantisations. With 500 to 5,000 texts, the seed of one
    quantisation changes MAUVE by 0.01 to 0.03.
    """
    several = [
        quantise(reference, synthetic, clusters=clusters, seed=seed_of(seed, "mauve", number))
        for number in range(_QUANTISATIONS)
    ]

    def averaged(p: ResampledRows, q: ResampledRows) -> float:
        return float(
            np.mean([_of_labels(k.reference[p], k.synthetic[q], k.clusters) for k in several])
        )

    return normal_interval(
        averaged,
        sizes=(len(reference), len(synthetic)),
        resamples=resamples,
        rng=rng,
        within=(0.0, 1.0),
    )


def quantise(
    reference: NDArray[Any], synthetic: NDArray[Any], *, seed: int, clusters: int | None = None
) -> Quantised:
    """Cluster the union of both samples by k-means.

    The default of `clusters` is 1/10 of the number of texts in the smaller sample, at least 2. The
    number of distinct points limits `clusters`. For example, equal texts make one cluster, and
    MAUVE is 1. If the number of clusters is near the number of texts, MAUVE has no meaning. The
    order of the rows changes no label.
    """
    if not len(reference) or not len(synthetic) or reference.shape[1:] != synthetic.shape[1:]:
        raise InvariantError(
            f"MAUVE needs two non-empty samples of equal dimension, got shapes {reference.shape} "
            f"and {synthetic.shape}"
        )
    if clusters is None:
        clusters = max(2, round(min(len(reference), len(synthetic)) / 10))
    joint = normalize(np.concatenate([synthetic, reference]).astype(np.float64))
    distinct, row_of = np.unique(joint, axis=0, return_inverse=True)
    clusters = min(clusters, len(distinct))
    # K-means starts at rows by number. In sorted order, the order of the texts changes nothing.
    order = np.argsort(row_of, kind="stable")
    labels = np.empty(len(joint), dtype=np.int64)
    labels[order] = _labels(joint[order], clusters=clusters, seed=seed)
    return Quantised(
        reference=labels[len(synthetic) :], synthetic=labels[: len(synthetic)], clusters=clusters
    )


def _labels(joint: NDArray[np.float64], *, clusters: int, seed: int) -> NDArray[np.int64]:
    """Return the cluster of each row, `(n,)`. The result depends on the order of the rows."""
    if clusters < 2:
        return np.zeros(len(joint), dtype=np.int64)
    threads = None if joint.size * clusters > _MULTIPLICATIONS_FOR_THREADS else 1
    with threadpool_limits(threads):
        return _k_means(_principal(joint), clusters=clusters, seed=seed)


def mauve_of_histograms(reference: NDArray[Any], synthetic: NDArray[Any]) -> float:
    """Compute MAUVE of two histograms (k,) of counts or fractions, with the same bins.

    MAUVE is the area below the curve of (exp(-c KL(Q|R)), exp(-c KL(P|R))) for mixtures R = wP +
    (1-w)Q. Source: Pillutla et al. 2021, Eqs. 1 and 2.
    """
    p, q = _normalised(reference), _normalised(synthetic)
    mixed = _MIXTURES[:, None] * p + (1 - _MIXTURES[:, None]) * q
    x = np.exp(-_SCALING * rel_entr(q, mixed).sum(axis=1))
    y = np.exp(-_SCALING * rel_entr(p, mixed).sum(axis=1))
    x, y = np.concatenate([[1.0], x, [0.0]]), np.concatenate([[0.0], y, [1.0]])
    area = float(-np.trapezoid(y, x))  # x decreases along the curve
    return min(1.0, area)  # rounding


def _of_labels(reference: NDArray[np.int64], synthetic: NDArray[np.int64], clusters: int) -> float:
    return mauve_of_histograms(
        np.bincount(reference, minlength=clusters), np.bincount(synthetic, minlength=clusters)
    )


def _principal(joint: NDArray[np.float64]) -> NDArray[np.float32]:
    """Project on the leading principal components, up to 90% of the variance, `(n, r)` float32."""
    solver = "covariance_eigh" if len(joint) >= joint.shape[1] else "full"
    reduced = PCA(n_components=_EXPLAINED, svd_solver=solver).fit_transform(joint)
    return np.ascontiguousarray(reduced, dtype=np.float32)


def _k_means(points: NDArray[np.float32], *, clusters: int, seed: int) -> NDArray[np.int64]:
    k_means = faiss.Kmeans(
        points.shape[1],
        clusters,
        niter=_MAX_ITERATIONS,
        nredo=_STARTS,
        seed=seed % 2**31,
        min_points_per_centroid=1,
        max_points_per_centroid=len(points),
    )
    k_means.train(points)
    return np.asarray(k_means.index.search(points, 1)[1][:, 0], dtype=np.int64)


def _normalised(counts: NDArray[Any]) -> NDArray[np.float64]:
    counts = np.asarray(counts, dtype=np.float64)
    if counts.sum() <= 0 or counts.min() < 0:
        raise InvariantError("counts of a histogram must not be negative and must not all be zero")
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares


def _measure(heldout: Sample, synthetic: Sample, settings: MetricSettings) -> Iterator[MetricValue]:
    for space, reference, features in features_by_space(heldout, synthetic, at_least=2):
        estimate = mauve_interval(
            reference,
            features,
            clusters=settings.clusters,
            seed=settings.seed,
            resamples=settings.resamples,
            rng=public_rng(settings.seed, "mauve", space),
        )
        yield MetricValue.of("mauve", space, estimate)


METRIC = Metric(name="mauve", measure=_measure)
