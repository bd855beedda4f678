"""Finds listed values of a schema that no record has, although records have almost the same value.

The result depends on private rows and is not DP. Show it only on the operator's terminal.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sugarbush.data.records import Record
from sugarbush.data.schema import Attribute, Schema


@dataclass(frozen=True, kw_only=True)
class Misspelling:
    """A listed value that no record has, and the most frequent similar value of the records."""

    attribute: str
    listed: str
    found: str
    records: int


def misspellings(records: Iterable[Record], schema: Schema) -> list[Misspelling]:
    """Return the listed values that differ from the values of the records only in spelling."""
    columns = [attribute for attribute in schema.attributes if attribute.column is not None]
    counts: list[Counter[str]] = [Counter() for _ in columns]
    for record in records:
        for value, count in zip(record.raw, counts, strict=True):
            if value is not None:
                count[value] += 1
    return [
        misspelling
        for attribute, count in zip(columns, counts, strict=True)
        for misspelling in _of_attribute(attribute, count)
    ]


def _of_attribute(attribute: Attribute, counts: Counter[str]) -> Iterable[Misspelling]:
    similar: dict[str, list[str]] = {}
    for value, _ in counts.most_common():
        if not attribute.has_value(value):
            similar.setdefault(without_spelling(value), []).append(value)
    for listed in attribute.listed:
        if listed not in counts and (close := similar.get(without_spelling(listed))):
            yield Misspelling(
                attribute=attribute.name,
                listed=listed,
                found=close[0],
                records=sum(counts[value] for value in close),
            )


def without_spelling(value: str) -> str:
    """Return the value without case, spaces, punctuation, Unicode form and plural ending.

    >>> without_spelling(" Mobile-Apps") == without_spelling("mobile app")
    True
    """
    text = unicodedata.normalize("NFKC", value).casefold()
    words = "".join(c if c.isalnum() else " " for c in text).split()
    whole = "".join(words)
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
        if whole.endswith(ending) and len(whole) > len(ending) + 1:
            whole = whole.removesuffix(ending) + singular
            break
    return whole.removesuffix("e")
