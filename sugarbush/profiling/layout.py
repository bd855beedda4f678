"""The histograms of a profile, and the kinds of cells in a table.

A record is in at most one bin of each histogram. All bins of a group of histograms are numbered one
after another, so that one mechanism draws the whole group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.cells import same_text
from sugarbush.data.shapes.interface import Shape
from sugarbush.profiling.bins import LENGTHS, NUMBERS, RECORDS, YEARS
from sugarbush.profiling.style import LANGUAGES, RULES

MEASURES: Final = ("characters", "words", "sentences", "turns")
EMPTY, TEXT, NESTED, DATE = "empty", "text", "nested", "date"
INTEGER, NUMBER = "integer", "number"  # whole numbers, and other numbers
COMPACT_DATE = "compact date"  # a whole number that is a date, such as 20240131
KINDS: Final = (EMPTY, TEXT, NESTED, DATE, INTEGER, NUMBER, COMPACT_DATE)
NUMERIC: Final = (INTEGER, NUMBER, COMPACT_DATE)
LONGEST_VALUE: Final = 80  # characters; a longer cell is a text and no value
_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?", re.DOTALL)
# An exponent has a sign and two digits, as programs write it: 1E3 and 2E5 are codes.
_NUMBER = re.compile(r"[+-]?(?:\d{1,15}(?:\.\d{0,25})?|\.\d{1,25})(?:[eE][+-]\d{2})?")
NO_CELL: Final = -1
TERM_WORDS, TERM_PHRASES = 12, 6  # of one record
TERMS_OF_RECORD: Final = TERM_WORDS + TERM_PHRASES
_BETWEEN: Final = "\x1f"


@dataclass(frozen=True)
class Histogram:
    """`size` numbered bins. The first bin is the cell `start` of its group."""

    name: str
    start: int
    size: int

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of this histogram from the counts of its group."""
        return counts[self.start : self.start + self.size]


@dataclass(frozen=True)
class Group:
    """Histograms that one mechanism draws. A record is in at most `cells` cells."""

    histograms: tuple[Histogram, ...]
    cells: int

    @property
    def size(self) -> int:
        return sum(histogram.size for histogram in self.histograms)

    def __getitem__(self, name: str) -> Histogram:
        return next(each for each in self.histograms if each.name == name)


def _group(sizes: Iterable[tuple[str, int]], *, cells: int) -> Group:
    histograms, start = [], 0
    for name, size in sizes:
        histograms.append(Histogram(name, start, size))
        start += size
    return Group(tuple(histograms), cells)


def measures_of(shape: Shape | None) -> tuple[str, ...]:
    """Return the lengths of a text that a profile counts, each in a histogram."""
    others = () if shape is None else shape.measures
    return (*MEASURES, *(name for name in others if name not in MEASURES))


def sizes_group(*, by_user: bool, measures: Sequence[str] = MEASURES) -> Group:
    """The number of records, the lengths of texts and, for users, the number of their records."""
    named = [("records", 1), *((measure, LENGTHS.size) for measure in measures)]
    if by_user:
        named.append(("records per user", RECORDS.size))
    return _group(named, cells=len(named))


def style_group() -> Group:
    """The rules of `style`, each with one cell, and the languages."""
    named = [*((rule, 1) for rule in RULES), ("language", len(LANGUAGES))]
    return _group(named, cells=len(named))


def columns_group(columns: Sequence[str]) -> Group:
    """The kind of each column's cells, the bins of numbers, and the years of dates.

    A record has one kind. A number also has a bin, and a date has a year.
    """
    per_column = (("kind", len(KINDS)), ("number", NUMBERS.size), ("year", YEARS.size))
    named = [(item_of(column, what), size) for column in columns for what, size in per_column]
    return _group(named, cells=2 * len(columns))


def column_histogram(group: Group, column: str, what: str) -> Histogram:
    """Return the histogram of `columns_group` for `kind`, `number` or `year`."""
    return group[item_of(column, what)]


def kind_of(value: str | None) -> str | float | date:
    """Return the number or date in a cell, else EMPTY, TEXT or NESTED. Other dates are texts.

    A number with leading zeros is a code, such as 02139, and a text.

    >>> [kind_of(value) for value in ("4", "-2.50", " ", "red", "007", "[1, 2]", None)]
    [4.0, -2.5, 'empty', 'text', 'text', 'nested', 'empty']
    >>> kind_of("2024-02-29 12:30")
    datetime.date(2024, 2, 29)
    """
    text = "" if value is None else value.strip()
    if not text:
        return EMPTY
    if _NUMBER.fullmatch(text) and not _is_code(text):
        return float(text)
    if (iso := _ISO.fullmatch(text)) is not None:
        try:
            return date(*map(int, iso.groups()))
        except ValueError:
            return TEXT
    return NESTED if text[0] in "[{" else TEXT


def kind_of_number(number: float) -> str:
    """Return INTEGER, NUMBER or COMPACT_DATE.

    >>> [kind_of_number(number) for number in (7.0, 7.5, 20240229.0, 20230229.0)]
    ['integer', 'number', 'compact date', 'integer']
    """
    if not number.is_integer():
        return NUMBER
    return INTEGER if day_of_number(number) is None else COMPACT_DATE


def day_of_number(number: float) -> int | None:
    """Return the ordinal of the date that a number such as 20240131 is, or None.

    Only years of `bins.YEARS` count, because any number of eight digits looks like a year.

    >>> date.fromordinal(day_of_number(20240131.0)), day_of_number(20241301.0)
    (datetime.date(2024, 1, 31), None)
    """
    first, last = YEARS.edges[0], YEARS.edges[-1]
    if not (number.is_integer() and 10_000 * first <= number < 10_000 * (last + 1)):
        return None
    year, rest = divmod(int(number), 10_000)
    try:
        return date(year, *divmod(rest, 100)).toordinal()
    except ValueError:
        return None


def value_of(value: str | None) -> str | None:
    """Return the categorical value in a cell, or None if the cell has none.

    A value keeps its characters, because a code may look like a number. Dates, lists, and texts
    that are long or have several lines are no values. A text with a control character or half a
    character is none, either.

    >>> [value_of(cell) for cell in ("Red ", "3.0", "2024-02-29", "[1]", "a\\nb", "x" * 81)]
    ['Red', '3.0', None, None, None, None]
    """
    found = kind_of(value)
    if value is None or not (found == TEXT or isinstance(found, float)):
        return None
    text = same_text(value)
    is_one_line = "\n" not in value.strip() and text.isprintable()
    return text if len(text) <= LONGEST_VALUE and is_one_line else None


def _is_code(text: str) -> bool:
    return len(text) > 1 and text.startswith("0") and text.isdigit()


def item_of(first: str, second: str) -> str:
    """Return one text for a pair, such as a column and its value. `pair_of` inverts it."""
    return f"{first}{_BETWEEN}{second}"


def pair_of(item: str) -> tuple[str, str]:
    """Return the pair of an item.

    >>> pair_of(item_of("color", "red"))
    ('color', 'red')
    """
    first, _, second = item.partition(_BETWEEN)
    return first, second
