"""Text lengths in words, and the distance of two length distributions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import mean_interval, normal_interval
from sugarbush.evaluation.interface import WORDS, Metric, MetricSettings, MetricValue, Sample
from sugarbush.randomness import public_rng


def word_counts(texts: Sequence[str]) -> NDArray[np.int64]:
    """The number of words of each text, `(n,)`; white space separates words."""
    return np.array([len(text.split()) for text in texts], dtype=np.int64)


def length_distance(reference: NDArray[Any], synthetic: NDArray[Any]) -> float:
    """The 1-Wasserstein distance of two samples of lengths, in words.

    It is the number of words that a text would have to gain or lose on average. Raises
    InvariantError when a sample is empty. Source: Ramdas et al. 2017.
    """
    if not len(reference) or not len(synthetic):
        raise InvariantError("lengths are compared between two non-empty samples")
    return float(wasserstein_distance(reference, synthetic))


def _measure(heldout: Sample, synthetic: Sample, settings: MetricSettings) -> Iterator[MetricValue]:
    real, made = word_counts(heldout.texts), word_counts(synthetic.texts)
    rng, resamples = public_rng(settings.seed, "lengths"), settings.resamples
    distance = normal_interval(
        lambda p, q: length_distance(real[p], made[q]),
        sizes=(len(real), len(made)),
        resamples=resamples,
        rng=rng,
        within=(0.0, np.inf),
    )
    yield MetricValue.of("length", WORDS, distance)
    yield MetricValue.of("mean_words", WORDS, mean_interval(made, resamples=resamples, rng=rng))


METRIC = Metric(name="lengths", measure=_measure)
