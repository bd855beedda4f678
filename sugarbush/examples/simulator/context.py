"""Chooses the topic of one text, and the words for the slots of its sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sugarbush.errors import InvariantError
from sugarbush.examples.data_files import items, lines, load_yaml
from sugarbush.examples.grammar import Grammar, Slot, tidy
from sugarbush.examples.people import random_code, random_person
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.examples.simulator.knowledge import KNOWN_VALUES, PRODUCTS, AttributeKind, Phrases
from sugarbush.examples.simulator.targets import Target, first_of_kind, product_words
from sugarbush.examples.simulator.utterances import Role

_DATA = load_yaml(Path(__file__).parent / "data" / "sentences.yaml")
_WORDS_OF_A_TEXT = {slot: items(text) for slot, text in _DATA["words_of_a_text"].items()}
_WORDS_OF_A_SENTENCE = {slot: items(text) for slot, text in _DATA["words_of_a_sentence"].items()}
_OTHER_ROLES = (Role.NOTE, Role.CUSTOMER, Role.AGENT)
_DRAWN = (AttributeKind.ISSUE, AttributeKind.RESOLUTION, AttributeKind.MOOD)
_GRAMMAR = Grammar({rule: lines(text) for rule, text in _DATA["sentences"].items()})


@dataclass(frozen=True, kw_only=True)
class TextContext:
    """The topic of one text, the words for its slots, and its random choices.

    `phrases` express the issue, the resolution and the mood. If one of these kinds has no target
    value, its value is random.
    """

    subject: str
    targets: tuple[Target, ...]
    phrases: Mapping[AttributeKind, Phrases]
    slots: Mapping[str, Slot]
    rng: SeededRandom

    def target(self, kind: AttributeKind) -> Target | None:
        return first_of_kind(self.targets, kind)

    def write(self, rule: str) -> str:
        return _GRAMMAR.write(rule, self.rng, self.slots)

    def say(self, phrases: Phrases, role: Role) -> str:
        """Write a sentence of `role` that expresses a value. Without such a sentence, return ""."""
        templates = phrases.templates.get(role)
        return _GRAMMAR.fill(self.rng.choice(templates), self.rng, self.slots) if templates else ""

    def say_target(self, target: Target, role: Role) -> str:
        """Write a sentence that expresses a target, if possible a sentence of `role`."""
        templates = target.phrases.templates
        said = next(templates[r] for r in (role, *_OTHER_ROLES) if r in templates)
        slots = dict(self.slots)
        if target.bounds is not None:
            slots["number"] = self.say_number(target)
        return tidy(_GRAMMAR.fill(self.rng.choice(said), self.rng, slots))

    def say_brief(self, target: Target) -> str:
        return target.brief.replace("{number}", self.say_number(target) if target.bounds else "")

    def say_number(self, target: Target) -> str:
        """Return an integer in the target's bin, or the first integer above its lower end."""
        if target.bounds is None:
            raise InvariantError(f"attribute '{target.name}' has no numeric bin")
        low, high = math.ceil(target.bounds[0]), math.ceil(target.bounds[1]) - 1
        return str(self.rng.between(low, max(low, high)))


def new_context(
    subject: str, targets: tuple[Target, ...], rng: SeededRandom, *, product: str | None = None
) -> TextContext:
    """Return a context with the targets. Kinds without a target get random known values."""

    def phrases(kind: AttributeKind) -> Phrases:
        target = first_of_kind(targets, kind)
        drawn = rng.choice(tuple(KNOWN_VALUES[kind]))
        return KNOWN_VALUES[kind][(target and target.listed_name) or drawn]

    drawn = rng.choice(tuple(PRODUCTS))
    return TextContext(
        subject=subject,
        targets=targets,
        phrases={kind: phrases(kind) for kind in _DRAWN},
        slots=_slots(subject, targets, product or drawn, rng),
        rng=rng,
    )


def _slots(
    subject: str, targets: tuple[Target, ...], product: str, rng: SeededRandom
) -> dict[str, Slot]:
    """Choose the words for one text with one customer, one order and one product."""
    customer = random_person(rng)
    thing = product_words(first_of_kind(targets, AttributeKind.PRODUCT), product)
    other = rng.choice([p.names[0] for p in PRODUCTS.values() if p.names[0] not in thing.names])

    def one_of(slot: str) -> str:
        return rng.choice(_WORDS_OF_A_TEXT[slot])

    def any_of(slot: str) -> Callable[[], str]:
        return lambda: rng.choice(_WORDS_OF_A_SENTENCE[slot])

    return {
        "subject": subject,
        "product": lambda: rng.choice(thing.names),
        "fault": rng.choice(thing.faults),
        "piece": rng.choice(thing.pieces),
        "other": other,
        "name": f"{customer.given} {customer.family}",
        "first": customer.given,
        "contact": rng.choice((customer.address, customer.phone)),
        "order": random_code(one_of("order"), rng),
        "tracking": random_code(one_of("tracking"), rng),
        **{slot: one_of(slot) for slot in ("brand", "carrier", "hub", "agent")},
        "sum": f"${rng.between(12, 480)}.{rng.choice(('00', '50', '95', '99'))}",
        "credit": f"${5 * rng.between(1, 10)}",
        "percent": str(5 * rng.between(1, 8)),
        "days": lambda: str(rng.between(2, 14)),
        "months": lambda: str(rng.between(2, 22)),
        **{slot: any_of(slot) for slot in _WORDS_OF_A_SENTENCE},
    }
