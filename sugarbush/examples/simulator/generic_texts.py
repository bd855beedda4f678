"""Texts from nothing: generic dialogues and tickets in a fixed order of turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sugarbush.examples.grammar import tidy
from sugarbush.examples.simulator.context import TextContext
from sugarbush.examples.simulator.knowledge import KNOWN_VALUES, AttributeKind
from sugarbush.examples.simulator.utterances import Importance, Role, Utterance, role_of

_CUSTOMER, _AGENT, _REPLY = "Customer: ", "Agent: ", "Reply: "
OWN_SPEAKERS = frozenset({_CUSTOMER, _AGENT, _REPLY})

# Kinds that some turn mentions anyway.
_MENTIONED = {
    AttributeKind.PRODUCT,
    AttributeKind.ISSUE,
    AttributeKind.RESOLUTION,
    AttributeKind.MOOD,
    AttributeKind.CHANNEL,
}
# A detail follows a sentence of more words than this: not a greeting, not a signature.
_SHORT = 5

_Sentence = tuple[str, Importance]
_Turn = tuple[str, Sequence[_Sentence]]


def dialogue(context: TextContext) -> list[Utterance]:
    """Greeting, problem, order number, lookup, resolution, goodbye."""
    write, rng = context.write, context.rng
    issue = KNOWN_VALUES[AttributeKind.ISSUE][context.issue]
    turns: list[_Turn] = [
        (_AGENT, [_opening(context)]),
        (_CUSTOMER, [*_problem(context), *_other_targets(context, Role.CUSTOMER)]),
        (
            _AGENT,
            [
                (write("feel_with"), Importance.DETAIL),
                (context.say(issue.agent) if rng.chance(0.4) else "", Importance.DETAIL),
                (write("ask_order"), Importance.STEP),
            ],
        ),
        (_CUSTOMER, [(write("tell_order"), Importance.STEP)]),
    ]
    if rng.chance(0.35):
        turns.append((_AGENT, [(write("ask_contact"), Importance.DETAIL)]))
        turns.append((_CUSTOMER, [(write("tell_contact"), Importance.DETAIL)]))
    lookup = [
        (write("thanks_wait"), Importance.DETAIL),
        (write("tracking") if rng.chance(0.4) else "", Importance.DETAIL),
        _resolution(context, Role.AGENT),
        *_other_targets(context, Role.AGENT),
    ]
    turns.append((_AGENT, lookup))
    if rng.chance(0.3):
        turns.append((_CUSTOMER, [(write("question"), Importance.DETAIL)]))
        turns.append((_AGENT, [(write("answer"), Importance.DETAIL)]))
    turns.append((_CUSTOMER, [(write("accept"), Importance.DETAIL)]))
    turns.append((_AGENT, [(write("bye"), Importance.DETAIL)]))
    return _utterances(turns)


def ticket(context: TextContext) -> list[Utterance]:
    """An email or a form: subject, problem, order, request, signature, the support's note."""
    write = context.write
    body = [
        *_problem(context),
        (write("body_order"), Importance.STEP),
        *_other_targets(context, Role.CUSTOMER),
        (write("body_ask"), Importance.DETAIL),
    ]
    return _utterances(
        [
            ("", [(write("subject"), Importance.DETAIL)]),
            ("", _origin(context)),
            ("", [(write("salutation"), Importance.DETAIL)]),
            ("", body),
            ("", [(write("sign"), Importance.STEP)]),
            (_REPLY, [_resolution(context, Role.NOTE), *_other_targets(context, Role.NOTE)]),
        ]
    )


def plain_text(context: TextContext) -> list[Utterance]:
    """A text on a subject that is not a shop's: the target values, and little else."""
    said = [(context.write("matter"), Importance.DETAIL)]
    for target in context.targets:
        said.append((context.say_target(target, Role.CUSTOMER), Importance.REQUIRED))
    return _utterances([("", said)])


def more_detail(
    context: TextContext, *, is_shop: bool
) -> Callable[[Sequence[Utterance]], tuple[int, str] | None]:
    """What `utterances.fit` adds: a detail by the speaker of some turn, none of them twice."""

    def add(utterances: Sequence[Utterance]) -> tuple[int, str] | None:
        said = {utterance.text for utterance in utterances}
        for _ in range(20):
            room = [max(len(utterance.text.split()) - _SHORT, 0.01) for utterance in utterances]
            place = context.rng.weighted_choice(range(len(utterances)), room)
            is_agent = role_of(utterances[place].speaker, utterances) is Role.AGENT
            rule = "filler" if not is_shop else "agent_detail" if is_agent else "detail"
            text = tidy(context.write(rule))
            if text not in said:
                return place, text
        return None

    return add


def _opening(context: TextContext) -> _Sentence:
    channel = context.target(AttributeKind.CHANNEL)
    if channel is not None:
        return context.say_target(channel, Role.AGENT), Importance.REQUIRED
    return context.write("greet"), Importance.STEP


def _origin(context: TextContext) -> list[_Sentence]:
    channel = context.target(AttributeKind.CHANNEL)
    return [(context.say_target(channel, Role.NOTE), Importance.REQUIRED)] if channel else []


def _problem(context: TextContext) -> list[_Sentence]:
    """Greeting, what is wrong, and the customer's mood."""
    issue = context.target(AttributeKind.ISSUE)
    product = context.target(AttributeKind.PRODUCT)
    mood = context.target(AttributeKind.MOOD)
    hello = context.write("hello")
    said: list[_Sentence] = []
    if issue is not None and issue.known is None:
        said.append((hello + context.say_target(issue, Role.CUSTOMER), Importance.REQUIRED))
        if product is not None:
            said.append((context.say_target(product, Role.CUSTOMER), Importance.REQUIRED))
    else:
        problem = context.say(KNOWN_VALUES[AttributeKind.ISSUE][context.issue].customer)
        importance = Importance.REQUIRED if issue or product else Importance.STEP
        said.append((hello + problem, importance))
    if mood is not None:
        said.append((context.say_target(mood, Role.CUSTOMER), Importance.REQUIRED))
    elif context.rng.chance(0.35):
        phrases = KNOWN_VALUES[AttributeKind.MOOD][context.mood]
        said.append((context.say(phrases.customer), Importance.DETAIL))
    return said


def _resolution(context: TextContext, role: Role) -> _Sentence:
    target = context.target(AttributeKind.RESOLUTION)
    if target is not None:
        return context.say_target(target, role), Importance.REQUIRED
    phrases = KNOWN_VALUES[AttributeKind.RESOLUTION][context.resolution]
    return context.say_as(phrases, role), Importance.STEP


def _other_targets(context: TextContext, role: Role) -> list[_Sentence]:
    """The remaining target values. The shop states priorities, the customer all others."""
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
