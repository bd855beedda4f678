"""Tests that the comparison with donated texts tells like texts from unlike ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sugarbush.evaluation.likeness import LEAST_DONATED, likeness

RNG = np.random.default_rng(5)
CENTRES = RNG.normal(size=(6, 32))


def sample(count: int, *, kinds: int = 3, first: int = 0, seed: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    rows = CENTRES[first + rng.integers(0, kinds, size=count)] + rng.normal(size=(count, 32))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def test_texts_of_the_same_source_cannot_be_told_apart() -> None:
    found = [likeness(sample(200, seed=i), sample(50, seed=100 + i)) for i in range(10)]
    values = [one.separability for one in found if one is not None]
    assert len(values) == 10
    assert 0.4 < np.mean(values) < 0.6  # 10 runs with standard deviation .05 each: false in 1e-9
    assert max(one.foreign for one in found if one is not None) < 0.2


def test_texts_of_another_source_are_told_apart_and_foreign() -> None:
    other = likeness(sample(200, first=3, seed=1), sample(50, seed=2))
    assert other is not None
    assert other.separability > 0.9
    assert other.foreign > 0.35
    half = np.concatenate([sample(100, seed=1), sample(100, first=3, seed=1)])
    mixed = likeness(half, sample(50, seed=2))
    assert mixed is not None
    assert 0.65 < mixed.separability < other.separability


def test_a_release_of_one_kind_covers_less() -> None:
    one = likeness(sample(200, kinds=1, seed=1), sample(50, seed=2))
    every = likeness(sample(200, seed=1), sample(50, seed=2))
    assert one is not None
    assert every is not None
    assert one.coverage < every.coverage
    assert one.separability > every.separability


def test_copies_of_donated_texts_are_counted_and_not_compared() -> None:
    donated = sample(50, seed=2)
    copies = likeness(np.concatenate([sample(150, seed=1), donated]), donated)
    assert copies is not None
    assert copies.copied == 0.25
    without = likeness(sample(150, seed=1), donated)
    assert replace(copies, copied=0.0) == without
    assert likeness(donated, donated).copied == 1  # type: ignore[union-attr]


def test_a_donated_text_that_occurs_twice_counts_once() -> None:
    once, donated = sample(200, seed=1), sample(50, seed=2)
    twice = likeness(once, np.concatenate([donated, donated]))
    assert twice is not None
    assert twice.donated == 50
    assert twice.foreign < 0.2


@pytest.mark.parametrize(("texts", "donated"), [(200, LEAST_DONATED - 1), (LEAST_DONATED - 1, 50)])
def test_a_few_texts_are_no_sample(texts: int, donated: int) -> None:
    assert likeness(sample(texts, seed=1), sample(donated, seed=2)) is None
