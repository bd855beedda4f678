"""A reader of labels that noisy sums of embeddings by class teach.

Linear discriminant analysis: the texts of a value are normal around the mean of this value, with
one covariance for all values. The covariance comes from public texts. The mean of a value comes
from its noisy sum and its DP count, and is drawn to the mean of all values where noise dominates.
Guarantee: post-processing of released values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.class_sums import ClassSums, directions

_BETWEEN = 0.03  # variance between the means of values, as a fraction of the variance of texts
_DIRECTION = 0.4  # weight of the variance of texts in a direction
_ALL = 1.6  # weight of the mean variance of all directions
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
        of released texts, whose covariance is that of the records.
        """
        noisy = sums.of(column)
        if noisy is None or len(public) < 2:
            return None
        texts = directions(public, sums.centre)
        texts = texts - texts.mean(axis=0)
        variances, axes = np.linalg.eigh(texts.T @ texts / len(texts))
        variances = np.maximum(variances, 0.0)
        # texts that are nearly equal say nothing about the variance of records
        mean = max(float(variances.sum()), _LEAST_VARIANCE) / len(variances)
        spread = _DIRECTION * variances + _ALL * mean
        between = _BETWEEN * variances + 1e-12
        counts = np.maximum(counts[:-1], _LEAST_COUNT)
        total, projected = counts.sum(), noisy @ axes
        # the mean of all records, drawn to the centre as far as noise dominates
        prior = 2 * between
        middle = projected.sum(axis=0) / total
        middle *= prior / (prior + len(counts) * (sums.stddev / total) ** 2)
        observed = projected / counts[:, None]
        variance = (sums.stddev / counts[:, None]) ** 2 + spread / counts[:, None]
        means = middle + (observed - middle) * between / (between + variance)
        return cls(means=means, spread=spread, axes=axes, centre=sums.centre)

    def log_likelihoods(self, embeddings: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the log-likelihood of each value, up to a constant of the text: `(n, k)`.

        It is 0 for `other`, whose records have no sum.
        """
        texts = directions(embeddings, self.centre) @ self.axes
        scaled = self.means / self.spread
        listed = texts @ scaled.T - (self.means * scaled).sum(axis=1) / 2
        return np.pad(listed, ((0, 0), (0, 1)))


Weights = tuple[float, float]  # of the sums and of the donated examples
SUMS_ALONE: Weights = (1.0, 0.0)


def choose_weights(
    of_sums: NDArray[np.float64],
    of_examples: NDArray[np.float64],
    labels: NDArray[np.int64],
    log_prior: NDArray[np.float64],
) -> Weights:
    """Return the weights of two log-likelihoods (m, k) that make public labels (m,) the likeliest.

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
