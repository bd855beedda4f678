"""Searches synthetic texts for copies. A search without a result does not prove privacy.

The first check finds the longest run of words that a synthetic text shares with a corpus. The
second check tests whether synthetic texts are nearer to training texts than to held-out texts. The
second check is *not* a privacy test, because the distance to the closest record does not show what
an attacker can do (Yao et al. 2025, "The DCR Delusion"). Only the ledger gives a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import mean_interval
from sugarbush.evaluation.interface import MetricSettings, MetricValue, Sample
from sugarbush.languages import words_in
from sugarbush.randomness import public_rng

_LONG_COPY_WORDS = 16


def copy_values(
    synthetic: Sample,
    *,
    training: Sample,
    heldout: Sample,
    donated: Sequence[str],
    public: Sequence[str],
    space: str,
    settings: MetricSettings,
) -> Iterator[MetricValue]:
    """Yield shared runs of words and compared distances, for each corpus that is not empty.

    `space` names the feature space of the distances. The comparison of distances uses equal numbers
    of training and held-out texts.
    """
    if not len(synthetic):
        return
    corpora = {
        "private": training.texts,
        "heldout": heldout.texts,
        "donated": donated,
        "public": public,
    }
    for name, corpus in corpora.items():
        if corpus:
            longest = longest_shared_ngrams(synthetic.texts, corpus)
            yield MetricValue(metric="longest_copy", space=name, value=float(longest.max()))
            long = (longest >= _LONG_COPY_WORDS).astype(np.float64)
            rng = public_rng(settings.seed, "copies", name)
            estimate = mean_interval(long, resamples=settings.resamples, rng=rng)
            yield MetricValue.of("long_copies", name, estimate)
    if size := min(len(training), len(heldout)):
        training_features, heldout_features = (
            sample.limited(size, rng=public_rng(settings.seed, split)).features[space]
            for split, sample in (("training", training), ("heldout", heldout))
        )
        ratios = nearer_to_training(
            synthetic.features[space], training=training_features, heldout=heldout_features
        )
        nearer = np.where(ratios == 1, 0.5, ratios < 1).astype(np.float64)
        rng = public_rng(settings.seed, "nearer", space)
        estimate = mean_interval(nearer, resamples=settings.resamples, rng=rng)
        yield MetricValue.of("nearer_to_training", space, estimate)


def longest_shared_ngrams(texts: Sequence[str], corpus: Sequence[str]) -> NDArray[np.int64]:
    """Count the words of the longest run that each text shares with `corpus`, `(n,)`.

    The numbers are exact. White space separates words, and letter case is ignored. The function
    ranks the 2^k-grams of all texts in O(N log N) for each k (Manber & Myers 1993). N is the number
    of words. Then the function compares each position with its corpus neighbours in suffix order.
    Raises InvariantError if `corpus` is empty.
    """
    if not corpus:
        raise InvariantError("the corpus to compare with is empty")
    words, owners = _numbered([*texts, *corpus])
    levels = _gram_ranks(words)
    of_corpus = owners >= len(texts)
    shared = np.zeros(len(words), dtype=np.int64)
    order = np.argsort(levels[-1], kind="stable")
    for direction in (order, order[::-1]):
        neighbours = _last_marked(direction, of_corpus)
        positions = np.flatnonzero((neighbours >= 0) & ~of_corpus)
        length = _common_prefix(levels, positions, neighbours[positions])
        shared[positions] = np.maximum(shared[positions], length)
    longest = np.zeros(len(texts), dtype=np.int64)
    np.maximum.at(longest, owners[~of_corpus], shared[~of_corpus])
    return longest


def nearer_to_training(
    synthetic: NDArray[Any], *, training: NDArray[Any], heldout: NDArray[Any]
) -> NDArray[np.float64]:
    """Return distance to the nearest training text / distance to the nearest held-out text, `(m,)`.

    If nothing was copied, the median is about 1. The ratio is 0 for an exact copy of a training
    text, and 1 if both distances are 0. Pass equal numbers of training and held-out texts, because
    a larger set has nearer texts by chance. Raises InvariantError if one of the sets is empty.
    """
    if not min(len(synthetic), len(training), len(heldout)):
        raise InvariantError("synthetic, training and held-out texts must not be empty")
    to_training, to_heldout = (_nearest(synthetic, split) for split in (training, heldout))
    both_zero = (to_training == 0) & (to_heldout == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(both_zero, 1.0, to_training / to_heldout)


def _nearest(queries: NDArray[Any], points: NDArray[Any]) -> NDArray[np.float64]:
    distances = NearestNeighbors(n_neighbors=1).fit(points).kneighbors(queries)[0]
    return np.asarray(distances[:, 0], dtype=np.float64)


def _numbered(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the words of all texts as one array of numbers, and the index of each word's text.

    A unique end mark follows each text, so every n-gram ends in its own text.
    """
    numbers: dict[str, int] = {}
    words: list[int] = []
    owners: list[int] = []
    for owner, text in enumerate(texts):
        tokens = words_in(text.casefold())
        words.extend(numbers.setdefault(token, len(numbers)) for token in tokens)
        words.append(-1 - owner)
        owners.extend([owner] * (len(tokens) + 1))
    return np.array(words, dtype=np.int64), np.array(owners, dtype=np.int64)


def _gram_ranks(words: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rank the 2^k-grams at all positions, for k = 0, 1, ... until all ranks differ."""
    ranks = np.unique(words, return_inverse=True)[1].astype(np.int64)
    levels = [ranks]
    step = 1
    while ranks.max() < len(words) - 1:
        following = np.full(len(words), -1, dtype=np.int64)
        following[:-step] = ranks[step:]
        pairs = ranks * (len(words) + 1) + following + 1
        ranks = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
        levels.append(ranks)
        step *= 2
    return levels


def _last_marked(order: NDArray[np.int64], marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Find the last marked position up to each position in `order`, or -1."""
    positions = np.where(marked[order], np.arange(len(order)), -1)
    last = np.maximum.accumulate(positions)
    result = np.full(len(order), -1, dtype=np.int64)
    result[order] = np.where(last >= 0, order[np.maximum(last, 0)], -1)
    return result


def _common_prefix(
    levels: list[NDArray[np.int64]], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the length of the common run at each pair of positions."""
    length = np.zeros(len(first), dtype=np.int64)
    size = len(levels[0])
    for level in range(len(levels) - 1, -1, -1):
        a, b = first + length, second + length
        inside = (a < size) & (b < size)
        a, b = np.minimum(a, size - 1), np.minimum(b, size - 1)
        length += np.where(inside & (levels[level][a] == levels[level][b]), 1 << level, 0)
    return length
