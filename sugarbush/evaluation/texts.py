"""Metrics of the words of texts: lengths, distinct n-grams and duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import mean_interval, normal_interval
from sugarbush.evaluation.interface import TEXT, WORDS, Metric, MetricSettings, MetricValue, Sample
from sugarbush.languages import count_words, words_in
from sugarbush.randomness import public_rng


def word_counts(texts: Sequence[str]) -> NDArray[np.int64]:
    """Count the words of each text, `(n,)` (`sugarbush.languages.words_in`)."""
    return np.array([count_words(text) for text in texts], dtype=np.int64)


def length_distance(reference: NDArray[Any], synthetic: NDArray[Any]) -> float:
    """Compute the 1-Wasserstein distance between two samples of lengths, in words.

    The distance is the smallest mean change of length that makes both distributions equal. Raises
    InvariantError if a sample is empty. Source: Ramdas et al. 2017.
    """
    if not len(reference) or not len(synthetic):
        raise InvariantError("the distance of lengths needs two non-empty samples")
    return float(wasserstein_distance(reference, synthetic))


def _measure_lengths(
    heldout: Sample, synthetic: Sample, settings: MetricSettings
) -> Iterator[MetricValue]:
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


LENGTHS = Metric(name="lengths", measure=_measure_lengths)


def distinct_n(texts: Sequence[str], *, n: int) -> float:
    """Compute the number of distinct n-grams divided by the number of all n-grams, in (0, 1].

    The ratio is smaller for larger corpora, so compare corpora of about equal size. Texts with
    fewer than n words are ignored. Raises InvariantError if no text has n words. Source: Li et al.
    2016.
    """
    counted = 0
    seen: set[tuple[str, ...]] = set()
    for text in texts:
        words = words_in(text.casefold())
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        counted += len(grams)
        seen.update(grams)
    if not counted:
        raise InvariantError(f"no text has {n} words")
    return len(seen) / counted


def duplicate_share(texts: Sequence[str]) -> float:
    """Compute the fraction of texts that repeat an earlier text.

    Letter case and white space are ignored. Raises InvariantError if there are no texts.
    """
    if not texts:
        raise InvariantError("the fraction of duplicates needs at least one text")
    different = Counter(" ".join(text.casefold().split()) for text in texts)
    return 1 - len(different) / len(texts)


def _measure_variety(_: Sample, synthetic: Sample, __: MetricSettings) -> Iterator[MetricValue]:
    """Yield values without intervals, because a bootstrap resample repeats n-grams."""
    texts = synthetic.texts
    yield MetricValue(metric="texts", space=TEXT, value=float(len(texts)))
    yield MetricValue(metric="duplicates", space=TEXT, value=duplicate_share(texts))
    longest = max(count_words(text) for text in texts)
    for n in (1, 2):
        if longest >= n:
            yield MetricValue(metric=f"distinct_{n}", space=TEXT, value=distinct_n(texts, n=n))


DISTINCT = Metric(name="distinct", measure=_measure_variety)
