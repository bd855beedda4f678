"""The lengths that prompts request: drawn from the distribution that a few numbers describe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sugarbush.languages import count_words

# Shares of the quantiles that describe a distribution of lengths: the middles of equal parts.
SHARES: Final = tuple((2 * number + 1) / 20 for number in range(10))
# Quantiles of noisy counts: nearer to the ends, there is more noise than texts.
NOISY_SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)


def lengths_of(texts: Sequence[str]) -> tuple[int, ...]:
    """Return numbers of words for prompts: quantiles of the lengths of texts.

    A mean would request texts that are all of one length.

    >>> lengths_of(["a b", "a b c", "a b c d e f g h"] * 5)
    (2, 2, 2, 3, 3, 3, 3, 8, 8, 8)
    """
    counts = [count_words(text) for text in texts]
    return tuple(max(1, int(n)) for n in np.quantile(counts, SHARES, method="nearest"))


def length_at(lengths: Sequence[int], share: float) -> int:
    """Return the length at `share` of the distribution that `lengths` describe.

    The n lengths are the quantiles in the middles of n equal parts. The quantile function is linear
    between them, and constant beyond the first and the last.

    >>> [length_at([8, 15], share) for share in (0.0, 0.25, 0.4, 0.75, 1.0)]
    [8, 8, 10, 15, 15]
    """
    middles = (np.arange(len(lengths)) + 0.5) / len(lengths)
    return int(np.interp(share, middles, np.sort(lengths)) + 0.5)
