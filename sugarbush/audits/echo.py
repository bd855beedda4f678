"""Infers from synthetic texts alone which canaries a model was trained on.

A canary leaves an echo if it begins like texts of the corpus and ends in unlikely words. Prompts
lead the model to the beginning, and then the model writes the end. A canary of rare words alone has
no echo: a model that learned it does not write it. The attacker fits a model of word pairs to the
synthetic texts and scores each canary by its likelihood. Source: Meeus et al. 2025, "The Canary's
Echo", sections 4 and 5, with word pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sugarbush.randomness import public_rng


def echo_canaries(
    texts: Sequence[str], *, count: int, prefix: int = 12, suffix: int = 12, seed: int = 0
) -> list[str]:
    """Make `count` canaries from the first `prefix` words of a text and `suffix` random words of
    the corpus."""
    rng = public_rng(seed, "echo")
    vocabulary = sorted({word for text in texts for word in text.split()})
    starts = rng.choice(len(texts), size=count, replace=count > len(texts))
    return [
        " ".join([*texts[place].split()[:prefix], *rng.choice(vocabulary, size=suffix)])
        for place in starts
    ]


def echo_scores(
    synthetic: Sequence[str], canaries: Sequence[str], *, suffix: int = 12
) -> NDArray[np.float64]:
    """Score each canary, (n,). A canary with a higher score is more likely a member.

    The score is the mean log likelihood of the last `suffix` words. The word pairs of the synthetic
    texts give the likelihood.
    """
    split = [text.casefold().split() for text in synthetic]
    pairs = Counter(pair for words in split for pair in pairwise(words))
    firsts = Counter(first for words in split for first in words[:-1])
    singles = Counter(word for words in split for word in words)
    total, kinds = sum(singles.values()), len(singles) + 1

    def likelihood(first: str, second: str) -> float:
        alone = (singles[second] + 1) / (total + kinds)  # smooths the likelihood of unseen pairs
        return (pairs[first, second] + alone) / (firsts[first] + 1)

    return np.array(
        [
            np.mean([math.log(likelihood(*pair)) for pair in pairwise(words[-suffix - 1 :])])
            for words in (canary.casefold().split() for canary in canaries)
        ]
    )
