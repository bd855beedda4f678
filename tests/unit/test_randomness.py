"""Tests of named public randomness."""

from __future__ import annotations

import itertools

from sugarbush.randomness import public_rng, seed_of

# All of them are the same text without a separator.
PURPOSES: list[tuple[int, tuple[str | int, ...]]] = [
    (1, ("vary", 1, 12)), (1, ("vary", 11, 2)), (1, ("vary", 112)), (1, ("vary1", 12)),
    (1, ("va", "ry", 112)), (1, ("vary112",)), (1, ("vary", 1, 1, 2)),
]  # fmt: skip


def test_different_purposes_have_independent_numbers() -> None:
    """For example, round 1 with text 12 and round 11 with text 2."""
    assert len({seed_of(seed, *names) for seed, names in PURPOSES}) == len(PURPOSES)
    assert seed_of(1, 2, "vary") != seed_of(12, "vary")
    drawn = [public_rng(seed, *names).random(200) for seed, names in PURPOSES]
    for one, other in itertools.combinations(drawn, 2):
        assert abs(float(((one - 0.5) * (other - 0.5)).mean())) < 0.04  # fixed seeds


def test_the_same_purpose_has_the_same_numbers_on_every_machine() -> None:
    assert seed_of(1, "vary", 3) == 12880241922335569682
