"""Invents people, addresses and codes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sugarbush.examples.data_files import load_yaml, words
from sugarbush.examples.grammar import mark
from sugarbush.examples.seeded_random import SeededRandom

_DATA = load_yaml(Path(__file__).with_name("people.yaml"))
GIVEN_NAMES = words(_DATA["given_names"])
FAMILY_NAMES = words(_DATA["family_names"])
STREETS = words(_DATA["streets"])
STREET_KINDS = words(_DATA["street_kinds"])
TOWNS = words(_DATA["towns"])


@dataclass(frozen=True, kw_only=True)
class Person:
    """A customer."""

    given: str
    family: str
    address: str
    phone: str


def random_person(
    rng: SeededRandom, *, towns: tuple[str, ...] = TOWNS, phone: str = "555-01##-####"
) -> Person:
    """Invent a person. Address and phone are marked.

    The default phone numbers begin with 555-01, because nobody has such a number.
    """
    street = f"{rng.between(1, 240)} {rng.choice(STREETS)} {rng.choice(STREET_KINDS)}"
    return Person(
        given=rng.choice(GIVEN_NAMES),
        family=rng.choice(FAMILY_NAMES),
        address=mark("ADDRESS", f"{street}, {rng.choice(towns)}"),
        phone=mark("PHONE", random_code(phone, rng)),
    )


def random_code(pattern: str, rng: SeededRandom) -> str:
    """Replace each `#` in `pattern` by a random digit, and each `@` by a random capital letter."""
    drawn = {"#": lambda: str(rng.below(10)), "@": lambda: chr(ord("A") + rng.below(26))}
    return "".join(drawn[c]() if c in drawn else c for c in pattern)
