"""A text after examples: one of them as skeleton, sentences of the others, new identities.

What the simulator picks up here (turns, openings, jargon, register) comes from the examples in
the request alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sugarbush.llm.simulator.agenda import Setting
from sugarbush.llm.simulator.concepts import Kind, finder, shown_values
from sugarbush.llm.simulator.document import Need, Part, Voice, insert, parse, voice_of
from sugarbush.llm.simulator.wishes import Wish, wish_of
from sugarbush.llm.simulator.wording import Disguise, reword

_SPOKEN = frozenset({"phone", "chat", "social media", "store"})
_WRITTEN = frozenset({"email", "web form"})
_WEIGHTY = (Kind.PRODUCT, Kind.ISSUE)
# What the manner of the examples may show by signs that the simulator cannot read (a code, a
# depot) is said in brackets, so that it changes little.
_IN_PASSING = {Kind.PRIORITY, Kind.REGION, Kind.TENURE, Kind.RATING, Kind.DATE, Kind.OTHER}
_NEAR = 0.15
_MIXING = 0.55
_REWORDING = 0.15


def imitate(examples: Sequence[str], setting: Setting) -> list[Part]:
    """A new text that shows the wishes, in the manner of `examples` (at least one, not empty)."""
    dice, wishes = setting.dice, setting.wishes
    documents = [parsed(example) for example in examples]
    weights = [
        _likeness(text, parts, wishes) for text, parts in zip(examples, documents, strict=True)
    ]
    skeleton = dice.pick_by(range(len(documents)), weights)
    others = [i for i in range(len(documents)) if i != skeleton]
    donors = [donor for i in others for donor in _placed(documents[i])]
    parts = []
    for place, part in _placed(documents[skeleton]):
        clash = next((w for w in wishes if w.conflicts(part.text)), None)
        if clash is not None:
            parts.append(_instead(part, clash, donors, setting))
        elif another := _of_the_thing(part, donors, setting):
            parts.append(replace(part, text=another))
        elif donors and dice.chance(_MIXING):
            parts.append(swapped(part, place, donors, setting, frozenset(p.text for p in parts)))
        else:
            parts.append(part)
    disguise = Disguise(dice)
    parts = [replace(p, text=reword(disguise.apply(p.text), dice, rate=_REWORDING)) for p in parts]
    return with_wishes(parts, setting)


@lru_cache(maxsize=8192)
def parsed(text: str) -> tuple[Part, ...]:
    """The parts of a text that is likely to come again."""
    return tuple(parse(text))


def with_wishes(parts: list[Part], setting: Setting) -> list[Part]:
    """`parts` with every wish shown: by another word in place where that does, or a sentence."""
    for wish in setting.wishes:
        if wish.kind is Kind.CHANNEL and _has_form_of(wish, parts):
            continue
        parts = _adapted(parts, wish, setting)
        shown = [i for i, part in enumerate(parts) if wish.is_shown(part.text)]
        if shown:
            parts[shown[0]] = replace(parts[shown[0]], need=Need.WISHED)
        elif wish.kind in _IN_PASSING:
            place = _place_for(wish, parts)
            said = _in_passing(parts[place].text, setting.say_brief(wish))
            parts[place] = replace(parts[place], text=said, need=Need.WISHED)
        else:
            place = _place_for(wish, parts)
            sentence = setting.say_wish(wish, voice_of(parts[place].speaker, parts))
            insert(parts, place, sentence, Need.WISHED)
    return parts


def _framed(parts: Sequence[Part]) -> list[Part]:
    """The first and the last sentence and those that hold a code are steps, the rest details."""
    ends = {0, len(parts) - 1}
    return [
        replace(part, need=Need.DETAIL)
        if part.need is Need.STEP and i not in ends and not _shape(part.text)[1]
        else part
        for i, part in enumerate(parts)
    ]


def _in_passing(sentence: str, brief: str) -> str:
    stop = sentence[-1] if sentence.endswith((".", "!", "?")) else ""
    said = sentence.removesuffix(stop)
    return f"{said[:-1]}, {brief}){stop}" if said.endswith(")") else f"{said} ({brief}){stop}"


def swapped(
    part: Part,
    place: float,
    donors: Sequence[tuple[float, Part]],
    setting: Setting,
    taken: frozenset[str],
) -> Part:
    """A donor's sentence for the same speaker, of the same shape and at the same place; or `part`.

    A sentence that clashes with a wish, shows less of the wishes than `part` does, or is `taken`
    already, is no donor.
    """
    wishes = setting.wishes
    shown = [wish for wish in wishes if wish.is_shown(part.text)]
    fitting = [
        donor
        for where, donor in donors
        if donor.speaker == part.speaker
        and donor.text not in taken
        and abs(where - place) < _NEAR
        and _shape(donor.text) == _shape(part.text)
        and all(wish.is_shown(donor.text) for wish in shown)
        and not any(wish.conflicts(donor.text) for wish in wishes)
    ]
    return replace(part, text=setting.dice.pick(fitting).text) if fitting else part


def placed(texts: Sequence[str]) -> list[tuple[float, Part]]:
    """The parts of all the texts, each with its relative place in its own."""
    return [part for text in texts for part in _placed(parsed(text))]


def _placed(parts: Sequence[Part]) -> list[tuple[float, Part]]:
    return [(place / max(len(parts) - 1, 1), part) for place, part in enumerate(parts)]


def _likeness(text: str, parts: Sequence[Part], wishes: Sequence[Wish]) -> float:
    """How much an example lends itself as skeleton: by the wishes that it shows, and its form."""
    weight = 1.0
    for wish in wishes:
        if wish.kind is Kind.CHANNEL and wish.known in _SPOKEN | _WRITTEN:
            is_talk = sum(bool(part.speaker) for part in parts) > 1
            weight *= 8.0 if is_talk == (wish.known in _SPOKEN) else 1.0
        elif wish.is_shown(text):
            weight *= 6.0 if wish.kind in _WEIGHTY else 2.0
    return weight


def _instead(
    part: Part, wish: Wish, donors: Sequence[tuple[float, Part]], setting: Setting
) -> Part:
    """A sentence that shows `wish`, from another example or else in the simulator's own words."""
    fitting = [
        donor.text
        for _, donor in donors
        if donor.speaker == part.speaker
        and wish.is_shown(donor.text)
        and not any(other.conflicts(donor.text) for other in setting.wishes)
    ]
    if wish.kind is Kind.MOOD and not wish.concept.cues:
        calm = [d.text for _, d in donors if d.speaker == part.speaker and wish.is_shown(d.text)]
        fitting = [text for text in calm if len(text.split()) <= len(part.text.split())]
    text = setting.dice.pick(fitting) if fitting else ""
    voice = voice_of(part.speaker, [part, *(donor for _, donor in donors)])
    return replace(part, text=text or setting.say_wish(wish, voice), need=Need.WISHED)


def _of_the_thing(part: Part, donors: Sequence[tuple[float, Part]], setting: Setting) -> str | None:
    """Where `part` speaks of another thing than the wished one, a sentence that speaks of that."""
    wish = wish_of(setting.wishes, Kind.PRODUCT)
    if wish is None or wish.is_shown(part.text) or not shown_values(Kind.PRODUCT, part.text):
        return None
    fitting = [
        donor.text
        for _, donor in donors
        if donor.speaker == part.speaker
        and donor.text.endswith("?") == part.text.endswith("?")
        and wish.is_shown(donor.text)
        and not any(other.conflicts(donor.text) for other in setting.wishes)
    ]
    return setting.dice.pick(fitting) if fitting else None


def _adapted(parts: list[Part], wish: Wish, setting: Setting) -> list[Part]:
    """Things, sides of the country and numbers are exchanged in place, word by word."""
    if wish.bounds is not None:
        number = setting.say_number(wish)
        return [replace(p, text=_renumbered(p.text, wish.number_pattern, number)) for p in parts]
    if wish.kind not in {Kind.PRODUCT, Kind.REGION} or wish.known is None:
        return parts
    pattern, shown = finder(wish.kind)
    words = wish.concept.cues if wish.kind is Kind.PRODUCT else (wish.known,)

    def exchange(old: str) -> str:
        if shown[old.lower()] == wish.known:
            return old
        new = words[0] if wish.kind is Kind.REGION else setting.dice.pick(words[:3])
        return new.title() if old[0].isupper() and wish.kind is Kind.REGION else new

    return [replace(p, text=pattern.sub(lambda m: exchange(m.group()), p.text)) for p in parts]


def _has_form_of(wish: Wish, parts: Sequence[Part]) -> bool:
    """Whether the layout says the channel: a talk that names no other channel is a call."""
    text = " ".join(part.text for part in parts)
    is_talk = sum(bool(part.speaker) for part in parts) > 1
    return wish.known == "phone" and is_talk and not shown_values(Kind.CHANNEL, text)


def _renumbered(text: str, pattern: re.Pattern[str], number: str) -> str:
    found = pattern.search(text)
    return text[: found.start("number")] + number + text[found.end("number") :] if found else text


def _place_for(wish: Wish, parts: Sequence[Part]) -> int:
    """After which part a wish is said: what the shop decides late, by the agent; the rest early,
    by the customer."""
    late = wish.kind in {Kind.RESOLUTION, Kind.PRIORITY}
    wanted = Voice.AGENT if late else Voice.CUSTOMER
    theirs = [i for i, p in enumerate(parts) if voice_of(p.speaker, parts) is wanted]
    if not theirs:
        return len(parts) - 1 if late else len(parts) // 2
    if late:
        return theirs[-2] if len(theirs) > 1 else theirs[-1]
    return max(theirs, key=lambda i: len(parts[i].text))


def _shape(text: str) -> tuple[bool, bool]:
    """Whether it asks, and whether it holds a number or code."""
    return text.rstrip().endswith("?"), sum(c.isdigit() for c in text) > 3
