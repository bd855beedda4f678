"""Variety within one set of texts: distinct n-grams and duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sugarbush.errors import InvariantError


def distinct_n(texts: Sequence[str], *, n: int) -> float:
    """Different n-grams of words per n-gram, in (0, 1], over all texts together.

    It falls as a set grows, so compare sets of about equal size. Texts shorter than n words add
    nothing. Raises InvariantError when no text has n words. Source: Li et al. 2016.
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
    """The share of texts that repeat an earlier one, letter case and white space aside.

    Raises InvariantError when there are no texts.
    """
    if not texts:
        raise InvariantError("no texts that could be duplicates")
    different = Counter(" ".join(text.casefold().split()) for text in texts)
    return 1 - len(different) / len(texts)
