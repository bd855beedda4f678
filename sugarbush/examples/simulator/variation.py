"""Writes a variation of a parent with some reworded sentences and new identities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sugarbush.examples.grammar import tidy
from sugarbush.examples.simulator.context import TextContext
from sugarbush.examples.simulator.generic_texts import OWN_SPEAKERS
from sugarbush.examples.simulator.imitation import PlacedUtterance, SourceSentences
from sugarbush.examples.simulator.insertion import insert_targets, replace_products
from sugarbush.examples.simulator.knowledge import (
    KNOWN_VALUES,
    PRODUCTS,
    AttributeKind,
    shown_values,
)
from sugarbush.examples.simulator.rewording import IdentityReplacer, add_opening, reword
from sugarbush.examples.simulator.utterances import Utterance, parse, role_of

_REWRITABLE = [kind for kind in KNOWN_VALUES if kind is not AttributeKind.CHANNEL]
# The simulator's own sentences have their own style, so texts in another style rarely get such a
# sentence.
_OWN_WORDS_RATE, _OWN_WORDS_RATE_ELSEWHERE = 0.35, 0.06
_OTHER_VALUE_RATE = 0.35
_SOURCE_RATE = 0.5
_OPENING_RATE = 0.3
_OTHER_PRODUCT_RATE = 0.2


def vary(
    parent: str, context: TextContext, *, mask_share: float, sources: Sequence[str]
) -> list[Utterance]:
    """Rewrite about `mask_share` of the words of `parent`. `parent` must not be empty.

    Identities are always new. Sentences of `sources` may replace sentences of the parent. Sometimes
    the product, the outcome or the mood changes.
    """
    rng = context.rng
    utterances = parse(parent)
    rewritten_words, total = 0, sum(len(said.text.split()) for said in utterances)
    given = SourceSentences(sources, context)
    for index in rng.shuffled(range(len(utterances))):
        if rewritten_words >= mask_share * total:
            break
        rewritten_words += len(utterances[index].text.split())
        utterances[index] = _rewrite(utterances, index, given, context)
    identities = IdentityReplacer(rng)
    utterances = [replace(said, text=identities.apply(said.text)) for said in utterances]
    if rng.chance(_OTHER_PRODUCT_RATE * mask_share):
        utterances = replace_products(rng.choice(tuple(PRODUCTS)), utterances, sources, context)
    return insert_targets(utterances, context, sources)


def _rewrite(
    utterances: Sequence[Utterance], index: int, sources: SourceSentences, context: TextContext
) -> Utterance:
    utterance, rng = utterances[index], context.rng
    is_own = any(said.speaker in OWN_SPEAKERS for said in utterances)
    if rng.chance(_OWN_WORDS_RATE if is_own else _OWN_WORDS_RATE_ELSEWHERE) and (
        text := _in_own_words(utterance, utterances, context)
    ):
        return replace(utterance, text=text)
    if rng.chance(_SOURCE_RATE):
        placed = PlacedUtterance(utterance, index, len(utterances) - 1 - index)
        if (other := sources.replace(placed, utterances)) is not None:
            return other
    text = reword(utterance.text, rng, rate=0.9)
    if text == utterance.text and rng.chance(_OPENING_RATE):
        text = add_opening(text, rng)
    return replace(utterance, text=text)


def _in_own_words(
    utterance: Utterance, utterances: Sequence[Utterance], context: TextContext
) -> str:
    """Write a sentence of the simulator with the utterance's value, or with another value of its
    kind.

    The result is empty if the utterance shows no known value, or if the speaker's role has no
    sentence for the value.
    """
    rng = context.rng
    for kind in _REWRITABLE:
        values = shown_values(kind, utterance.text)
        if values:
            others = tuple(KNOWN_VALUES[kind])
            value = rng.choice(others) if rng.chance(_OTHER_VALUE_RATE) else values[0]
            role = role_of(utterance.speaker, utterances)
            return tidy(context.say(KNOWN_VALUES[kind][value], role))
    return ""
