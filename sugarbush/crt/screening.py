"""Split, then deduplicate, then redact, in that order, and say which texts are public.

On the audit list. The guarantee rests on the order: sentences are compared before anything in them
is masked, so whether one is a duplicate depends on equal sentences alone.

One unit is one text. Without a conservative policy every unit is private. A text with a mask in it
is private whatever the policy says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from sugarbush.crt.dedup import MASK, Duplicates, ExactDuplicates, mask_duplicates
from sugarbush.crt.findings import PublicPolicy
from sugarbush.crt.redact import Policy
from sugarbush.crt.sentences import joined, split
from sugarbush.errors import InputError
from sugarbush.privacy.kinds import Private


@dataclass(frozen=True, kw_only=True)
class Screened:
    """The texts after screening, one a unit, and which of them are public (the same units)."""

    texts: Private[str]
    public: Private[bool]
    in_theorem: bool

    def private_count(self) -> int:
        """How many texts are private. Replacing a secret does not change it, so it is no secret
        here; under add/remove it would be one."""
        return sum(not public for public in self.public._per_unit)

    def parts(self) -> tuple[Private[str], Private[str]]:
        """The public texts and the private ones."""
        flags = self.public._per_unit
        pairs = list(zip(self.texts._per_unit, flags, strict=True))
        return (
            Private([text for text, public in pairs if public]),
            Private([text for text, public in pairs if not public]),
        )


def screen(
    texts: Private[str],
    *,
    policy: Policy,
    conservative: PublicPolicy | None = None,
    duplicates: Callable[[], Duplicates] = ExactDuplicates,
    known: Set[str] = frozenset(),
) -> Screened:
    """The screened corpus. `known` are sentences that stand in public texts, and are no duplicates.

    Guarantee: with `ExactDuplicates`, replacing every occurrence of a secret by a mask changes
    `changed_units` units: at most one for each distinct sentence with it, where masking it moves no
    end of a sentence. For a secret that stands in a known sentence nothing is claimed.
    Raises InputError when a text holds the mask already: nothing could tell the two apart.
    """
    originals = list(texts._per_unit)
    for row, text in enumerate(originals, start=1):
        if MASK in text:
            raise InputError(f"record {row} holds {MASK!r}, which stands for what is redacted")
    memory = duplicates()
    screened = policy.redact(_deduplicated(originals, memory, known))
    public = [False] * len(screened)
    if conservative is not None:
        without = [place for place, text in enumerate(screened) if MASK not in text]
        said = conservative.is_public([screened[place] for place in without])
        for place, is_public in zip(without, said, strict=True):
            public[place] = is_public
    return Screened(texts=Private(screened), public=Private(public), in_theorem=memory.in_theorem)


def changed_units(
    texts: Private[str], secret: str, *, policy: Policy, known: Set[str] = frozenset()
) -> int:
    """How many units the screened corpus differs in when `secret` is replaced by a mask everywhere.

    This is k for `confidentiality.group`: 0 claims epsilon(secret) = 0. It is found by a replay, so
    a detector that relabels the neighbours of a masked secret counts as a change. Private.
    """
    originals: Sequence[str] = list(texts._per_unit)
    if not secret:
        raise InputError("an empty text is no secret")
    replaced = [text.replace(secret, MASK) for text in originals]
    before = _deduplicated(originals, ExactDuplicates(), known)
    after = _deduplicated(replaced, ExactDuplicates(), known)
    pairs = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    if not pairs:
        return 0
    redacted_before = policy.redact([one for one, _ in pairs])
    redacted_after = policy.redact([other for _, other in pairs])
    return sum(one != other for one, other in zip(redacted_before, redacted_after, strict=True))


def _deduplicated(texts: Sequence[str], duplicates: Duplicates, known: Set[str]) -> list[str]:
    documents = mask_duplicates((split(text) for text in texts), duplicates, known=known)
    return [joined(sentences) for sentences in documents]
