"""Reads labels with noisy sums of embeddings by class.

Linear discriminant analysis: the texts of a value are normal around the mean of this value, with
one covariance for all values. The covariance comes from public texts. The mean of a value comes
from its noisy sum and its DP count, and is shrunk towards the mean of all values where noise
dominates. The public texts then refine the means by expectation maximisation, with the DP counts as
the frequencies of the values. All texts together have the weight of 200 records without noise, and
at most twice the weight of the sums. Guarantee: post-processing of released values.

Source of the refinement: Nigam, McCallum, Thrun, Mitchell 2000, "Text Classification from Labeled
and Unlabeled Documents using EM" (their EM-lambda).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sugarbush.embedding.class_sums import ClassSums, directions
from sugarbush.threads import one_blas_thread

_BETWEEN = 0.03  # variance between the means of values, as a fraction of the variance of texts
_DIRECTION = 0.4  # weight of the variance of texts in a direction
_ALL = 1.6  # weight of the mean variance of all directions
_TEXTS_PER_EXAMPLE = 2.0  # weight of all texts together, relative to what the sums say
_MOST_TEXTS = 200.0
_READ_TEXTS = 5000
_ROUNDS = 8
_SHARE_ROUNDS = 5
_LEAST_COUNT = 3.0
_LEAST_VARIANCE = 0.1  # of directions in total; that of texts is near 1
_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 4.0)
_DOUBT = 0.03


@dataclass(frozen=True, kw_only=True)
class ClassReader:
    """The means (k - 1, d) of the listed values, the spread (d,) of texts around them, the axes."""

    means: NDArray[np.float64]
    spread: NDArray[np.float64]
    axes: NDArray[np.float64]
    centre: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        sums: ClassSums,
        column: int,
        *,
        counts: NDArray[np.float64],
        public: NDArray[np.floating],
    ) -> ClassReader | None:
        """Return the reader of an attribute, or None without sums.

        `counts` (k,) are the DP counts of its values, `other` last. `public` (n, d) are embeddings
        of released texts. Their covariance is used for the records.
        """
        noisy = sums.of(column)
        if noisy is None or len(public) < 2:
            return None
        variances, axes = _principal_axes(_Vectors(directions(public, sums.centre)))
        # texts that are nearly equal say nothing about the variance of records
        mean = max(float(variances.sum()), _LEAST_VARIANCE) / len(variances)
        spread = _DIRECTION * variances + _ALL * mean
        between = _BETWEEN * variances + 1e-12
        listed = float(counts[:-1].sum() / max(counts.sum(), 1.0))
        counts = np.maximum(counts[:-1], _LEAST_COUNT)
        total, projected = counts.sum(), noisy @ axes
        # the mean of all records, drawn to the centre as far as noise dominates
        prior = 2 * between
        middle = projected.sum(axis=0) / total
        middle *= prior / (prior + len(counts) * (sums.stddev / total) ** 2)
        observed = projected / counts[:, None]
        variance = (sums.stddev / counts[:, None]) ** 2 + spread / counts[:, None]
        weighted, precision = middle / between + observed / variance, 1 / between + 1 / variance
        reader = cls(means=weighted / precision, spread=spread, axes=axes, centre=sums.centre)
        # as many records without noise would say as much as the sums
        examples = float((spread / variance).mean(axis=1).sum())
        of_texts = directions(public[:_READ_TEXTS], sums.centre) @ axes
        weight = min(_MOST_TEXTS, _TEXTS_PER_EXAMPLE * examples, len(of_texts)) / len(of_texts)
        weight *= listed  # the other texts belong to none of the values
        for _ in range(_ROUNDS):
            weights = weight * _in_shares(reader._scores(of_texts), counts / total)
            of_values = precision + weights.sum(axis=0)[:, None] / spread
            reader = replace(reader, means=(weighted + weights.T @ of_texts / spread) / of_values)
        return reader

    def log_likelihoods(self, embeddings: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the log-likelihood of each value, up to a constant of the text: `(n, k)`.

        It is 0 for `other`, because `other` has no sum.
        """
        listed = self._scores(directions(embeddings, self.centre) @ self.axes)
        return np.pad(listed, ((0, 0), (0, 1)))

    def _scores(self, texts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-likelihood of each listed value, of texts (n, d) along the axes."""
        scaled = self.means / self.spread
        return np.asarray(texts @ scaled.T - (self.means * scaled).sum(axis=1) / 2)


@dataclass(frozen=True, eq=False)
class _Vectors:
    """Vectors (n, d) as a key of a cache."""

    rows: NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Vectors) and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash((self.rows.shape, float(self.rows.sum())))


@lru_cache(maxsize=2)
def _principal_axes(vectors: _Vectors) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variances (d,) of released texts and the axes (d, d). All attributes, and all
    divisions of the donated examples, are read along the same axes."""
    texts = vectors.rows - vectors.rows.mean(axis=0)
    with one_blas_thread():
        variances, axes = np.linalg.eigh(texts.T @ texts / len(texts))
    return np.maximum(variances, 0.0), axes


def _in_shares(logs: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of each value (n, k), with means of about `shares` (k,)."""
    likely = np.exp(logs - logs.max(axis=1, keepdims=True)) * shares
    for _ in range(_SHARE_ROUNDS):
        likely /= likely.sum(axis=1, keepdims=True)
        likely *= shares / np.maximum(likely.mean(axis=0), 1e-12)
    return np.asarray(likely / likely.sum(axis=1, keepdims=True))


Weights = tuple[float, float]  # of the sums and of the donated examples
SUMS_ALONE: Weights = (1.0, 0.0)


def choose_weights(
    of_sums: NDArray[np.float64],
    of_examples: NDArray[np.float64],
    labels: NDArray[np.int64],
    log_prior: NDArray[np.float64],
) -> Weights:
    """Return the weights of two log-likelihoods (m, k) that fit public labels (m,) best.

    A weight of 0 leaves a source out, so the labels decide which source reads better. Without
    labels, both count.
    """

    if not len(labels):
        return 1.0, 1.0

    def loss(weights: Weights) -> float:
        likely = combined(of_sums, of_examples, log_prior, weights=weights)
        return -float(np.log(likely[np.arange(len(labels)), labels]).mean())

    return min(((a, b) for a in _WEIGHTS for b in _WEIGHTS), key=loss)


def combined(
    of_sums: NDArray[np.float64],
    of_examples: NDArray[np.float64] | float,
    log_prior: NDArray[np.float64],
    *,
    weights: Weights,
) -> NDArray[np.float64]:
    """Return the probability of each value (n, k), from two log-likelihoods and the prior."""
    from scipy.special import logsumexp  # slow to import

    logs = weights[0] * of_sums + weights[1] * of_examples + log_prior
    likely = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    return np.asarray((1 - _DOUBT) * likely + _DOUBT / likely.shape[1])
