"""Lengths in words, and how far two distributions of them are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from sugarbush.errors import InvariantError


def word_counts(texts: Sequence[str]) -> NDArray[np.int64]:
    """Words in each text, `(n,)`: what stands between white space. An empty text has 0."""
    return np.array([len(text.split()) for text in texts], dtype=np.int64)


def length_distance(reference: NDArray[Any], synthetic: NDArray[Any]) -> float:
    """The 1-Wasserstein distance of two samples of lengths, in words.

    How many words a text would have to gain or lose on average. Raises InvariantError when one
    is empty. Source: Ramdas et al. 2017.
    """
    if not len(reference) or not len(synthetic):
        raise InvariantError("no texts whose lengths could be compared")
    return float(wasserstein_distance(reference, synthetic))
