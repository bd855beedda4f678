"""The generator: an agenda-and-grammar writer that honours metadata and examples."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sugarbush.examples.simulator.agenda import (
    Form,
    Setting,
    dialogue,
    matter,
    more_detail,
    setting_for,
    ticket,
)
from sugarbush.examples.simulator.concepts import Kind, shown_values
from sugarbush.examples.simulator.dice import Dice
from sugarbush.examples.simulator.document import Part, fit, render
from sugarbush.examples.simulator.grammar import unmark
from sugarbush.examples.simulator.imitate import imitate
from sugarbush.examples.simulator.vary import vary
from sugarbush.examples.simulator.wishes import wish_of, wishes_for
from sugarbush.examples.simulator.wording import introduce
from sugarbush.generators.answer_checks import check
from sugarbush.generators.interface import Answer, Request, VariationRequest
from sugarbush.privacy.data_types import Released

_FORMS = {
    "phone": Form.DIALOGUE,
    "chat": Form.DIALOGUE,
    "social media": Form.DIALOGUE,
    "store": Form.DIALOGUE,
    "email": Form.TICKET,
    "web form": Form.TICKET,
}
_TALK = ("dialog", "conversation", "chat", "call", "transcript")
_WRITING = ("ticket", "complaint", "mail", "letter", "note", "review", "report", "form", "message")
_SHOP = (*_TALK, "customer", "service", "support", "shop", "order", "retail", "ticket", "deliver")
_SHOP_KINDS = {Kind.PRODUCT, Kind.ISSUE, Kind.RESOLUTION}
_MORE_ATTEMPTS = 4


class Simulator:
    """Writes what is asked, from nothing, from metadata, from examples, or near a parent.

    A text depends on the seed and on its own request, never on the other requests. It knows shops
    in general and nothing of any private corpus: a house's mix and wording reach it through the
    request's attributes and examples alone.
    """

    def __init__(self, *, seed: int) -> None:
        self._seed = seed

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """One answer a request, in order; none of them fails, none costs tokens."""
        return requests.map(lambda asked: tuple(Answer(text=self.write(r)) for r in asked))

    def write(self, request: Request) -> str:
        """The text for one request, written anew a few times if it copies what it was shown.

        What remains may share sentences with an example, but is never a copy of one nor of the
        parent, case and blanks aside.
        """
        dice = Dice(self._seed, "simulator", repr(request))
        shown = {_normal(text) for text in _shown(request)}
        text = _write(request, dice)
        for _ in range(_MORE_ATTEMPTS):
            if _normal(text) not in shown and check(text, request, "stop") is None:
                return text
            text = _write(request, dice)
        while _normal(text) in shown:
            text = introduce(text, dice)
        return text


def _write(request: Request, dice: Dice) -> str:
    wishes = wishes_for(request.attributes)
    examples = _texts(request.examples)
    if isinstance(request, VariationRequest) and (parent := " ".join(_texts([request.parent]))):
        setting = setting_for(request.subject, wishes, dice, product=_product_of(parent))
        donors = examples + _texts(request.good)
        parts = vary(parent, setting, mask_share=request.mask_share, donors=donors)
        words = request.words or len(parent.split())
    else:
        setting = setting_for(request.subject, wishes, dice)
        parts = imitate(examples, setting) if examples else _compose(setting)
        words = request.words or 0
    if words:
        parts = fit(parts, words, more=more_detail(setting, service=_is_of_a_shop(setting)))
    return unmark(render(parts))[0]


def _compose(setting: Setting) -> list[Part]:
    """A generic text in the form that the channel or the subject asks for."""
    if not _is_of_a_shop(setting):
        return matter(setting)
    return dialogue(setting) if _form(setting) is Form.DIALOGUE else ticket(setting)


def _form(setting: Setting) -> Form:
    channel = wish_of(setting.wishes, Kind.CHANNEL)
    if channel is not None and channel.known is not None:
        return _FORMS[channel.known]
    subject = setting.subject.lower()
    talk, writing = (any(word in subject for word in words) for words in (_TALK, _WRITING))
    if talk != writing:
        return Form.DIALOGUE if talk else Form.TICKET
    return Form.DIALOGUE if setting.dice.chance(0.6) else Form.TICKET


def _is_of_a_shop(setting: Setting) -> bool:
    """Whether what the simulator knows of shops fits: by the wishes, or else by the subject."""
    told = [wish for wish in setting.wishes if wish.kind in _SHOP_KINDS]
    if told:
        return any(wish.known for wish in told)
    return any(word in setting.subject.lower() for word in _SHOP)


def _product_of(text: str) -> str | None:
    shown = shown_values(Kind.PRODUCT, text)
    return max(shown, key=shown.count) if shown else None


def _shown(request: Request) -> tuple[str, ...]:
    parent = (request.parent,) if isinstance(request, VariationRequest) else ()
    return (*request.examples, *parent)


def _texts(texts: Sequence[str]) -> tuple[str, ...]:
    """The usable ones. Control characters would be taken for marks."""
    clean = (re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", " ", text) for text in texts)
    return tuple(text for text in clean if text.strip())


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()
