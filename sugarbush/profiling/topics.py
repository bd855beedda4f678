"""Groups the released terms of a profile into topics. Post-processing, so it costs no budget."""

from __future__ import annotations

from typing import Final

import numpy as np
from sklearn.metrics import silhouette_score

from sugarbush.attributes.draft import clusters_of
from sugarbush.generators.interface import Embed
from sugarbush.profiling.release import ReleasedProfile

_FEWEST_TERMS: Final = 8
_MOST_TOPICS: Final = 8
_TERMS_PER_TOPIC: Final = 4  # minimum mean number
# Kaufman and Rousseeuw 1990, Table 4: a mean silhouette of at most 0.25 shows no structure.
_LEAST_SILHOUETTE: Final = 0.25
_SEED: Final = 1

Topics = tuple[tuple[str, tuple[str, ...]], ...]


def topics_of(profile: ReleasedProfile, *, embed: Embed) -> Topics:
    """Return named groups of the released terms, with the most frequent term first.

    The result is empty if the profile has fewer than eight terms, or if their embeddings are no
    separate groups. Groups of words such as "cell, model" would sort texts by chance.
    """
    counts = profile.term_counts()
    terms = sorted(counts, key=lambda term: (-counts[term], term))
    most = min(_MOST_TOPICS, len(terms) // _TERMS_PER_TOPIC)
    if len(terms) < _FEWEST_TERMS or most < 2:
        return ()
    embedded = np.asarray(embed(terms))
    cluster = clusters_of(embedded, most=most, seed=_SEED)
    if len(set(cluster.tolist())) < 2 or silhouette_score(embedded, cluster) <= _LEAST_SILHOUETTE:
        return ()
    groups: dict[int, list[str]] = {}
    for term, number in zip(terms, cluster.tolist(), strict=True):
        groups.setdefault(number, []).append(term)
    return tuple((_named(group), tuple(group)) for group in groups.values() if len(group) > 1)


def _named(terms: list[str]) -> str:
    """Name a topic by its two most frequent terms that share no word."""
    first = terms[0]
    second = next((term for term in terms[1:] if not {*term.split()} & {*first.split()}), None)
    return first if second is None else f"{first}, {second}"
