"""Writes dialogues and tickets with a fixed order of turns, for requests without examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sugarbush.examples.grammar import tidy
from sugarbush.examples.simulator.context import TextContext
from sugarbush.examples.simulator.knowledge import AttributeKind
from sugarbush.examples.simulator.utterances import Importance, Role, Utterance, role_of

_CUSTOMER, _AGENT, _REPLY = "Customer: ", "Agent: ", "Reply: "
OWN_SPEAKERS = frozenset({_CUSTOMER, _AGENT, _REPLY})

# Other sentences of a dialogue or ticket mention values of these kinds, so `_other_targets` skips
# these kinds.
_MENTIONED = {
    AttributeKind.PRODUCT,
    AttributeKind.ISSUE,
    AttributeKind.RESOLUTION,
    AttributeKind.MOOD,
    AttributeKind.CHANNEL,
}
# A detail rarely follows a sentence with fewer words, such as a greeting or a signature.
_SHORT = 5

_Sentence = tuple[str, Importance]
_Turn = tuple[str, Sequence[_Sentence]]


def dialogue(context: TextContext) -> list[Utterance]:
    """Write a dialogue: greeting, problem, order number, lookup, resolution, goodbye."""
    rng = context.rng
    greeting = _targets_of(context, AttributeKind.CHANNEL, Role.AGENT)
    turns: list[_Turn] = [
        (_AGENT, greeting or [_step(context, "greet")]),
        (_CUSTOMER, [*_problem(context), *_other_targets(context, Role.CUSTOMER)]),
        (_AGENT, [_detail(context, "feel_with"), *_comment(context), _step(context, "ask_order")]),
        (_CUSTOMER, [_step(context, "tell_order")]),
    ]
    if rng.chance(0.35):
        turns.append((_AGENT, [_detail(context, "ask_contact")]))
        turns.append((_CUSTOMER, [_detail(context, "tell_contact")]))
    lookup = [_detail(context, "thanks_wait")]
    if rng.chance(0.4):
        lookup.append(_detail(context, "tracking"))
    lookup.append(_resolution(context, Role.AGENT))
    turns.append((_AGENT, [*lookup, *_other_targets(context, Role.AGENT)]))
    if rng.chance(0.3):
        turns.append((_CUSTOMER, [_detail(context, "question")]))
        turns.append((_AGENT, [_detail(context, "answer")]))
    turns.append((_CUSTOMER, [_detail(context, "accept")]))
    turns.append((_AGENT, [_detail(context, "bye")]))
    return _utterances(turns)


def ticket(context: TextContext) -> list[Utterance]:
    """Write an email or a form: subject, problem, order, request, signature, and a reply."""
    body = [
        *_problem(context),
        _step(context, "body_order"),
        *_other_targets(context, Role.CUSTOMER),
        _detail(context, "body_ask"),
    ]
    return _utterances(
        [
            ("", [_detail(context, "subject")]),
            ("", _targets_of(context, AttributeKind.CHANNEL, Role.NOTE)),
            ("", [_detail(context, "salutation")]),
            ("", body),
            ("", [_step(context, "sign")]),
            (_REPLY, [_resolution(context, Role.NOTE), *_other_targets(context, Role.NOTE)]),
        ]
    )


def plain_text(context: TextContext) -> list[Utterance]:
    """Write a text about another topic than a shop, with little more than the target values."""
    said = [_detail(context, "matter")]
    for target in context.targets:
        said.append((context.say_target(target, Role.CUSTOMER), Importance.REQUIRED))
    return _utterances([("", said)])


def more_detail(
    context: TextContext, *, is_shop: bool
) -> Callable[[Sequence[Utterance]], tuple[int, str] | None]:
    """Return a function that gives `utterances.fit` more sentences.

    The sentences are different details in the words of a turn's speaker.
    """

    def add(utterances: Sequence[Utterance]) -> tuple[int, str] | None:
        said = {utterance.text for utterance in utterances}
        for _ in range(20):
            room = [max(len(utterance.text.split()) - _SHORT, 0.01) for utterance in utterances]
            index = context.rng.weighted_choice(range(len(utterances)), room)
            is_agent = role_of(utterances[index].speaker, utterances) is Role.AGENT
            rule = "filler" if not is_shop else "agent_detail" if is_agent else "detail"
            text = tidy(context.write(rule))
            if text not in said:
                return index, text
        return None

    return add


def _detail(context: TextContext, rule: str) -> _Sentence:
    return context.write(rule), Importance.DETAIL


def _step(context: TextContext, rule: str) -> _Sentence:
    return context.write(rule), Importance.STEP


def _targets_of(context: TextContext, kind: AttributeKind, role: Role) -> list[_Sentence]:
    target = context.target(kind)
    return [(context.say_target(target, role), Importance.REQUIRED)] if target else []


def _problem(context: TextContext) -> list[_Sentence]:
    issue = context.target(AttributeKind.ISSUE)
    product = context.target(AttributeKind.PRODUCT)
    hello = context.write("hello")
    if issue is not None and issue.listed_name is None:
        said = [(hello + context.say_target(issue, Role.CUSTOMER), Importance.REQUIRED)]
        said += _targets_of(context, AttributeKind.PRODUCT, Role.CUSTOMER)
    else:
        problem = context.say(context.phrases[AttributeKind.ISSUE], Role.CUSTOMER)
        said = [(hello + problem, Importance.REQUIRED if issue or product else Importance.STEP)]
    mood = _targets_of(context, AttributeKind.MOOD, Role.CUSTOMER)
    if not mood and context.rng.chance(0.35):
        phrases = context.phrases[AttributeKind.MOOD]
        mood = [(context.say(phrases, Role.CUSTOMER), Importance.DETAIL)]
    return said + mood


def _comment(context: TextContext) -> list[_Sentence]:
    if not context.rng.chance(0.4):
        return []
    return [(context.say(context.phrases[AttributeKind.ISSUE], Role.AGENT), Importance.DETAIL)]


def _resolution(context: TextContext, role: Role) -> _Sentence:
    said = _targets_of(context, AttributeKind.RESOLUTION, role)
    phrases = context.phrases[AttributeKind.RESOLUTION]
    return said[0] if said else (context.say(phrases, role), Importance.STEP)


def _other_targets(context: TextContext, role: Role) -> list[_Sentence]:
    return [
        (context.say_target(target, role), Importance.REQUIRED)
        for target in context.targets
        if target.kind not in _MENTIONED
        and (target.kind is AttributeKind.PRIORITY) == (role is not Role.CUSTOMER)
    ]


def _utterances(turns: Sequence[_Turn]) -> list[Utterance]:
    return [
        Utterance(number, speaker, tidy(text), importance)
        for number, (speaker, said) in enumerate(turns)
        for text, importance in said
        if text
    ]
