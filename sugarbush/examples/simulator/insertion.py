"""Inserts target values into a text, as a replaced word or an added sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sugarbush.examples.grammar import tidy
from sugarbush.examples.simulator.context import TextContext
from sugarbush.examples.simulator.knowledge import (
    PRODUCTS,
    AttributeKind,
    finder,
    product_mentions,
    shown_values,
)
from sugarbush.examples.simulator.targets import Target
from sugarbush.examples.simulator.utterances import Importance, Role, Utterance, insert, role_of

# The simulator may not recognize values of these kinds in a text, for example as a code. So such a
# value is added in brackets, which changes the text little.
_IN_BRACKETS = {
    AttributeKind.PRIORITY,
    AttributeKind.REGION,
    AttributeKind.TENURE,
    AttributeKind.RATING,
    AttributeKind.DATE,
    AttributeKind.OTHER,
}


def insert_targets(
    utterances: list[Utterance], context: TextContext, examples: Sequence[str]
) -> list[Utterance]:
    """Return `utterances`, changed to show every target.

    The names of the target product come from `examples`.
    """
    for target in context.targets:
        if target.kind is AttributeKind.CHANNEL and _is_a_call(target, utterances):
            continue
        utterances = _replace_words(utterances, target, context, examples)
        indices = [i for i, said in enumerate(utterances) if target.is_shown(said.text)]
        index = indices[0] if indices else _index_for(target, utterances)
        said = utterances[index]
        if indices:
            utterances[index] = replace(said, importance=Importance.REQUIRED)
        elif target.kind in _IN_BRACKETS:
            text = _in_brackets(said.text, context.say_brief(target))
            utterances[index] = replace(said, text=text, importance=Importance.REQUIRED)
        else:
            sentence = context.say_target(target, role_of(said.speaker, utterances))
            insert(utterances, index, sentence, Importance.REQUIRED)
    return utterances


def replace_products(
    product: str, utterances: Sequence[Utterance], examples: Sequence[str], context: TextContext
) -> list[Utterance]:
    """Replace every other known product, and its brand, by `product`.

    For example, "the Volt 3 toaster" becomes "the kettle", or a kettle's name from an example.
    """
    pattern, value_by_name = finder(AttributeKind.PRODUCT)
    names = _names_of(product, tuple(examples))
    plain = PRODUCTS[product].names[0]

    def replace_mention(match: re.Match[str]) -> str:
        if value_by_name[match["noun"].lower()] == product:
            return match.group()
        before = match.group()[: match.start("mention") - match.start()]
        return before + (context.rng.choice(names) if names else plain)

    def replace_word(match: re.Match[str]) -> str:
        return match.group() if value_by_name[match.group().lower()] == product else plain

    renamed = [replace(p, text=product_mentions().sub(replace_mention, p.text)) for p in utterances]
    return [replace(p, text=tidy(pattern.sub(replace_word, p.text))) for p in renamed]


def is_dialogue(utterances: Sequence[Utterance]) -> bool:
    """Return whether more than one utterance has a speaker."""
    return sum(bool(utterance.speaker) for utterance in utterances) > 1


@lru_cache(maxsize=4096)
def _names_of(product: str, examples: tuple[str, ...]) -> tuple[str, ...]:
    _, value_by_name = finder(AttributeKind.PRODUCT)
    matches = (match for text in examples for match in product_mentions().finditer(text))
    names = (m["mention"] for m in matches if value_by_name[m["noun"].lower()] == product)
    return tuple(dict.fromkeys(names))


def _replace_words(
    utterances: list[Utterance], target: Target, context: TextContext, examples: Sequence[str]
) -> list[Utterance]:
    if target.bounds is not None:
        number = context.say_number(target)
        return [
            replace(p, text=_replace_number(p.text, target.number_pattern, number))
            for p in utterances
        ]
    if target.kind is AttributeKind.PRODUCT and target.listed_name is not None:
        return replace_products(target.listed_name, utterances, examples, context)
    if target.kind is AttributeKind.REGION and target.listed_name is not None:
        return [replace(p, text=_replace_regions(p.text, target.listed_name)) for p in utterances]
    return utterances


def _replace_regions(text: str, region: str) -> str:
    pattern, value_by_name = finder(AttributeKind.REGION)

    def replace_word(match: re.Match[str]) -> str:
        if value_by_name[match.group().lower()] == region:
            return match.group()
        return region.title() if match.group()[0].isupper() else region

    return pattern.sub(replace_word, text)


def _replace_number(text: str, pattern: re.Pattern[str], number: str) -> str:
    match = pattern.search(text)
    return text[: match.start("number")] + number + text[match.end("number") :] if match else text


def _in_brackets(sentence: str, brief: str) -> str:
    stop = sentence[-1] if sentence.endswith((".", "!", "?")) else ""
    before = sentence.removesuffix(stop)
    is_open = before.endswith(")")
    return f"{before[:-1]}, {brief}){stop}" if is_open else f"{before} ({brief}){stop}"


def _is_a_call(target: Target, utterances: Sequence[Utterance]) -> bool:
    """Return whether the target is a call and the text is a dialogue that names no channel."""
    text = " ".join(said.text for said in utterances)
    channels = shown_values(AttributeKind.CHANNEL, text)
    return target.listed_name == "phone" and is_dialogue(utterances) and not channels


def _index_for(target: Target, utterances: Sequence[Utterance]) -> int:
    """Return the index of the utterance after which a target is inserted.

    The agent states the shop's decisions late in the text. The customer states all other values.
    """
    late = target.kind in {AttributeKind.RESOLUTION, AttributeKind.PRIORITY}
    role = Role.AGENT if late else Role.CUSTOMER
    theirs = [i for i, p in enumerate(utterances) if role_of(p.speaker, utterances) is role]
    if not theirs:
        return len(utterances) - 1 if late else len(utterances) // 2
    if late:
        return theirs[-2] if len(theirs) > 1 else theirs[-1]
    return max(theirs, key=lambda i: len(utterances[i].text))
