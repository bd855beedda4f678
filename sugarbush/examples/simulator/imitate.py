"""A text after examples: one of them as skeleton, sentences of the others, new identities.

What the simulator picks up here (turns, openings, jargon, register) comes from the examples in
the request alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sugarbush.examples.simulator.agenda import Setting
from sugarbush.examples.simulator.concepts import Kind, shown_values
from sugarbush.examples.simulator.document import Need, Part, parse, voice_of
from sugarbush.examples.simulator.weave import is_talk, with_wishes
from sugarbush.examples.simulator.wishes import Wish, wish_of
from sugarbush.examples.simulator.wording import Disguise, reword

_SPOKEN = frozenset({"phone", "chat", "social media", "store"})
_WRITTEN = frozenset({"email", "web form"})
_WEIGHTY = (Kind.PRODUCT, Kind.ISSUE)
# How far apart, in shares of their texts, two sentences in the middle may stand for one another.
_NEAR = 0.15
_MIXING = 0.55
_REWORDING = 0.15


@dataclass(frozen=True)
class Spot:
    """A sentence and where it stands: sentences before it, sentences after it."""

    part: Part
    before: int
    after: int

    def is_like(self, other: Spot) -> bool:
        """Whether the two may stand for one another: the same speaker, place and shape.

        The first two and the last two sentences of a text have duties of their own.
        """
        here, there = (min(s.before, 2) - min(s.after, 2) for s in (self, other))
        share, other_share = (s.before / max(s.before + s.after, 1) for s in (self, other))
        return (
            self.part.speaker == other.part.speaker
            and here == there
            and abs(share - other_share) < _NEAR
            and _shape(self.part.text) == _shape(other.part.text)
        )


def imitate(examples: Sequence[str], setting: Setting) -> list[Part]:
    """A new text that shows the wishes, in the manner of `examples` (at least one, not empty)."""
    dice = setting.dice
    weights = [_likeness(text, setting.wishes) for text in examples]
    chosen = dice.pick_by(range(len(examples)), weights)
    donors = spots([text for i, text in enumerate(examples) if i != chosen])
    parts: list[Part] = []
    for spot in spots(examples[chosen : chosen + 1]):
        parts += _imitated(spot, donors, setting, parts)
    disguise = Disguise(dice)
    parts = [replace(p, text=reword(disguise.apply(p.text), dice, rate=_REWORDING)) for p in parts]
    return with_wishes(_framed(parts), setting, examples)


def spots(texts: Sequence[str]) -> list[Spot]:
    """The sentences of all the texts, each with its place in its own."""
    return [spot for text in texts for spot in _spots(text)]


def exchanged(
    spot: Spot, donors: Sequence[Spot], setting: Setting, taken: Sequence[Part]
) -> Part | None:
    """The sentence of a donor in a like spot; None where there is none.

    A sentence that clashes with a wish, shows less of the wishes than the one in `spot` does, or
    is `taken` already, is no donor.
    """
    shown = [wish for wish in setting.wishes if wish.is_shown(spot.part.text)]
    fitting = [
        donor.part.text
        for donor in donors
        if spot.is_like(donor)
        and all(wish.is_shown(donor.part.text) for wish in shown)
        and _suits(donor.part, setting, taken)
    ]
    return replace(spot.part, text=setting.dice.pick(fitting)) if fitting else None


@lru_cache(maxsize=8192)
def _spots(text: str) -> tuple[Spot, ...]:
    parts = parse(text)
    return tuple(Spot(part, i, len(parts) - 1 - i) for i, part in enumerate(parts))


def _imitated(
    spot: Spot, donors: Sequence[Spot], setting: Setting, said: Sequence[Part]
) -> list[Part]:
    """What becomes of one sentence of the skeleton, after what was `said`: one sentence or none."""
    clash = next((wish for wish in setting.wishes if wish.conflicts(spot.part.text)), None)
    if clash is not None:
        return _instead(spot.part, clash, donors, setting, said)
    if (other := _on_the_thing(spot.part, donors, setting, said)) is not None:
        return [other]
    if setting.dice.chance(_MIXING):
        return [exchanged(spot, donors, setting, said) or spot.part]
    return [spot.part]


def _instead(
    part: Part, wish: Wish, donors: Sequence[Spot], setting: Setting, said: Sequence[Part]
) -> list[Part]:
    """Instead of a sentence that clashes with `wish`, one that shows it: from another example, or
    in the simulator's own words unless it was shown before."""
    fitting = [
        donor.part.text
        for donor in donors
        if donor.part.speaker == part.speaker
        and wish.is_shown(donor.part.text)
        and (wish.concept.cues or len(donor.part.text) <= len(part.text))
        and _suits(donor.part, setting, said)
    ]
    if fitting:
        return [replace(part, text=setting.dice.pick(fitting), need=Need.WISHED)]
    if any(wish.is_shown(earlier.text) for earlier in said):
        return []
    voice = voice_of(part.speaker, [part, *(donor.part for donor in donors)])
    return [replace(part, text=setting.say_wish(wish, voice), need=Need.WISHED)]


def _on_the_thing(
    part: Part, donors: Sequence[Spot], setting: Setting, said: Sequence[Part]
) -> Part | None:
    """Where `part` speaks of another thing than the wished one, a sentence that speaks of that."""
    wish = wish_of(setting.wishes, Kind.PRODUCT)
    if wish is None or wish.is_shown(part.text) or not shown_values(Kind.PRODUCT, part.text):
        return None
    fitting = [
        donor.part.text
        for donor in donors
        if donor.part.speaker == part.speaker
        and _shape(donor.part.text) == _shape(part.text)
        and wish.is_shown(donor.part.text)
        and _suits(donor.part, setting, said)
    ]
    return replace(part, text=setting.dice.pick(fitting)) if fitting else None


def _suits(part: Part, setting: Setting, said: Sequence[Part]) -> bool:
    """Whether a sentence is new here and clashes with no wish."""
    if any(part.text == earlier.text for earlier in said):
        return False
    return not any(wish.conflicts(part.text) for wish in setting.wishes)


def _likeness(text: str, wishes: Sequence[Wish]) -> float:
    """How much an example lends itself as skeleton: by the wishes that it shows, and its form."""
    weight = 1.0
    for wish in wishes:
        if wish.kind is Kind.CHANNEL and wish.known in _SPOKEN | _WRITTEN:
            talks = is_talk([spot.part for spot in _spots(text)])
            weight *= 8.0 if talks == (wish.known in _SPOKEN) else 1.0
        elif wish.is_shown(text):
            weight *= 6.0 if wish.kind in _WEIGHTY else 2.0
    return weight


def _framed(parts: Sequence[Part]) -> list[Part]:
    """The first and the last sentence and those that hold a code are steps, the rest details."""
    ends = {0, len(parts) - 1}
    return [
        replace(part, need=Need.DETAIL)
        if part.need is Need.STEP and i not in ends and not _shape(part.text)[1]
        else part
        for i, part in enumerate(parts)
    ]


def _shape(text: str) -> tuple[bool, bool]:
    """Whether it asks, and whether it holds a number or code."""
    return text.rstrip().endswith("?"), sum(c.isdigit() for c in text) > 3
