"""Handles the attribute values of a request: expresses them in sentences, and finds them by
patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from sugarbush.examples.simulator.knowledge import (
    KNOWN_VALUES,
    NAME_WORDS,
    PRODUCTS,
    UNKNOWN_PRODUCT,
    UNKNOWN_VALUES,
    VALUE_SYNONYMS,
    AttributeKind,
    Phrases,
    ProductWords,
    shown_values,
)

_BIN = re.compile(
    r"(?:below (?P<under>-?[\d.]+))$"
    r"|(?P<low>-?[\d.]+) (?:to below (?P<high>-?[\d.]+)|and above)$"
)
_TENURE = re.compile(
    r"\b(?:customer|client|member|mbr|with you|with us)\W+(?:\w+\W+){0,2}?(?P<number>\d+)(?= mo)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """One attribute value that a text should show.

    `known` is the value's name in the simulator's lists, or None. `bounds` contains the ends of a
    numeric bin. Targets are compared by identity, because `target_for` returns the same object for
    equal values.
    """

    name: str
    value: str
    kind: AttributeKind
    listed_name: str | None
    phrases: Phrases
    bounds: tuple[float, float] | None = None

    @cached_property
    def cue_pattern(self) -> re.Pattern[str]:
        cues = "|".join(map(re.escape, sorted(self.phrases.cues, key=len, reverse=True)))
        return re.compile(rf"(?<!\w)(?:{cues or '(?!)'})(?!\w)", re.IGNORECASE)

    @cached_property
    def number_pattern(self) -> re.Pattern[str]:
        """A pattern for the number of a numeric attribute, in the group `number`."""
        if self.kind is AttributeKind.TENURE:
            return _TENURE
        name = re.escape(_in_words(self.name))
        return re.compile(rf"\b{name}\W+(?:\w+\W+){{0,3}}?(?P<number>\d+)\b", re.IGNORECASE)

    @property
    def brief(self) -> str:
        """A phrase of two or three words for the value. `{number}` stands for a number."""
        name = _in_words(self.name)
        if self.bounds is not None:
            is_tenure = self.kind is AttributeKind.TENURE
            return "customer for {number} months" if is_tenure else f"{name} {{number}}"
        value = _plain(_in_words(self.value))
        return f"{value} {name}" if self.kind is AttributeKind.PRIORITY else f"{name} {value}"

    def is_shown(self, text: str) -> bool:
        """Return whether `text` shows the value. A text without a mood shows a neutral mood."""
        return _is_shown(self, text)

    def conflicts(self, text: str) -> bool:
        """Return whether `text` shows other known values of this kind, but not this value."""
        if self.kind not in KNOWN_VALUES or self.is_shown(text):
            return False
        return any(value != self.listed_name for value in shown_values(self.kind, text))


@lru_cache(maxsize=65536)
def _is_shown(target: Target, text: str) -> bool:
    if target.kind is AttributeKind.MOOD and not target.phrases.cues:
        return not shown_values(AttributeKind.MOOD, text)
    if target.bounds is not None:
        low, high = target.bounds
        numbers = target.number_pattern.finditer(text)
        return any(low <= float(match["number"]) < high for match in numbers)
    return bool(target.cue_pattern.search(text))


@lru_cache(maxsize=4096)
def target_for(name: str, value: str) -> Target:
    """Return the target for the value `value` of the attribute `name`."""
    kind, listed_name = _recognise(name, value)
    bounds = _bounds(value)
    if bounds:
        listed_name = None
        said_as = kind if kind is AttributeKind.TENURE else AttributeKind.OTHER
        phrases = _quoted(said_as, name, "{number}", cues=("{number}",))
    elif kind is AttributeKind.PRODUCT:
        names = PRODUCTS[listed_name].names if listed_name else (_in_words(value),)
        cues = (*names, *(name.removeprefix("pair of ") for name in names))
        phrases = _quoted(kind, name, value, cues=cues, the="the " if listed_name else "")
    elif listed_name is not None:
        phrases = KNOWN_VALUES[kind][listed_name]
    else:
        quoted = _plain(_in_words(value))
        phrases = _quoted(kind, name, quoted, cues=(quoted,))
    return Target(
        name=name, value=value, kind=kind, listed_name=listed_name, phrases=phrases, bounds=bounds
    )


def first_of_kind(targets: Iterable[Target], kind: AttributeKind) -> Target | None:
    """Return the first target of `kind`."""
    return next((target for target in targets if target.kind is kind), None)


def product_words(target: Target | None, default: str) -> ProductWords:
    """Return the words for the target product, or for the product `default` without a target."""
    if target is not None and target.listed_name is None:
        return ProductWords(names=(_in_words(target.value),), **UNKNOWN_PRODUCT)
    return PRODUCTS[(target and target.listed_name) or default]


def _recognise(name: str, value: str) -> tuple[AttributeKind, str | None]:
    """Return the kind of an attribute value, and its name in the simulator's lists."""
    name_words = _key(name).split()
    by_name = [kind for kind, words in NAME_WORDS.items() if any(w in name_words for w in words)]
    key = _key(value)
    for kind in by_name or [AttributeKind.PRODUCT, *KNOWN_VALUES]:
        values = PRODUCTS if kind is AttributeKind.PRODUCT else KNOWN_VALUES.get(kind, {})
        for listed_name in (key, VALUE_SYNONYMS.get(key, key)):
            if listed_name in values:
                return kind, listed_name
    return (by_name[0] if by_name else AttributeKind.OTHER), None


def _quoted(
    kind: AttributeKind, name: str, value: str, *, cues: tuple[str, ...], the: str = ""
) -> Phrases:
    slots = {"{attribute}": _plain(_in_words(name)), "{value}": value, "{the} ": the}

    def filled(template: str) -> str:
        for slot, text in slots.items():
            template = template.replace(slot, text)
        return template

    templates = UNKNOWN_VALUES.get(kind, UNKNOWN_VALUES[AttributeKind.OTHER]).templates
    return Phrases(cues=cues, templates={r: tuple(map(filled, t)) for r, t in templates.items()})


def _plain(text: str) -> str:
    """Remove brackets and bars from a value, because templates use these characters."""
    return re.sub(r"[{}\[\]|]", " ", text).strip()


def _in_words(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


def _key(name: str) -> str:
    return _in_words(name.replace("-", " ")).lower()


def _bounds(value: str) -> tuple[float, float] | None:
    """Parse the ends of a numeric bin from its label. Return None for other values.

    An open end becomes half or double the other end.
    """
    match = _BIN.match(value)
    if not match:
        return None
    if match["under"] is not None:
        edge = float(match["under"])
        return (edge / 2 if edge > 0 else edge * 2 - 1, edge)
    low = float(match["low"])
    return (low, float(match["high"]) if match["high"] else max(low * 2, low + 1))
