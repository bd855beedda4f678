"""Wishes woven into a text that is there: a word exchanged in place, or a sentence put in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sugarbush.examples.simulator.agenda import Setting
from sugarbush.examples.simulator.concepts import PRODUCTS, Kind, finder, named_things, shown_values
from sugarbush.examples.simulator.document import Need, Part, Voice, insert, voice_of
from sugarbush.examples.simulator.grammar import tidy
from sugarbush.examples.simulator.wishes import Wish

# What the manner of a text may show by signs that the simulator cannot read (a code, a depot) is
# said in brackets, so that it changes little.
_IN_PASSING = {Kind.PRIORITY, Kind.REGION, Kind.TENURE, Kind.RATING, Kind.DATE, Kind.OTHER}


def with_wishes(parts: list[Part], setting: Setting, examples: Sequence[str]) -> list[Part]:
    """`parts` with every wish shown: by another word in place where that does, or a sentence.

    `examples` are asked for how the house calls the wished product.
    """
    for wish in setting.wishes:
        if wish.kind is Kind.CHANNEL and _has_form_of(wish, parts):
            continue
        parts = _adapted(parts, wish, setting, examples)
        shown = [i for i, part in enumerate(parts) if wish.is_shown(part.text)]
        if shown:
            parts[shown[0]] = replace(parts[shown[0]], need=Need.WISHED)
            continue
        place = _place_for(wish, parts)
        if wish.kind in _IN_PASSING:
            said = _in_passing(parts[place].text, setting.say_brief(wish))
            parts[place] = replace(parts[place], text=said, need=Need.WISHED)
        else:
            sentence = setting.say_wish(wish, voice_of(parts[place].speaker, parts))
            insert(parts, place, sentence, Need.WISHED)
    return parts


def about(
    product: str, parts: Sequence[Part], examples: Sequence[str], setting: Setting
) -> list[Part]:
    """`parts` with every other known thing turned into `product`.

    A brand goes with its thing: "the Volt 3 toaster" becomes what some example calls a kettle, or
    just "the kettle".
    """
    pattern, shown = finder(Kind.PRODUCT)
    names = _names_of(product, tuple(examples))
    plain = PRODUCTS[product].nouns[0]

    def exchange_named(found: re.Match[str]) -> str:
        if shown[found["noun"].lower()] == product:
            return found.group()
        before = found.group()[: found.start("thing") - found.start()]
        return before + (setting.dice.pick(names) if names else plain)

    def exchange(found: re.Match[str]) -> str:
        return found.group() if shown[found.group().lower()] == product else plain

    renamed = [replace(p, text=named_things().sub(exchange_named, p.text)) for p in parts]
    return [replace(p, text=tidy(pattern.sub(exchange, p.text))) for p in renamed]


def is_talk(parts: Sequence[Part]) -> bool:
    """Whether somebody speaks more than once."""
    return sum(bool(part.speaker) for part in parts) > 1


@lru_cache(maxsize=4096)
def _names_of(product: str, examples: tuple[str, ...]) -> tuple[str, ...]:
    _, shown = finder(Kind.PRODUCT)
    found = (match for text in examples for match in named_things().finditer(text))
    names = (m["thing"] for m in found if shown[m["noun"].lower()] == product)
    return tuple(dict.fromkeys(names))


def _adapted(
    parts: list[Part], wish: Wish, setting: Setting, examples: Sequence[str]
) -> list[Part]:
    """Things, sides of the country and numbers are exchanged in place, word by word."""
    if wish.bounds is not None:
        number = setting.say_number(wish)
        return [replace(p, text=_renumbered(p.text, wish.number_pattern, number)) for p in parts]
    if wish.kind is Kind.PRODUCT and wish.known is not None:
        return about(wish.known, parts, examples, setting)
    if wish.kind is Kind.REGION and wish.known is not None:
        return [replace(p, text=_moved(p.text, wish.known)) for p in parts]
    return parts


def _moved(text: str, region: str) -> str:
    pattern, shown = finder(Kind.REGION)

    def exchange(found: re.Match[str]) -> str:
        if shown[found.group().lower()] == region:
            return found.group()
        return region.title() if found.group()[0].isupper() else region

    return pattern.sub(exchange, text)


def _renumbered(text: str, pattern: re.Pattern[str], number: str) -> str:
    found = pattern.search(text)
    return text[: found.start("number")] + number + text[found.end("number") :] if found else text


def _in_passing(sentence: str, brief: str) -> str:
    stop = sentence[-1] if sentence.endswith((".", "!", "?")) else ""
    said = sentence.removesuffix(stop)
    return f"{said[:-1]}, {brief}){stop}" if said.endswith(")") else f"{said} ({brief}){stop}"


def _has_form_of(wish: Wish, parts: Sequence[Part]) -> bool:
    """Whether the layout says the channel: a talk that names no other channel is a call."""
    text = " ".join(part.text for part in parts)
    return wish.known == "phone" and is_talk(parts) and not shown_values(Kind.CHANNEL, text)


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
