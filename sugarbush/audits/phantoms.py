"""Tests whether synthetic texts disclose training records. Held-out records are the control.

A synthetic text may have a phrase or an identifier of a training record by chance. No mechanism has
read a held-out record, so a match with a held-out record is always chance. A match with a held-out
record is called a phantom. If training records match more often than held-out records, the texts
disclose training records. The test needs no canaries and no model. Amin et al. 2026, "Phantoms and
Disclosures" (arXiv 2606.16952), also use held-out texts as the control. The test is our own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import hypergeom

from sugarbush.randomness import public_rng
from sugarbush.training.crt.patterns import RegexDetector

Marks = Callable[[Sequence[str]], Sequence[Collection[str]]]


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """The matches of `records` training records and of `records` held-out records.

    A record matches if a synthetic text has a mark (a phrase or identifier) that no other record
    has. `training` is the number of training records that match. `phantoms` is the number of
    held-out records that match. `p_value` is the probability of at least `training` matches by
    chance. A large `p_value` shows nothing.
    """

    records: int
    training: int
    phantoms: int
    p_value: float


def disclosure(
    synthetic: Sequence[str],
    *,
    training: Sequence[str],
    heldout: Sequence[str],
    marks: Marks,
    seed: int = 0,
) -> Disclosure:
    """Compare the matches with training records and with the same number of held-out records.

    Guarantee: for all x, P[`p_value` <= x] <= x if the synthetic texts are independent of the
    split. Proof: a mark counts if exactly one record of both sides has the mark. So the split does
    not decide which records match. All splits are equally likely. So the number of matching
    training records is hypergeometric, given the number of all matches.

    >>> words = lambda texts: [set(text.split()) for text in texts]
    >>> private, other = [f"secret{i}" for i in range(20)], [f"hidden{i}" for i in range(20)]
    >>> disclosure(["secret1 and secret2"], training=private, heldout=other, marks=words).training
    2
    """
    size = min(len(training), len(heldout))
    sides = [
        [texts[place] for place in public_rng(seed, side).permutation(len(texts))[:size]]
        for side, texts in (("training", training), ("heldout", heldout))
    ]
    own = [set(found) for found in marks([*sides[0], *sides[1]])]
    holders = Counter(mark for found in own for mark in found)
    written = {mark for found in marks(synthetic) for mark in found if holders[mark] == 1}
    matched = [not written.isdisjoint(found) for found in own]
    first, both = sum(matched[:size]), sum(matched)
    return Disclosure(
        records=size,
        training=first,
        phantoms=both - first,
        p_value=float(hypergeom.sf(first - 1, 2 * size, both, size)) if both else 1.0,
    )


def phrases(words: int) -> Marks:
    """Return a function that finds all runs of `words` words in each text, in lower case."""

    def marks(texts: Sequence[str]) -> list[set[str]]:
        split = [text.casefold().split() for text in texts]
        return [
            {" ".join(own[i : i + words]) for i in range(len(own) - words + 1)} for own in split
        ]

    return marks


def identifiers(texts: Sequence[str]) -> list[set[str]]:
    """Return the secrets with a fixed format in each text, in lower case (`RegexDetector`)."""
    return [
        {text[finding.start : finding.end].casefold() for finding in findings}
        for text, findings in zip(texts, RegexDetector().find(texts), strict=True)
    ]


MARKS: Mapping[str, Marks] = {"6 words": phrases(6), "identifiers": identifiers}
