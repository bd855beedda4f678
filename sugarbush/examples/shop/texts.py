"""Writes the texts of the invented shop. Its service desk has its own jargon.

The desk asks for the docket (an order number), quotes the waybill and names an action. At the end,
the desk gives a priority code and offers a survey. Calls and chats are dialogues. Emails and web
forms are log entries of the desk.
"""

from __future__ import annotations

from pathlib import Path

from sugarbush.examples.data_files import items, lines, load_yaml, words
from sugarbush.examples.grammar import Grammar, LabelledSpan, Slot, mark, tidy, unmark
from sugarbush.examples.people import random_code, random_person
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.examples.shop.cases import Case

_VOCABULARY = load_yaml(Path(__file__).with_name("vocabulary.yaml"))
_CLERKS = words(_VOCABULARY["clerks"])
_TOWNS = {region: items(towns) for region, towns in _VOCABULARY["towns"].items()}
_PRODUCTS = {
    product: {field: items(text) for field, text in fields.items()}
    for product, fields in _VOCABULARY["products"].items()
}
_SENTENCES = load_yaml(Path(__file__).with_name("sentences.yaml"))
_GRAMMAR = Grammar({rule: lines(templates) for rule, templates in _SENTENCES.items()})

_WITHOUT_WAYBILL = {"setup trouble", "warranty claim", "cancellation"}


def write_case(case: Case, rng: SeededRandom) -> tuple[str, tuple[LabelledSpan, ...]]:
    """Return the text of a case, and the spans that identify the customer."""
    slots = _slots(case, rng)
    is_log = case.channel in {"email", "web form"}
    written = _log(case, rng, slots) if is_log else _dialogue(case, rng, slots)
    return unmark("\n".join(tidy(line) for line in written))


def _dialogue(case: Case, rng: SeededRandom, slots: dict[str, Slot]) -> list[str]:
    def say(rule: str) -> str:
        return _GRAMMAR.write(rule.replace(" ", "_"), rng, slots)

    check = rng.choice(("doorstep", "ringback"))
    turns = [("Desk", say(f"open_{case.channel}")), ("Member", say("give_docket"))]
    if rng.chance(0.22):
        turns += [("Desk", say(f"ask_{check}")), ("Member", say(f"give_{check}"))]
    sentences = []
    if rng.chance(0.5):
        # The desk quotes a waybill for every shipped order, and sometimes in other cases.
        shipped = case.issue not in _WITHOUT_WAYBILL or rng.chance(0.3)
        sentences.append(say("look" if shipped else "look_home"))
    answer = " ".join([*sentences, say(f"do_{case.resolution}")])
    turns.append(("Desk", say("invite")))
    turns.append(("Member", f"{say(f'mood_{case.sentiment}')} {say(f'tell_{case.issue}')}"))
    if rng.chance(0.65):
        turns.append(("Desk", answer))
        turns.append(("Member", say(f"end_{case.sentiment}")))
        turns.append(("Desk", say("close")))
    else:
        turns.append(("Desk", f"{answer} {say('close')}"))
    return [f"{who}> {tidy(line)}" for who, line in turns]


def _log(case: Case, rng: SeededRandom, slots: dict[str, Slot]) -> list[str]:
    def note(rule: str) -> str:
        return tidy(_GRAMMAR.write(rule.replace(" ", "_"), rng, slots))

    body = [note(f"note_{case.issue}"), note(f"note_{case.sentiment}")]
    if rng.chance(0.65):
        body.append(note("log_look"))
    if rng.chance(0.45):
        body.append(f'Writes: "{note(f"tell_{case.issue}")}"')
    return [
        note(f"head_{case.channel}"),
        note("who"),
        " ".join(sentence for sentence in body if sentence),
        f"ACTION {note(f'act_{case.resolution}')} {note('log_close')}",
    ]


def _slots(case: Case, rng: SeededRandom) -> dict[str, Slot]:
    member = random_person(rng, towns=_TOWNS[case.region], phone="0555 01# ####")
    product = _PRODUCTS[case.product]
    others = [other["names"][0] for name, other in _PRODUCTS.items() if name != case.product]
    docket = mark("ORDER_NUMBER", random_code("FH-###-#####", rng))
    waybill = mark("TRACKING_NUMBER", random_code("WB ## #### ##@", rng))
    return {
        "name": mark("NAME", f"{member.given} {member.family}"),
        "first": mark("NAME", member.given),
        "address": member.address,
        "phone": member.phone,
        "contact": rng.choice((member.address, member.phone)),
        "docket": docket,
        "waybill": waybill,
        "clerk": rng.choice(_CLERKS),
        "item": lambda: rng.choice(product["names"]),
        "fault_of_text": rng.choice(product["faults"]),
        "piece": rng.choice(product["pieces"]),
        "room": rng.choice(product["rooms"]),
        "wrong": rng.choice(others),
        "depot": "Overseas Depot" if case.region == "abroad" else f"Depot {case.region.title()}",
        "tenure": str(case.tenure_months),
        "code": _VOCABULARY["priority_codes"][case.priority],
        "age": lambda: str(rng.between(2, 23)),
        "days": lambda: str(rng.between(2, 19)),
        "weeks": lambda: str(rng.between(2, 9)),
        "workdays": lambda: str(rng.between(2, 6)),
        "step": lambda: str(rng.between(2, 9)),
        "sum": f"{rng.between(29, 640)} crowns",
        "chit": f"{rng.between(5, 60)} crowns",
        "survey": random_code("##", rng),
    }
