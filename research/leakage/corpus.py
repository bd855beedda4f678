"""Splits the texts of a data set, plants canaries, and makes a policy that misses some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from research.leakage.canaries import Canary, draw_canaries, inserted, missed
from research.leakage.grid import LeakageGrid, LeakagePoint, Sizes
from sugarbush.errors import InputError
from sugarbush.randomness import hash_share, public_rng
from sugarbush.training import THRESHOLD, Finding, Policy, TextSpan, make_policy


@dataclass(frozen=True)
class LeakageCorpus:
    """Three disjoint lists of texts. Models are trained on the public texts and on the members, but
    not on the other texts.
    """

    public: list[str]
    members: list[str]
    others: list[str]


def divided(texts: Sequence[str], sizes: Sizes, *, seed: int) -> LeakageCorpus:
    """Divide the distinct texts with the smallest hashes. `seed` decides which texts are members.

    Raises InputError if there are too few texts.
    """
    ordered = sorted(set(texts), key=hash_share)
    wanted = sizes.public + sizes.members + sizes.others
    if len(ordered) < wanted:
        raise InputError(f"{sizes.file} has {len(ordered)} texts; the grid needs {wanted}")
    rest = ordered[sizes.public : wanted]
    sides = [rest[place] for place in public_rng(seed, "sides").permutation(len(rest))]
    return LeakageCorpus(ordered[: sizes.public], sides[: sizes.members], sides[sizes.members :])


@dataclass
class _Spans:
    """Stores the spans of some detectors, because methods with the same corpus redact the same
    texts."""

    policy: Policy
    known: dict[str, list[TextSpan]] = field(default_factory=dict)

    def of(self, texts: Sequence[str]) -> list[list[TextSpan]]:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= zip(new, self.policy.spans(new), strict=True)
        return [self.known[text] for text in texts]


@cache
def _spans(detectors: tuple[str, ...]) -> _Spans:
    return _Spans(make_policy(detectors, threshold=THRESHOLD))


@dataclass(frozen=True)
class Overlooking:
    """A detector that finds the spans of `detectors`, except spans with one of `secrets`."""

    detectors: tuple[str, ...]
    secrets: tuple[str, ...]

    def find(self, texts: Sequence[str]) -> list[list[Finding]]:
        return [
            [
                Finding(s.start, s.end, s.label, 1.0)
                for s in own
                if not any(secret in text[s.start : s.end] for secret in self.secrets)
            ]
            for text, own in zip(texts, _spans(self.detectors).of(texts), strict=True)
        ]


@dataclass(frozen=True)
class Planted:
    """The members with canaries, and a policy that misses a share gamma of the canaries."""

    texts: list[str]
    canaries: list[Canary]
    missed: list[bool]
    policy: Policy


def plant(corpus: LeakageCorpus, grid: LeakageGrid, point: LeakagePoint) -> Planted:
    """Insert canaries into the members, and make a policy that misses a share `point.gamma` of the
    canaries."""
    canaries = draw_canaries(count=grid.canaries, seed=point.seed)
    overlooked = missed(canaries, gamma=point.gamma or 0.0, seed=point.seed)
    return Planted(
        texts=inserted(corpus.members, canaries, repeats=grid.repeats, seed=point.seed),
        canaries=canaries,
        missed=[canary in overlooked for canary in canaries],
        policy=Policy([Overlooking(grid.detectors, tuple(canary.secret for canary in overlooked))]),
    )
