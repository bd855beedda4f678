"""Reads a number in a text, in the notations of spreadsheets, shops and accountants.

    1234.5   1,234.50   1.234,50   1 234,50   1'234.50   $12.50   12 €   EUR 12   (12.00)   12.00-

A point or a comma between at most three digits and exactly three digits has two meanings: 1.234 is
1.234 or 1234. The decimal sign of the column decides (`decimal` of an attribute). Other cells of a
column may show it, such as 12,50; `NotationsOfColumns` collects what they show.

Guarantee: `read_number` reads a text by itself, with public settings.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

POINT, COMMA = ".", ","
OPEN_POINT: Final = "open point"  # 1.234: a decimal sign or one of thousands
OPEN_COMMA: Final = "open comma"
PLAIN: Final = "plain"  # a number without a separator
NO_NUMBER: Final = "no number"

_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-", "\u2019": "'", "\u02bc": "'"})
_CODES = "EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|RON|TRY|BRL|MXN|CAD|AUD|NZD|ZAR"
_CURRENCY = re.compile(rf"(?:{_CODES})(?![A-Za-z])|(?<![A-Za-z])(?:{_CODES})")
_BODY = re.compile(r"[0-9][0-9.,' ]*|[.,][0-9]+")
_EXPONENT = re.compile(r"(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)[eE][+-]?[0-9]+")
_SPACED = re.compile(r"[0-9]{1,3}([ '])[0-9]{3}(?:\1[0-9]{3})*([.,][0-9]+)?")
_TWO_MEANINGS = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")
_GROUPED = {
    POINT: re.compile(r"[1-9][0-9]{0,2}(?:\.[0-9]{3})+"),
    COMMA: re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]?(?:,[0-9]{2})*,[0-9]{3}"),
}
_OTHER = {POINT: COMMA, COMMA: POINT}
_DIGIT = re.compile(r"\d")
_LONGEST: Final = 60  # characters of a number with its currency


class NotANumber(ValueError):
    """A text that is not a number, or not a number with the decimal sign of its column."""


class TwoMeanings(NotANumber):
    """A text with two meanings, which differ in the decimal sign."""


@dataclass(frozen=True)
class _WrittenNumber:
    """The sign, the digits and the notation of a number."""

    sign: int
    digits: str
    notation: str

    def value(self, decimal: str) -> float:
        if "e" in self.digits:
            return self.sign * float(self.digits)
        thousands = _OTHER[decimal]
        whole, mark, rest = self.digits.partition(decimal)
        if thousands in rest or decimal in rest:  # such as 1.234,5.6
            raise NotANumber
        if thousands in whole:
            if not _GROUPED[thousands].fullmatch(whole):
                raise NotANumber
            whole = whole.replace(thousands, "")
        return self.sign * float(f"{whole}.{rest}" if mark else whole)


def read_number(text: str, decimal: str | None = None) -> float:
    """Return the number in a text. Raises NotANumber, which does not quote the text.

    `decimal` is the decimal sign. Without it, the text itself shows the sign; 1.234 has a decimal
    point, as programs write numbers, and 1,234 raises TwoMeanings.

    >>> [read_number(text) for text in ("1.234,50", "1 234,50 €", "($12.00)", "\u22121e3")]
    [1234.5, 1234.5, -12.0, -1000.0]
    >>> read_number("1.234"), read_number("1.234", ","), read_number("1,234", ".")
    (1.234, 1234.0, 1234.0)
    """
    written = _written(text)
    if decimal is not None:
        if written.notation == _OTHER[decimal]:
            raise NotANumber
        return written.value(decimal)
    if written.notation == OPEN_COMMA:
        raise TwoMeanings
    return written.value(COMMA if written.notation == COMMA else POINT)


def notation_of(text: str) -> str:
    """Return the decimal sign that a text shows, OPEN_POINT, OPEN_COMMA, PLAIN or NO_NUMBER.

    >>> [notation_of(text) for text in ("12.5", "1.234,50", "1.234", "7", "lamp")]
    ['.', ',', 'open point', 'plain', 'no number']
    """
    if len(text) > _LONGEST or not _DIGIT.search(text):
        return NO_NUMBER
    try:
        written = _written(text)
        written.value(COMMA if written.notation == COMMA else POINT)
    except NotANumber:
        return NO_NUMBER
    return written.notation


def _written(text: str) -> _WrittenNumber:
    if any(c.isnumeric() and not c.isdecimal() for c in text):  # 10² is not 102
        raise NotANumber
    bare = unicodedata.normalize("NFKC", text).translate(_MINUS).strip()
    sign = 1
    if bare.startswith("(") and bare.endswith(")"):
        sign, bare = -1, bare[1:-1].strip()
    bare, signed = _without_sign(bare)
    bare = _without_currency(bare)
    if not signed:
        bare, signed = _without_sign(bare)
    if signed and sign < 0:
        raise NotANumber
    sign *= signed or 1
    if _EXPONENT.fullmatch(bare):
        notation = next((mark for mark in (POINT, COMMA) if mark in bare), PLAIN)
        return _WrittenNumber(sign, bare.replace(COMMA, POINT).lower(), notation)
    if not _BODY.fullmatch(bare):
        raise NotANumber
    if spaced := _SPACED.fullmatch(bare):
        rest = spaced[2] or ""
        return _WrittenNumber(sign, re.sub(r"[ ']", "", bare), rest[:1] or PLAIN)
    if " " in bare or "'" in bare:
        raise NotANumber
    return _WrittenNumber(sign, bare, _notation(bare))


def _without_sign(text: str) -> tuple[str, int]:
    """Return a text without its sign, and the sign; 0 without one. Some programs write 12.00-."""
    for mark, sign in (("-", -1), ("+", 1)):
        if text.startswith(mark):
            return text[1:].strip(), sign
    return (text[:-1].strip(), -1) if text.endswith("-") and text[-2:-1].isdigit() else (text, 0)


def _without_currency(text: str) -> str:
    """Return a text without one sign or code of a currency before or after the number."""
    if text and unicodedata.category(text[0]) == "Sc":
        return text[1:].strip()
    if text and unicodedata.category(text[-1]) == "Sc":
        return text[:-1].strip()
    found = _CURRENCY.search(text)
    if found is not None and (found.start() == 0 or found.end() == len(text)):
        return (text[: found.start()] + text[found.end() :]).strip()
    return text


def _notation(digits: str) -> str:
    points, commas = digits.count(POINT), digits.count(COMMA)
    if points and commas:
        return POINT if digits.rindex(POINT) > digits.rindex(COMMA) else COMMA
    if not points and not commas:
        return PLAIN
    mark, count = (POINT, points) if points else (COMMA, commas)
    if count > 1:
        return _OTHER[mark]
    if not _TWO_MEANINGS.fullmatch(digits):
        return mark
    return OPEN_POINT if mark == POINT else OPEN_COMMA


@dataclass
class NotationsOfColumns:
    """The number of text cells of each column, by notation. Private: it depends on all rows."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, column: str, cell: object) -> None:
        """Count a cell. Only texts have a notation."""
        if isinstance(cell, str) and cell.strip():
            self.counts.setdefault(column, Counter())[notation_of(cell)] += 1

    def merge(self, other: NotationsOfColumns) -> None:
        for column, counts in other.counts.items():
            self.counts.setdefault(column, Counter()).update(counts)

    def problem(self, column: str) -> str | None:
        """Return why the decimal sign of a column of numbers is not clear, or None if it is clear.

        A cell such as 1.234 has a decimal point if other cells have one and none has a comma.
        """
        counts = self.counts.get(column, Counter())
        has_comma, has_point = counts[COMMA] > 0, counts[POINT] > 0
        if not counts[OPEN_COMMA] and (not counts[OPEN_POINT] or (has_point and not has_comma)):
            return None
        others = {
            (True, True): "Other cells show a decimal comma, and others a decimal point",
            (True, False): "Other cells show a decimal comma",
            (False, True): "Other cells show a decimal point",
            (False, False): "No other cell shows the decimal sign",
        }
        return (
            f"column '{column}' has cells with two meanings, as 1.234 and 1,234 may be 1.234 or "
            f"1234. {others[has_comma, has_point]}"
        )

    def profile_problem(self, column: str) -> str | None:
        """Return why a profile cannot read the numbers of a column, or None.

        A profile reads numbers with a decimal point, and counts all other cells as texts.
        """
        counts = self.counts.get(column, Counter())
        mostly_numbers = 2 * counts[NO_NUMBER] < counts.total()
        return self.problem(column) if counts[OPEN_POINT] and mostly_numbers else None
