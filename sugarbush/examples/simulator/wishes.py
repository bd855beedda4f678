"""What a request asks for, attribute by attribute, and how one sees that a text shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from sugarbush.examples.simulator.concepts import (
    HINTS,
    KNOWN,
    PRODUCTS,
    SYNONYMS_OF_VALUES,
    Concept,
    Kind,
    Product,
    shown_values,
)

_BIN = re.compile(r"(?:below (?P<under>-?[\d.]+))$|(?P<low>-?[\d.]+) (?:to below (?P<high>-?[\d.]+)"
                  r"|and above)$")  # fmt: skip

_TENURE = re.compile(
    r"\b(?:customer|client|member|mbr|with you|with us)\W+(?:\w+\W+){0,2}?(?P<number>\d+)(?= mo)",
    re.IGNORECASE,
)

# A thing that the simulator has no words for is said to do what any thing may do.
_ANY_FAULTS = (
    "does not work as it should",
    "is not what I was told",
    "keeps causing trouble",
    "has never been right",
)
_ANY_PARTS = ("paperwork", "first page", "main part", "label")

# How a value that the simulator does not know is said, by what its attribute is about. `{name}` is
# the attribute's name in words and `{value}` its value.
_SAID: dict[Kind, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    Kind.ISSUE: (
        ("[My problem is|It is about|I am writing because of] {value}.", "The trouble is {value}."),
        ("I understand that it is about {value}.", "So the matter is {value}."),
        ("Matter: {value}.", "It concerns {value}."),
    ),
    Kind.RESOLUTION: (
        ("I was told {value}.",),
        ("The outcome is {value}.", "I note {value} as the outcome."),
        ("Outcome: {value}.",),
    ),
    Kind.MOOD: (("I feel {value} about this.",), (), ("The tone is {value}.",)),
    Kind.CHANNEL: (
        ("I come to you by {value}.",),
        ("I see that you reached us by {value}.",),
        ("Came in by {value}.",),
    ),
    Kind.PRIORITY: (
        ("For me the {name} is {value}.",),
        ("I set the {name} to {value}.",),
        ("{name}: {value}.",),
    ),
    Kind.REGION: (
        ("I live in {value}.", "I am in {value}[, by the way|]."),
        ("I see that you are in {value}.",),
        ("From {value}.", "Lives in {value}."),
    ),
    Kind.RATING: (
        ("I would give this a {name} of {value}.", "{name} from me: {value}."),
        ("I note a {name} of {value}.",),
        ("{name}: {value}.",),
    ),
    Kind.DATE: (
        ("That was in {value}.", "It began in {value}."),
        ("I have it noted under {value}.",),
        ("Dated {value}.",),
    ),
    Kind.COMPANY: (
        ("The company is {value}.", "I have been dealing with {value}."),
        ("I will look into it with {value}.",),
        ("Company: {value}.",),
    ),
    Kind.TENURE: (
        ("I have been a customer for {value} months.", "I have been with you {value} months now."),
        ("I see you have been with us for {value} months.",),
        ("Customer for {value} months.", "Customer since {value} months ago."),
    ),
    Kind.OTHER: (
        ("As for the {name}, it is {value}.", "The {name} is {value}."),
        ("I have {value} here as the {name}.",),
        ("{name}: {value}.", "The {name} is {value}."),
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Wish:
    """One attribute value: what it is about, how it is said, and the words that show it.

    `wish_for` makes one object a value, so that what was found in a text is found once.

    `known` is the value's name in the simulator's own list, None where it has none. `bounds` are
    the ends of a numeric bin; a number inside is drawn for each text.
    """

    name: str
    value: str
    kind: Kind
    known: str | None
    concept: Concept
    bounds: tuple[float, float] | None = None

    @cached_property
    def cue_pattern(self) -> re.Pattern[str]:
        cues = "|".join(map(re.escape, sorted(self.concept.cues, key=len, reverse=True)))
        return re.compile(rf"(?<!\w)(?:{cues or '(?!)'})(?!\w)", re.IGNORECASE)

    @cached_property
    def number_pattern(self) -> re.Pattern[str]:
        """Where a text tells the number of a numeric attribute, as `number`."""
        if self.kind is Kind.TENURE:
            return _TENURE
        name = re.escape(_in_words(self.name))
        return re.compile(rf"\b{name}\W+(?:\w+\W+){{0,3}}?(?P<number>\d+)\b", re.IGNORECASE)

    @property
    def brief(self) -> str:
        """The value in two or three words; `{number}` where a number is told."""
        name = _in_words(self.name)
        if self.bounds is not None:
            return (
                "customer for {number} months" if self.kind is Kind.TENURE else f"{name} {{number}}"
            )
        value = _plain(_in_words(self.value))
        return f"{value} {name}" if self.kind is Kind.PRIORITY else f"{name} {value}"

    def is_shown(self, text: str) -> bool:
        """Whether `text` says the value. A neutral mood is shown by the absence of others."""
        return _is_shown(self, text)

    def conflicts(self, text: str) -> bool:
        """Whether `text` shows another known value of the same kind, and not this one."""
        if self.kind not in KNOWN or self.is_shown(text):
            return False
        return any(value != self.known for value in shown_values(self.kind, text))


@lru_cache(maxsize=65536)
def _is_shown(wish: Wish, text: str) -> bool:
    if wish.kind is Kind.MOOD and not wish.concept.cues:
        return not shown_values(Kind.MOOD, text)
    if wish.bounds is not None:
        low, high = wish.bounds
        numbers = wish.number_pattern.finditer(text)
        return any(low <= float(found["number"]) < high for found in numbers)
    return bool(wish.cue_pattern.search(text))


@lru_cache(maxsize=4096)
def wish_for(name: str, value: str) -> Wish:
    """What `value` of the attribute `name` asks for."""
    kind, known = _place(name, value)
    if bounds := _bounds(value):
        said = _said(kind if kind is Kind.TENURE else Kind.OTHER, _in_words(name), "{number}")
        return Wish(name=name, value=value, kind=kind, known=None, concept=said, bounds=bounds)
    if kind is Kind.PRODUCT:
        nouns = PRODUCTS[known].nouns if known else (_in_words(value),)
        cues = (*nouns, *(noun.removeprefix("pair of ") for noun in nouns))
        the = "the " if known else ""
        concept = Concept(
            cues=cues,
            customer=(f"It is about {the}{{product}}.", f"What I mean is {the}{{product}}."),
            agent=(f"So it is about {the}{{product}}.", f"I note {the}{{product}}."),
            note=(f"About {the}{{product}}.", f"Concerns {the}{{product}}."),
        )
    elif known is not None:
        concept = KNOWN[kind][known]
    else:
        concept = _said(kind, _in_words(name), _in_words(value))
    return Wish(name=name, value=value, kind=kind, known=known, concept=concept)


def wishes_for(attributes: Iterable[tuple[str, str]]) -> tuple[Wish, ...]:
    """One wish an attribute, in order."""
    return tuple(wish_for(name, value) for name, value in attributes)


def wish_of(wishes: Iterable[Wish], kind: Kind) -> Wish | None:
    """The first wish of `kind`."""
    return next((wish for wish in wishes if wish.kind is kind), None)


def product_for(wish: Wish | None, known: str) -> Product:
    """The thing that a text is about: the wish's, known or not, or else the known one."""
    if wish is None or wish.known is not None:
        return PRODUCTS[(wish and wish.known) or known]
    return Product(nouns=(_in_words(wish.value),), faults=_ANY_FAULTS, parts=_ANY_PARTS)


def _place(name: str, value: str) -> tuple[Kind, str | None]:
    """The kind of an attribute value, and its name in the simulator's lists."""
    hinted = [
        kind for kind, words in HINTS.items() if any(word in _key(name).split() for word in words)
    ]
    wanted = _key(value)
    names = (wanted, SYNONYMS_OF_VALUES.get(wanted, wanted))
    for kind in hinted or [Kind.PRODUCT, *KNOWN]:
        values = PRODUCTS if kind is Kind.PRODUCT else KNOWN.get(kind, {})
        for known in names:
            if known in values:
                return kind, known
    return (hinted[0] if hinted else Kind.OTHER), None


def _said(kind: Kind, name: str, value: str) -> Concept:
    def filled(templates: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            t.replace("{name}", _plain(name)).replace("{value}", _plain(value)) for t in templates
        )

    customer, agent, note = _SAID.get(kind, _SAID[Kind.OTHER])
    return Concept(
        cues=(_plain(value),), customer=filled(customer), agent=filled(agent), note=filled(note)
    )


def _plain(text: str) -> str:
    """A value that cannot be mistaken for a part of a template."""
    return text if text == "{number}" else re.sub(r"[{}\[\]|]", " ", text).strip()


def _in_words(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


def _key(name: str) -> str:
    return _in_words(name.replace("-", " ")).lower()


def _bounds(value: str) -> tuple[float, float] | None:
    """The ends of a bin as the schema names it, an open one closed at half and at double."""
    found = _BIN.match(value)
    if not found:
        return None
    if found["under"] is not None:
        edge = float(found["under"])
        return (edge / 2 if edge > 0 else edge * 2 - 1, edge)
    low = float(found["low"])
    return (low, float(found["high"]) if found["high"] else max(low * 2, low + 1))
