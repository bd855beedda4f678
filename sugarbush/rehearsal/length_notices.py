"""Reports a requested length that contradicts an attribute: 20 words, and `16 to 20 turns`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.settings import FirstLength

# The fewest words of one unit in a usual text. A contradiction is at least twice as large.
_FEWEST_WORDS = {"word": 1, "sentence": 3, "turn": 3, "message": 3, "line": 2, "paragraph": 15}
_UNIT = re.compile(rf"\b({'|'.join(_FEWEST_WORDS)})s?\b", re.IGNORECASE)
_RANGE = re.compile(r"(?P<low>\d+)(?:\s*(?:to|-|–|—)\s*(?P<high>\d+))?")


def length_notices(length: FirstLength, schema: Schema) -> Iterator[str]:
    """Yield one notice for each attribute with a value that no text of the requested length has.

    A unit is a word of the attribute's name or value: words, sentences, turns, messages, lines or
    paragraphs. The attribute that decides the length itself is left out.

    >>> turns = Attribute(name="turns", values=["1 to 5", "16 to 20"], column="turns")
    >>> list(length_notices(FirstLength(words=20), Schema(subject="calls", attributes=[turns])))
    ["attribute 'turns' has the value '16 to 20', which needs at least 48 words, but prompts \
request at most 20 words (initialise.length.words). Request longer texts, or drop the value"]
    """
    if schema.shape is not None and schema.shape.requested:
        return  # the schema decides the lengths
    if not length.numbers:
        return
    words = length.numbers
    for attribute in schema.attributes:
        if attribute.name == length.attribute:
            continue
        for value in attribute.domain[:-1]:
            if (notice := _contradiction(attribute, value, min(words), max(words))) is not None:
                yield notice
                break


def _contradiction(attribute: Attribute, value: str, least: int, most: int) -> str | None:
    unit = _UNIT.search(value) or _UNIT.search(attribute.name.replace("_", " "))
    counted = _RANGE.search(value)
    if unit is None or counted is None:
        return None
    name = unit[1].lower()
    start = f"attribute '{attribute.name}' has the value '{value}', which"
    setting = "(initialise.length.words)"
    needed = int(counted["low"]) * _FEWEST_WORDS[name]
    if needed >= 2 * most:
        return (
            f"{start} needs at least {needed} words, but prompts request at most {most} words "
            f"{setting}. Request longer texts, or drop the value"
        )
    high = int(counted["high"] or counted["low"])
    if name == "word" and 2 * high <= least:
        return (
            f"{start} allows at most {high} words, but prompts request at least {least} words "
            f"{setting}. Request shorter texts, or drop the value"
        )
    return None
