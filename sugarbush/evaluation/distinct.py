"""Variety of one set of texts: distinct n-grams and duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sugarbush.errors import InvariantError
from sugarbush.evaluation.interface import TEXT, Metric, MetricSettings, MetricValue, Sample


def distinct_n(texts: Sequence[str], *, n: int) -> float:
    """The share of distinct n-grams among all n-grams of words, in (0, 1].

    It falls as a set grows, so compare sets of about equal size. Texts with fewer than n words
    add nothing. Raises InvariantError when no text has n words. Source: Li et al. 2016.
    """
    counted = 0
    seen: set[tuple[str, ...]] = set()
    for text in texts:
        words = text.casefold().split()
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        counted += len(grams)
        seen.update(grams)
    if not counted:
        raise InvariantError(f"no text has {n} words")
    return len(seen) / counted


def duplicate_share(texts: Sequence[str]) -> float:
    """The share of texts that repeat an earlier one, ignoring letter case and white space.

    Raises InvariantError when there are no texts.
    """
    if not texts:
        raise InvariantError("the share of duplicates needs at least one text")
    different = Counter(" ".join(text.casefold().split()) for text in texts)
    return 1 - len(different) / len(texts)


def _measure(_: Sample, synthetic: Sample, __: MetricSettings) -> Iterator[MetricValue]:
    """There are no intervals, because resampling repeats texts and so their n-grams."""
    texts = synthetic.texts
    yield MetricValue(metric="texts", space=TEXT, value=float(len(texts)))
    yield MetricValue(metric="duplicates", space=TEXT, value=duplicate_share(texts))
    longest = max(len(text.split()) for text in texts)
    for n in (1, 2):
        if longest >= n:
            yield MetricValue(metric=f"distinct_{n}", space=TEXT, value=distinct_n(texts, n=n))


METRIC = Metric(name="distinct", measure=_measure)
