"""Infers membership from synthetic texts alone, for a model that was trained on canaries.

A canary that is rare from its first word on has no echo: a model that learned it does not write it.
A canary that begins like texts of the corpus and ends in unlikely words has an echo: prompts lead
the model to the beginning, and then the model writes the end. The attacker fits a model of word
pairs to the synthetic texts and scores each canary by its likelihood. Source: Meeus et al. 2025,
"The Canary's Echo", sections 4 and 5, with word pairs.
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
    """Make `count` canaries. Each one has the first `prefix` words of a text, and then `suffix`
    random words of the corpus."""
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
    """Score each canary, (n,), by the mean log likelihood of its last `suffix` words under the word
    pairs of the synthetic texts. A higher score means a more likely member."""
    split = [text.casefold().split() for text in synthetic]
    pairs = Counter(pair for words in split for pair in pairwise(words))
    firsts = Counter(first for words in split for first in words[:-1])
    singles = Counter(word for words in split for word in words)
    total, kinds = sum(singles.values()), len(singles) + 1

    def likelihood(first: str, second: str) -> float:
        alone = (singles[second] + 1) / (total + kinds)  # smooths pairs that are not seen
        return (pairs[first, second] + alone) / (firsts[first] + 1)

    return np.array(
        [
            np.mean([math.log(likelihood(*pair)) for pair in pairwise(words[-suffix - 1 :])])
            for words in (canary.casefold().split() for canary in canaries)
        ]
    )
