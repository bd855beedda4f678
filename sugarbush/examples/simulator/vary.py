"""A text near another one: some sentences in other words, some said otherwise, new identities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sugarbush.examples.simulator.agenda import OWN_SPEAKERS, Setting
from sugarbush.examples.simulator.concepts import KNOWN, PRODUCTS, Kind, shown_values
from sugarbush.examples.simulator.document import Part, parse, voice_of
from sugarbush.examples.simulator.imitate import Spot, exchanged, spots
from sugarbush.examples.simulator.weave import about, with_wishes
from sugarbush.examples.simulator.wording import Disguise, introduce, reword

_SAID_ANEW = (Kind.ISSUE, Kind.RESOLUTION, Kind.MOOD, Kind.PRIORITY, Kind.REGION)
# A sentence in the simulator's own manner may be said anew; in another's manner that would be a
# change of register, and is rare.
_ANEW, _ANEW_ELSEWHERE = 0.35, 0.06
_OTHER_VALUE = 0.35
_DONATED = 0.5
_INTRODUCED = 0.3
_OTHER_PRODUCT = 0.2


def vary(parent: str, setting: Setting, *, mask_share: float, donors: Sequence[str]) -> list[Part]:
    """A rewriting of about `mask_share` of the words of `parent` (which has some).

    Identities are always new. `donors` are texts whose sentences may step in. Once in a while a
    step of the agenda changes: another thing, another outcome, another mood.
    """
    dice = setting.dice
    parts = parse(parent)
    rewritten_words, total = 0, sum(len(part.text.split()) for part in parts)
    given = spots(donors)
    for place in dice.shuffled(range(len(parts))):
        if rewritten_words >= mask_share * total:
            break
        rewritten_words += len(parts[place].text.split())
        parts[place] = _rewritten(parts, place, given, setting)
    disguise = Disguise(dice)
    parts = [replace(part, text=disguise.apply(part.text)) for part in parts]
    if dice.chance(_OTHER_PRODUCT * mask_share):
        parts = about(dice.pick(tuple(PRODUCTS)), parts, donors, setting)
    return with_wishes(parts, setting, donors)


def _rewritten(parts: Sequence[Part], place: int, donors: Sequence[Spot], setting: Setting) -> Part:
    part, dice = parts[place], setting.dice
    own = {p.speaker for p in parts} & OWN_SPEAKERS
    if dice.chance(_ANEW if own else _ANEW_ELSEWHERE) and (
        text := _said_anew(part, parts, setting)
    ):
        return replace(part, text=text)
    if dice.chance(_DONATED):
        spot = Spot(part, place, len(parts) - 1 - place)
        if (other := exchanged(spot, donors, setting, parts)) is not None:
            return other
    text = reword(part.text, dice, rate=0.9)
    if text == part.text and dice.chance(_INTRODUCED):
        text = introduce(text, dice)
    return replace(part, text=text)


def _said_anew(part: Part, parts: Sequence[Part], setting: Setting) -> str:
    """What a sentence shows, in the simulator's words; now and then another value of the kind.

    Nothing when it shows none of what the simulator knows, or the speaker has no words for it.
    """
    dice = setting.dice
    voice = voice_of(part.speaker, parts)
    for kind in _SAID_ANEW:
        values = shown_values(kind, part.text)
        if not values:
            continue
        value = dice.pick(tuple(KNOWN[kind])) if dice.chance(_OTHER_VALUE) else values[0]
        concept = KNOWN[kind][value]
        return setting.say_as(concept, voice)
    return ""
