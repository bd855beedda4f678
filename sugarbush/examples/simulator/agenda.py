"""What is said in which order when nobody shows how: generic dialogues and tickets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sugarbush.errors import InvariantError
from sugarbush.examples.simulator.concepts import (
    ISSUES,
    KNOWN,
    MOODS,
    PRODUCTS,
    RESOLUTIONS,
    Concept,
    Kind,
)
from sugarbush.examples.simulator.dice import Dice
from sugarbush.examples.simulator.document import Need, Part, Voice, voice_of
from sugarbush.examples.simulator.entities import digits, person
from sugarbush.examples.simulator.grammar import Grammar, Slot, tidy
from sugarbush.examples.simulator.wishes import Wish, product_for, wish_of

_CUSTOMER, _AGENT, _REPLY = "Customer: ", "Agent: ", "Reply: "
OWN_SPEAKERS = frozenset({_CUSTOMER, _AGENT, _REPLY})

BRANDS = ("Northwind Store", "Lumen Market", "Tidewater Goods", "Parcel & Pine", "Everyday Shop")
CARRIERS = ("SwiftShip", "BlueArrow", "Carrier One", "ParcelFox", "RoadRunner Post")
HUBS = ("Millbrook", "Eastgate", "Harlow Bay", "Kingsport", "Redhill")
HANDS = ("Alex", "Sam", "Jamie", "Robin", "Taylor", "Morgan", "Casey", "Jordan", "Riley", "Drew")


_Said = tuple[str, Need]
_Turn = tuple[str, Sequence[_Said]]

# Kinds that a step of the agenda speaks of anyway.
_IN_THE_AGENDA = {Kind.PRODUCT, Kind.ISSUE, Kind.RESOLUTION, Kind.MOOD, Kind.CHANNEL}


_BRIEF = 5


class Form(StrEnum):
    """How a text is laid out."""

    DIALOGUE = "dialogue"
    TICKET = "ticket"


_RULES: dict[str, tuple[str, ...]] = {
    "greet": (
        "[Hello|Hi|Good morning|Good afternoon], thank you for contacting {brand}[ support|]. "
        "[How can I help you|What can I do for you] today?",
        "Welcome to {brand}, my name is {hand}. [How may I assist you|How can I help]?",
        "{brand} customer service, this is {hand}. What can I do for you?",
    ),
    "hello": ("[Hi|Hello|Hey|Good day][ there|][.|!] ", "[Hi {hand}.|Hello {hand}.|] ", ""),
    "feel_with": (
        "I am [very|so|really] sorry [to hear that|about this|for the inconvenience].",
        "[Oh no, that is not good|I understand how annoying that is|Thanks for letting me know].",
        "[I can certainly help you with that|Let me see what I can do|I will gladly check this].",
    ),
    "ask_order": (
        "[Could|Can|May] I have your [full name and order number|order number and name], please?",
        "What is your order number, and who placed the order?",
    ),
    "tell_order": (
        "[My name is|This is|I am] {name} and the order number is {order}.",
        "[Sure, it is|It is|Yes,] {order}, [under|on the name] {name}.",
    ),
    "ask_contact": (
        "[And|Could you confirm] your [phone number|number] on the account?",
        "[Please confirm|And what is] the shipping address?",
    ),
    "tell_contact": ("[It is|That would be] {contact}.", "{contact}."),
    "thanks_wait": (
        "Thank you, {first}. [One moment please|Just a second while I look it up].",
        "[Great|Perfect|Thanks], [I found your order|I have it in front of me].",
    ),
    "tracking": (
        "Your tracking number is {tracking}.",
        "The shipment {tracking} [left {hub}|was scanned in {hub}] {days} days ago.",
    ),
    "question": (
        "[How long will that take|When will I hear from you|Will I get a confirmation]?",
        "[Do I need to do anything else|Do you need the original box|Is there a fee for that]?",
    ),
    "answer": (
        "[You will get an email with all the details|No, we take care of the rest].",
        "[It usually takes {days} business days|You will hear from us {when}].",
    ),
    "accept": (
        "[Okay, thanks|Alright, thank you|That works for me|Sounds good|Okay, let us do that].",
        "[Fine, I will wait for that|Good, please go ahead].",
    ),
    "bye": (
        "Is there anything else I can help you with?",
        "[Thank you for choosing|Thanks for shopping at] {brand}, have a [great|nice|lovely] day!",
        "[Have a nice day|Take care|Goodbye], {first}.",
    ),
    "detail": (
        "[I bought it on your website|I ordered it through the app|I paid by card] {when_past}.",
        "[I already wrote to you|I called before], {when_past}, and [nobody answered|got "
        "no reply].",
        "The {product} was [a gift|for my daughter|for my office|on sale|quite expensive].",
        "[I checked my inbox|I looked at the order page] and there is [no news|nothing new].",
        "I paid {sum} for the {product}.",
        "[My neighbour|My sister|A friend] has the same {product} and [is happy|never "
        "had trouble].",
        "[I have kept the box|I still have the receipt|I have pictures if you need them].",
        "The {part} [is fine|looks all right|seems to be in order] by the way.",
        "[We use it every day|I hardly used it|I need it for work|We leave on holiday soon].",
    ),
    "agent_detail": (
        "[Let me check that in our system|I am looking at your account|Please bear with me].",
        "I have added a note to your order {order}.",
        "[You will receive|I have just sent] a confirmation by email.",
        "[We appreciate your patience|We value you as a customer|We will do our best].",
        "The warehouse in {hub} [has been informed|will confirm it {when}].",
    ),
    # -- tickets
    "subject": (
        "Subject: [Problem with|Question about|My] {product}[, order {order}| - {order}|]",
        "Subject: {product} - [please help|request|complaint|support needed]",
    ),
    "salutation": ("[Hello|Dear {brand} team|Dear Sir or Madam|Hi support],",),
    "body_order": (
        "My order number is {order}.",
        "The order is {order}[, tracking {tracking}|].",
        "You will find it under {order}[, name {name}|].",
    ),
    "body_ask": (
        "[Please let me know|Could you tell me|I would like to know] [what happens "
        "next|how we go on].",
        "[I look forward to your answer|Please get back to me {when}].",
    ),
    "sign": (
        "[Regards|Best regards|Thanks|Kind regards], {name}, {contact}",
        "[Thank you|Sincerely], {name}[, {contact}|]",
    ),
    # -- tickets on something that is not a shop's
    "matter": (
        "[This is|I would like to submit] [a note|an entry|a report] [for|on] the {subject}.",
        "[Please find below|I am sending] [my entry|the details] [for|on] the {subject}.",
    ),
    "filler": (
        "[I hope this is clear|Please read it with care|I have kept it short].",
        "[There is more to say|More details are available] [on request|if it helps].",
        "[It has been like this|This has gone on] for {days} [days|weeks].",
        "[I wanted to put this on record|I write this down so that it is known].",
        "[Others have said the same|I am told that this is common|I had not seen this before].",
        "[I expect|I would welcome] [an answer|a reply|a reaction] {when}.",
        "[It started|It came up] {when_past}[ and has not changed since| and got worse|].",
        "[Nothing else has changed|The rest is as it was|So far that is all].",
    ),
}

GRAMMAR = Grammar(_RULES)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """All that one text draws on: what it is about and the words for its slots."""

    subject: str
    wishes: tuple[Wish, ...]
    issue: str
    resolution: str
    mood: str
    slots: Mapping[str, Slot]
    dice: Dice

    def write(self, rule: str) -> str:
        """One text of a rule."""
        return GRAMMAR.write(rule, self.dice, self.slots)

    def say(self, templates: tuple[str, ...]) -> str:
        """One of the templates, filled; nothing where there are none."""
        return GRAMMAR.fill(self.dice.pick(templates), self.dice, self.slots) if templates else ""

    def say_as(self, concept: Concept, voice: Voice) -> str:
        """A value in the words of `voice`; nothing if it has none for it."""
        return tidy(self.say(_templates(concept, voice)))

    def say_wish(self, wish: Wish, voice: Voice) -> str:
        """A wished value, in other words where `voice` has none for it."""
        of = wish.concept
        templates = _templates(of, voice) or of.note or of.customer or of.agent
        slots = dict(self.slots)
        if wish.bounds is not None:
            slots["number"] = self.say_number(wish)
        return tidy(GRAMMAR.fill(self.dice.pick(templates), self.dice, slots))

    def say_brief(self, wish: Wish) -> str:
        """A wished value in two or three words."""
        return wish.brief.replace("{number}", self.say_number(wish) if wish.bounds else "")

    def say_number(self, wish: Wish) -> str:
        """A whole number in the wish's bin, or the one below it where there is none."""
        if wish.bounds is None:
            raise InvariantError(f"attribute '{wish.name}' asks for no number")
        low, high = math.ceil(wish.bounds[0]), math.ceil(wish.bounds[1]) - 1
        return str(self.dice.between(low, max(low, high)))


def setting_for(
    subject: str, wishes: tuple[Wish, ...], dice: Dice, *, product: str | None = None
) -> Setting:
    """What a text is about: what was wished, the rest drawn evenly from what the shop knows."""

    def value(kind: Kind) -> str:
        wish = wish_of(wishes, kind)
        drawn = dice.pick(tuple(KNOWN[kind]))
        return (wish.known if wish and wish.known else None) or drawn

    drawn = dice.pick(tuple(PRODUCTS))
    return Setting(
        subject=subject,
        wishes=wishes,
        issue=value(Kind.ISSUE),
        resolution=value(Kind.RESOLUTION),
        mood=value(Kind.MOOD),
        slots=slots_for(subject, wishes, product or drawn, dice),
        dice=dice,
    )


def slots_for(subject: str, wishes: tuple[Wish, ...], product: str, dice: Dice) -> dict[str, Slot]:
    """The words of one text: one customer, one order, one thing; small change drawn anew."""
    customer = person(dice)
    thing = product_for(wish_of(wishes, Kind.PRODUCT), product)
    other = dice.pick([p.nouns[0] for p in PRODUCTS.values() if p.nouns[0] not in thing.nouns])
    return {
        "subject": subject,
        "product": lambda: dice.pick(thing.nouns),
        "fault": dice.pick(thing.faults),
        "part": dice.pick(thing.parts),
        "other": other,
        "name": f"{customer.given} {customer.family}",
        "first": customer.given,
        "contact": dice.pick((customer.address, customer.phone)),
        "order": digits(dice.pick(("#######", "ORD-#####", "#-###-###")), dice),
        "tracking": digits(dice.pick(("@@#########", "1Z##########", "############")), dice),
        "brand": dice.pick(BRANDS),
        "carrier": dice.pick(CARRIERS),
        "hub": dice.pick(HUBS),
        "hand": dice.pick(HANDS),
        "sum": f"${dice.between(12, 480)}.{dice.pick(('00', '50', '95', '99'))}",
        "credit": f"${5 * dice.between(1, 10)}",
        "percent": str(5 * dice.between(1, 8)),
        "days": lambda: str(dice.between(2, 14)),
        "day": lambda: dice.pick(("Monday", "Tuesday", "Thursday", "Friday", "tomorrow")),
        "few": lambda: dice.pick(("three", "five", "ten")),
        "months": lambda: str(dice.between(2, 22)),
        "when": lambda: dice.pick(("tomorrow", "on Monday", "this week", "by Friday", "soon")),
        "when_past": lambda: dice.pick(
            ("last week", "on Sunday", "two weeks ago", "yesterday", "last month", "a while ago")
        ),
    }


def dialogue(setting: Setting) -> list[Part]:
    """A dialogue by the agenda: greeting, problem, order, lookup, resolution, goodbye."""
    say, dice = setting.write, setting.dice
    issue = ISSUES[setting.issue]
    turns: list[_Turn] = [
        (_AGENT, [_opening(setting)]),
        (_CUSTOMER, [*_problem(setting), *_said_by(setting, Voice.CUSTOMER)]),
        (
            _AGENT,
            [
                (say("feel_with"), Need.DETAIL),
                (setting.say(issue.agent) if dice.chance(0.4) else "", Need.DETAIL),
                (say("ask_order"), Need.STEP),
            ],
        ),
        (_CUSTOMER, [(say("tell_order"), Need.STEP)]),
    ]
    if dice.chance(0.35):
        turns.append((_AGENT, [(say("ask_contact"), Need.DETAIL)]))
        turns.append((_CUSTOMER, [(say("tell_contact"), Need.DETAIL)]))
    looked_up = [
        (say("thanks_wait"), Need.DETAIL),
        (say("tracking") if dice.chance(0.4) else "", Need.DETAIL),
        _resolved(setting, Voice.AGENT),
        *_said_by(setting, Voice.AGENT),
    ]
    turns.append((_AGENT, looked_up))
    if dice.chance(0.3):
        turns.append((_CUSTOMER, [(say("question"), Need.DETAIL)]))
        turns.append((_AGENT, [(say("answer"), Need.DETAIL)]))
    turns.append((_CUSTOMER, [(say("accept"), Need.DETAIL)]))
    turns.append((_AGENT, [(say("bye"), Need.DETAIL)]))
    return _parts(turns)


def ticket(setting: Setting) -> list[Part]:
    """A mail or a form: subject, problem, order, request, signature, the support's note."""
    say = setting.write
    channel = wish_of(setting.wishes, Kind.CHANNEL)
    body = [
        *_problem(setting),
        (say("body_order"), Need.STEP),
        *_said_by(setting, Voice.CUSTOMER),
        (say("body_ask"), Need.DETAIL),
    ]
    return _parts(
        [
            ("", [(say("subject"), Need.DETAIL)]),
            ("", [(setting.say_wish(channel, Voice.NOTE), Need.WISHED)] if channel else []),
            ("", [(say("salutation"), Need.DETAIL)]),
            ("", body),
            ("", [(say("sign"), Need.STEP)]),
            (_REPLY, [_resolved(setting, Voice.NOTE), *_said_by(setting, Voice.NOTE)]),
        ]
    )


def matter(setting: Setting) -> list[Part]:
    """A plain entry on a subject that is not a shop's: what was wished, and little else."""
    said = [(setting.write("matter"), Need.DETAIL)]
    said += [(setting.say_wish(wish, Voice.CUSTOMER), Need.WISHED) for wish in setting.wishes]
    return _parts([("", said)])


def more_detail(
    setting: Setting, *, service: bool
) -> Callable[[Sequence[Part]], tuple[int, str] | None]:
    """What `document.fit` adds: details by whoever speaks in some turn, none of them twice."""

    def add(parts: Sequence[Part]) -> tuple[int, str] | None:
        said = {part.text for part in parts}
        for _ in range(20):
            # Where much is said, more may be; a greeting or a signature stays as it is.
            room = [max(len(part.text.split()) - _BRIEF, 0.01) for part in parts]
            place = setting.dice.pick_by(range(len(parts)), room)
            theirs = voice_of(parts[place].speaker, parts) is Voice.AGENT
            rule = "filler" if not service else "agent_detail" if theirs else "detail"
            text = tidy(setting.write(rule))
            if text not in said:
                return place, text
        return None

    return add


def _opening(setting: Setting) -> _Said:
    channel = wish_of(setting.wishes, Kind.CHANNEL)
    if channel is not None:
        return setting.say_wish(channel, Voice.AGENT), Need.WISHED
    return setting.write("greet"), Need.STEP


def _problem(setting: Setting) -> list[_Said]:
    """Greeting, what is wrong, and how it feels."""
    issue = wish_of(setting.wishes, Kind.ISSUE)
    product = wish_of(setting.wishes, Kind.PRODUCT)
    mood = wish_of(setting.wishes, Kind.MOOD)
    hello = setting.write("hello")
    said: list[_Said] = []
    if issue is not None and issue.known is None:
        said.append((hello + setting.say_wish(issue, Voice.CUSTOMER), Need.WISHED))
        if product is not None:
            said.append((setting.say_wish(product, Voice.CUSTOMER), Need.WISHED))
    else:
        problem = setting.say(ISSUES[setting.issue].customer)
        said.append((hello + problem, Need.WISHED if issue or product else Need.STEP))
    if mood is not None:
        said.append((setting.say_wish(mood, Voice.CUSTOMER), Need.WISHED))
    elif setting.dice.chance(0.35):
        said.append((setting.say(MOODS[setting.mood].customer), Need.DETAIL))
    return said


def _resolved(setting: Setting, voice: Voice) -> _Said:
    wish = wish_of(setting.wishes, Kind.RESOLUTION)
    if wish is not None:
        return setting.say_wish(wish, voice), Need.WISHED
    return setting.say_as(RESOLUTIONS[setting.resolution], voice), Need.STEP


def _said_by(setting: Setting, voice: Voice) -> list[_Said]:
    """The remaining wishes: priorities are the shop's to tell, the rest is the customer's."""
    return [
        (setting.say_wish(wish, voice), Need.WISHED)
        for wish in setting.wishes
        if wish.kind not in _IN_THE_AGENDA
        and (wish.kind is Kind.PRIORITY) == (voice is not Voice.CUSTOMER)
    ]


def _templates(concept: Concept, voice: Voice) -> tuple[str, ...]:
    return {
        Voice.CUSTOMER: concept.customer,
        Voice.AGENT: concept.agent,
        Voice.NOTE: concept.note,
    }[voice]


def _parts(turns: Sequence[_Turn]) -> list[Part]:
    return [
        Part(number, speaker, tidy(text), need)
        for number, (speaker, said) in enumerate(turns)
        for text, need in said
        if text
    ]
