"""Contains general knowledge of shops: attribute values, and sentences that express the values.

The knowledge is public, from data/*.yaml. A text quotes a value unchanged if these files lack the
value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path

from sugarbush.examples.data_files import items, lines, load_yaml, words
from sugarbush.examples.simulator.utterances import Role

_DATA = Path(__file__).parent / "data"


class AttributeKind(StrEnum):
    """The kinds of attributes."""

    PRODUCT = "product"
    ISSUE = "issue"
    RESOLUTION = "resolution"
    MOOD = "mood"
    CHANNEL = "channel"
    PRIORITY = "priority"
    REGION = "region"
    TENURE = "tenure"
    RATING = "rating"
    DATE = "date"
    COMPANY = "company"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Phrases:
    """Words that show a value in a text, and sentence templates by role that express the value.

    Some roles lack a template for some values.
    """

    cues: tuple[str, ...]
    templates: Mapping[Role, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class ProductWords:
    """Names of a product (the plain name first), names of its faults, and names of its pieces."""

    names: tuple[str, ...]
    faults: tuple[str, ...]
    pieces: tuple[str, ...]


def _phrases(data: Mapping[str, str]) -> Phrases:
    cues = items(data["cues"]) if "cues" in data else ()
    return Phrases(cues=cues, templates={r: lines(data[r]) for r in Role if r in data})


_values = load_yaml(_DATA / "issues.yaml") | load_yaml(_DATA / "values.yaml")
KNOWN_VALUES: dict[AttributeKind, dict[str, Phrases]] = {
    AttributeKind(kind): {value: _phrases(data) for value, data in values.items()}
    for kind, values in _values.items()
}
PRODUCTS = {
    product: ProductWords(**{field: items(text) for field, text in data.items()})
    for product, data in load_yaml(_DATA / "products.yaml").items()
}

_attributes = load_yaml(_DATA / "attributes.yaml")
# The kind of an attribute is the first kind that lists a word of the attribute's name.
NAME_WORDS = {AttributeKind(kind): words(text) for kind, text in _attributes["name_words"].items()}
VALUE_SYNONYMS: dict[str, str] = _attributes["value_synonyms"]
# Templates for unknown values. `{attribute}` stands for the attribute's name.
UNKNOWN_VALUES = {
    AttributeKind(kind): _phrases(data) for kind, data in _attributes["unknown_values"].items()
}
UNKNOWN_PRODUCT = {field: items(text) for field, text in _attributes["unknown_product"].items()}

SPOKEN_CHANNELS = frozenset({"phone", "chat", "social media", "store"})


@cache
def finder(kind: AttributeKind) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern for the known values of `kind`, and a map from matches to values."""
    if kind is AttributeKind.PRODUCT:
        value_by_cue = {name.lower(): value for value, p in PRODUCTS.items() for name in p.names}
        value_by_cue |= {
            name.removeprefix("pair of "): value for name, value in value_by_cue.items()
        }
    else:
        values = KNOWN_VALUES.get(kind, {})
        value_by_cue = {cue: value for value, phrases in values.items() for cue in phrases.cues}
    longest_first = sorted(value_by_cue, key=len, reverse=True)
    alternatives = "|".join(map(re.escape, longest_first)) or r"(?!)"
    return re.compile(rf"\b(?:{alternatives})\b", re.IGNORECASE), value_by_cue


@lru_cache(maxsize=65536)
def shown_values(kind: AttributeKind, text: str) -> tuple[str, ...]:
    """Find the known values of `kind` in a text, in order."""
    pattern, value_by_cue = finder(kind)
    return tuple(value_by_cue[match.group().lower()] for match in pattern.finditer(text))


@cache
def product_mentions() -> re.Pattern[str]:
    """Return a pattern for known products after an article or a similar word.

    The pattern's group `noun` matches the product, and `mention` the brand and the product.
    """
    nouns, _ = finder(AttributeKind.PRODUCT)
    return re.compile(
        r"\b(?:[Tt]he|[Aa]n?|[Mm]y|[Yy]our|[Oo]ur|[Nn]o|[Oo]ne|[Nn]ew) "
        rf"(?P<mention>(?:[A-Z][a-z]+ (?:[a-z]+ )?)?(?P<noun>(?i:{nouns.pattern})))"
    )
