"""Splits the texts of a data set, plants canaries, and makes a policy that misses some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from research.leakage.grid import Grid, LeakagePoint, Sizes
from sugarbush.audits import Canary, draw_canaries, inserted, missed
from sugarbush.errors import InputError
from sugarbush.randomness import hash_share, public_rng
from sugarbush.training import Finding, Policy, RegexDetector


@dataclass(frozen=True)
class Corpus:
    """Three disjoint lists: public texts, members (models are trained on them), and other texts (no
    model is trained on them).
    """

    public: list[str]
    members: list[str]
    others: list[str]


def divided(texts: Sequence[str], sizes: Sizes, *, seed: int) -> Corpus:
    """Divide the distinct texts with the smallest hashes. `seed` decides which of them are members.

    Raises InputError if there are too few texts.
    """
    ordered = sorted(set(texts), key=hash_share)
    wanted = sizes.public + sizes.members + sizes.others
    if len(ordered) < wanted:
        raise InputError(f"{sizes.file} has {len(ordered)} texts; the grid needs {wanted}")
    rest = ordered[sizes.public : wanted]
    sides = [rest[place] for place in public_rng(seed, "sides").permutation(len(rest))]
    return Corpus(ordered[: sizes.public], sides[: sizes.members], sides[sizes.members :])


@dataclass(frozen=True)
class Overlooking:
    """A detector that finds the same spans as the patterns, except spans that contain one of
    `secrets`.
    """

    secrets: tuple[str, ...]

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        found = RegexDetector().find(texts)
        return [
            [f for f in own if not any(s in text[f.start : f.end] for s in self.secrets)]
            for text, own in zip(texts, found, strict=True)
        ]


@dataclass(frozen=True)
class Planted:
    """The members with canaries, and a policy that misses a share gamma of the canaries."""

    texts: list[str]
    canaries: list[Canary]
    missed: list[bool]
    policy: Policy


def plant(corpus: Corpus, grid: Grid, point: LeakagePoint) -> Planted:
    """Insert canaries into the members, and make the policy that misses those of `point`."""
    canaries = draw_canaries(count=grid.canaries, seed=point.seed)
    overlooked = missed(canaries, gamma=point.gamma or 0.0, seed=point.seed)
    return Planted(
        texts=inserted(corpus.members, canaries, repeats=grid.repeats, seed=point.seed),
        canaries=canaries,
        missed=[canary in overlooked for canary in canaries],
        policy=Policy([Overlooking(tuple(canary.secret for canary in overlooked))]),
    )
