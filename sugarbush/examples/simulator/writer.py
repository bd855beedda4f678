"""Generates texts by rules, from attributes and examples, without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sugarbush.examples.data_files import words
from sugarbush.examples.grammar import unmark
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.examples.simulator.context import TextContext, new_context
from sugarbush.examples.simulator.generic_texts import dialogue, more_detail, plain_text, ticket
from sugarbush.examples.simulator.imitation import imitate
from sugarbush.examples.simulator.knowledge import SPOKEN_CHANNELS, AttributeKind, shown_values
from sugarbush.examples.simulator.rewording import add_opening
from sugarbush.examples.simulator.targets import target_for
from sugarbush.examples.simulator.utterances import Utterance, fit, render
from sugarbush.examples.simulator.variation import vary
from sugarbush.generators.answer_checks import check
from sugarbush.generators.interface import Answer, Generator, Request, VariationRequest
from sugarbush.privacy.data_types import Released

# These words in a corpus's subject show the form of its texts.
_DIALOGUE_WORDS = words("dialog conversation chat call transcript")
_TICKET_WORDS = words("ticket complaint mail letter note review report form message")
_SHOP_WORDS = (
    *_DIALOGUE_WORDS,
    *words("customer service support shop order retail ticket deliver"),
)
_SHOP_KINDS = {AttributeKind.PRODUCT, AttributeKind.ISSUE, AttributeKind.RESOLUTION}
_MORE_ATTEMPTS = 4


class SimulatorWriter(Generator):
    """Writes texts from the attributes, the examples or the parent of a request.

    Guarantee: a text depends only on the seed and its own request. The simulator has general
    knowledge of shops. The frequencies and the style of a corpus come only from the requests.
    """

    def __init__(self, *, seed: int) -> None:
        self._seed = seed

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """Return one answer per request, in order. Answers never fail and cost no tokens."""
        return requests.map(lambda asked: tuple(Answer(text=self.write(r)) for r in asked))

    def write(self, request: Request) -> str:
        """Write the text for one request. A text that fails the answer checks is rewritten, up to
        four times.

        The text may share sentences with an example. But the text never equals an example or the
        parent, even if case and white space are ignored.
        """
        rng = SeededRandom(self._seed, "simulator", repr(request))
        originals = {_normalised(text) for text in _shown(request)}
        text = _write(request, rng)
        for _ in range(_MORE_ATTEMPTS):
            if _normalised(text) not in originals and check(text, request, "stop") is None:
                return text
            text = _write(request, rng)
        while _normalised(text) in originals:
            text = add_opening(text, rng)
        return text


def _write(request: Request, rng: SeededRandom) -> str:
    targets = tuple(target_for(name, value) for name, value in request.attributes)
    examples = _usable(request.examples)
    length = request.words or 0
    if isinstance(request, VariationRequest) and (parent := " ".join(_usable([request.parent]))):
        context = new_context(request.subject, targets, rng, product=_product_of(parent))
        utterances = vary(parent, context, mask_share=request.mask_share, sources=examples)
        length = length or len(parent.split())
    else:
        context = new_context(request.subject, targets, rng)
        utterances = imitate(examples, context) if examples else _generic(context)
    if length:
        more = more_detail(context, is_shop=_is_shop(context))
        utterances = fit(utterances, length, more=more)
    return unmark(render(utterances))[0]


def _generic(context: TextContext) -> list[Utterance]:
    if not _is_shop(context):
        return plain_text(context)
    return dialogue(context) if _is_spoken(context) else ticket(context)


def _is_spoken(context: TextContext) -> bool:
    channel = context.target(AttributeKind.CHANNEL)
    if channel is not None and channel.listed_name is not None:
        return channel.listed_name in SPOKEN_CHANNELS
    spoken, written = (_has_word_of(context.subject, w) for w in (_DIALOGUE_WORDS, _TICKET_WORDS))
    return spoken if spoken != written else context.rng.chance(0.6)


def _is_shop(context: TextContext) -> bool:
    """Return whether the text is about a shop. If no target decides, the subject decides."""
    decisive = [target for target in context.targets if target.kind in _SHOP_KINDS]
    if decisive:
        return any(target.listed_name for target in decisive)
    return _has_word_of(context.subject, _SHOP_WORDS)


def _has_word_of(subject: str, word_list: Sequence[str]) -> bool:
    return any(word in subject.lower() for word in word_list)


def _product_of(text: str) -> str | None:
    products = shown_values(AttributeKind.PRODUCT, text)
    return max(products, key=products.count) if products else None


def _shown(request: Request) -> tuple[str, ...]:
    parent = (request.parent,) if isinstance(request, VariationRequest) else ()
    return (*request.examples, *parent)


def _usable(texts: Sequence[str]) -> tuple[str, ...]:
    """Return all nonempty texts, without control characters, because `mark` uses them."""
    clean = (re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", " ", text) for text in texts)
    return tuple(text for text in clean if text.strip())


def _normalised(text: str) -> str:
    return " ".join(text.split()).casefold()
