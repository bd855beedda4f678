"""Numbers and dates in bins: reads cells, and turns a position in a bin into a value.

Inside this module every value is a number: a date is its ordinal, and a datetime its seconds since
1970 in UTC. A value lies on a grid, so a drawn integer is an integer and a drawn date is a day:

    integer    1            number     10 ** -decimals
    date       one day      datetime   one second

Guarantee: a cell is read by itself, with public settings, so `number_of` may be used per record.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.cells import is_missing, is_number, text_of
from sugarbush.data.numbers import (
    COMMA,
    NO_NUMBER,
    OPEN_POINT,
    POINT,
    NotANumber,
    TwoMeanings,
    notation_of,
    read_number,
)
from sugarbush.languages import folded

Edge = float | date | datetime
Value = int | float | date | datetime

_LARGEST: Final = 2**53  # larger integers are not exact as floats
_MOST_DECIMALS: Final = 9
_STEPS: Final = 100  # the narrowest bin of a `number` has at least as many values
_MONTHS: Final = {
    name: number
    for names in (
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "januar februar märz april mai juni juli august september oktober november dezember",
        "jan feb mär apr mai jun jul aug sept okt nov dez",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "ene feb mar abr may jun jul ago sep oct nov dic",
    )
    for number, name in enumerate(names.split(), start=1)
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE_FORMS = (
    r"(?P<y1>\d{4})(?P<s1>[-/.])(?P<m1>\d{1,2})(?P=s1)(?P<d1>\d{1,2})",
    r"(?P<y2>\d{4})(?P<m2>\d{2})(?P<d2>\d{2})",
    r"(?P<d3>\d{1,2})\.\s?(?P<m3>\d{1,2})\.\s?(?P<y3>\d{4})",
    r"(?P<a>\d{1,2})(?P<s4>[/-])(?P<b>\d{1,2})(?P=s4)(?P<y4>\d{4})",
    rf"(?P<d5>\d{{1,2}})(?:\.|st|nd|rd|th)?[ -](?:de |of )?(?P<n5>{_MONTH})\.?,?[ -]"
    r"(?:de |del )?(?P<y5>\d{4})",
    rf"(?P<n6>{_MONTH})\.? (?P<d6>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y6>\d{{4}})",
)
_DATE = re.compile(rf"(?<![\w.,/-])(?:{'|'.join(_DATE_FORMS)})(?!\d)", re.IGNORECASE)
_DECIMALS_OF_A_DATE = re.compile(r"\.0+")  # 20240131.0, of a column with missing numbers
_TIME = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?\s?(?P<half>[ap]m)?\s?"
    r"(?P<zone>z|utc|gmt|[+-]\d{2}:?(?:\d{2})?)?",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"(?<![\w.,])[+-]?\d+(?:[.,]\d+)*(?![\w])")
_NUMBER_WORDS: Final = {
    word: number
    for words in (
        "two three four five six seven eight nine ten eleven twelve",
        "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "dos tres cuatro cinco seis siete ocho nueve diez once doce",
    )
    for number, word in enumerate(words.split(), start=2)
}
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b", re.IGNORECASE)

NO_DATE: Final = "is no date. Write 2024-01-31, or set `format` of the attribute"
TWO_DATES: Final = (
    "may be read as two dates, because day and month are both at most 12. Write 2024-01-31, or set "
    "`format` of the attribute, such as '%d/%m/%Y'"
)
TWO_NUMBERS: Final = (
    "may be read as two numbers, as 1,234 and 1.234 may. Set `decimal` of the attribute to the "
    "decimal sign of the column"
)
OTHER_SIGN: Final = "is no number with the decimal sign in `decimal` of the attribute"


class Kind(StrEnum):
    """What a value is."""

    INTEGER = "integer"
    NUMBER = "number"
    DATE = "date"
    DATETIME = "datetime"

    @property
    def is_time(self) -> bool:
        return self in {Kind.DATE, Kind.DATETIME}


class CellError(ValueError):
    """A cell that has no value of its kind. The message does not quote the cell."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """The bins of an attribute with numbers or dates, from `low` to `high`.

    A bin is [edge, next edge); the last bin contains `high`. A value outside the span is in the
    first or the last bin. `zoned` states whether the edges have a time zone.

    >>> stars = Quantity(kind=Kind.INTEGER, edges=(2, 4), low=1, high=5)
    >>> stars.number_of("3"), [stars.drawn(1, share) for share in (0.1, 0.9)]
    (3.0, [2.0, 3.0])
    """

    kind: Kind
    edges: tuple[float, ...]
    low: float
    high: float
    decimals: int = 0
    format: str | None = None
    zoned: bool = False
    decimal: str | None = None

    def number_of(self, cell: object) -> float | None:
        """Return the value of a cell as a number, or None for a missing value.

        Raises CellError, which says what is wrong and does not quote the cell.
        """
        if self.kind.is_time:
            return self._time_of(cell)
        number = number_in(cell, self.decimal)
        if number is None:
            return None
        if math.isinf(number):
            raise CellError("is infinite")
        if abs(number) >= _LARGEST:
            raise CellError("is too large for an exact number")
        if self.kind is Kind.INTEGER and not number.is_integer():
            two = self.decimal is None and isinstance(cell, str) and notation_of(cell) == OPEN_POINT
            raise CellError(TWO_NUMBERS if two else "is no whole number")
        return number

    def text_of(self, cell: object) -> str | None:
        """Return a text that `number_of` reads as it reads the cell."""
        if self.format is not None and isinstance(cell, date) and not is_missing(cell):
            return cell.strftime(self.format.replace("%Y", f"{cell.year:04}"))
        return text_of(cell) if self.kind.is_time else text_of_number(cell, self.decimal)

    def _time_of(self, cell: object) -> float | None:
        if is_missing(cell):
            return None
        if isinstance(cell, datetime):
            return self._of_datetime(cell)
        if isinstance(cell, date):
            return self._of_datetime(datetime(cell.year, cell.month, cell.day))
        text = (text_of(cell) or "").strip()
        if not text or text.casefold() in {"nat", "nan"}:
            return None
        if self.format is None:
            return self._of_datetime(datetime_in(text))
        try:
            return self._of_datetime(datetime.strptime(text, self.format))
        except ValueError as error:
            if isinstance(error, CellError):
                raise
            raise CellError(f"does not have the format {self.format}") from None

    def _of_datetime(self, moment: datetime) -> float:
        if self.kind is Kind.DATE:
            return float(moment.date().toordinal())
        if (moment.tzinfo is not None) != self.zoned:
            raise CellError(
                "has no time zone, but `bins` have one. Write the offset, such as +00:00"
                if self.zoned
                else "has a time zone, but `bins` have none. Write `bins` with an offset, such as "
                "2024-01-01T00:00:00Z"
            )
        return seconds_of(moment)

    @cached_property
    def _scale(self) -> int:
        return int(10**self.decimals) if self.kind is Kind.NUMBER else 1

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The first and the last point of the grid in each bin. An empty bin has last < first."""
        ends = (self.low, *self.edges, self.high)
        grid = [math.ceil(round(end * self._scale, 6)) for end in ends]
        last = math.floor(round(self.high * self._scale, 6))
        return (*((a, b - 1) for a, b in itertools.pairwise(grid[:-1])), (grid[-2], last))

    def drawn(self, code: int, share: float) -> float:
        """Return the value of bin `code` at the position `share`, in [0, 1). All values of the bin
        are equally likely for a uniform `share`."""
        first, last = self.ranges[code]
        point = first + int(share * (last - first + 1))
        return min(point, last) / self._scale

    def draw(self, codes: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a value for each code, (n,). NaN for a code that is no bin."""
        ranges = np.array([*self.ranges, (0, 0), (0, 0)], dtype=np.int64)
        first, last = ranges[codes].T  # code -1 and the bucket have the last rows
        points = np.minimum(first + np.floor(shares * (last - first + 1)), last)
        inside = (codes >= 0) & (codes < len(self.ranges))
        return np.where(inside, points / self._scale, np.nan)

    def on_grid(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest points of the grid."""
        return np.asarray(np.round(numbers * self._scale) / self._scale)

    def contains(self, codes: NDArray[np.int64], numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each number is in the bin with its code, and inside the span."""
        bins = np.searchsorted(np.asarray(self.edges), numbers, side="right")
        return np.asarray((bins == codes) & (numbers >= self.low) & (numbers <= self.high))

    def value(self, number: float) -> Value:
        """Return a number as a value: an int, a float, a date or a datetime."""
        if self.kind is Kind.INTEGER:
            return round(number)
        if self.kind is Kind.NUMBER:
            return round(number, self.decimals)
        if self.kind is Kind.DATE:
            return date.fromordinal(round(number))
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=round(number))
        return moment if self.zoned else moment.replace(tzinfo=None)

    def spelled(self, number: float) -> str:
        """Return a number as prompts and files show it. Dates are in ISO form."""
        if self.kind is Kind.NUMBER:
            return f"{number:.{self.decimals}f}" if self.decimals <= 2 else repr(self.value(number))
        value = self.value(number)
        return value.isoformat() if isinstance(value, date) else str(value)

    def labels(self) -> tuple[str, ...]:
        """Return the names of the bins."""
        texts = [self._edge_text(edge) for edge in self.edges]
        before, after = ("before", "later") if self.kind.is_time else ("below", "above")
        between = [f"{a} to {before} {b}" for a, b in itertools.pairwise(texts)]
        return (f"{before} {texts[0]}", *between, f"{texts[-1]} and {after}")

    def _edge_text(self, edge: float) -> str:
        return self.spelled(edge) if self.kind.is_time else number_text(edge)

    def numbers_in(self, text: str) -> list[float]:
        """Return the different values of the kind that a text has, in their order."""
        return list(dict.fromkeys(self._numbers_in(text)))

    def _numbers_in(self, text: str) -> Iterator[float]:
        if self.kind is Kind.DATE:
            for match in _DATE.finditer(text):
                try:
                    yield float(_date_of(match).toordinal())
                except ValueError:
                    continue
        if self.kind.is_time:
            return
        for match in _IN_TEXT.finditer(text):
            try:
                number = number_in(match.group(), self.decimal)
            except CellError:
                continue
            if number is not None and (self.kind is Kind.NUMBER or number.is_integer()):
                yield number
        if self.kind is Kind.INTEGER:
            for match in _NUMBER_WORD.finditer(text):
                yield float(_NUMBER_WORDS[folded(match.group())])


def kind_of(edges: tuple[Edge, ...]) -> Kind | None:
    """Return the kind that the edges show: a date or a datetime. Numbers show none."""
    if any(isinstance(edge, datetime) for edge in edges):
        return Kind.DATETIME
    return Kind.DATE if any(isinstance(edge, date) for edge in edges) else None


def as_edge(value: object) -> object:
    """Convert a text of an edge to a number, a date or a datetime. Other values do not change."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        pass
    try:
        moment = datetime_in(value.strip())
    except CellError:
        return value
    return moment if ":" in value else moment.date()


def number_of_edge(edge: Edge, kind: Kind | None) -> float:
    """Return an edge as a number."""
    if isinstance(edge, date) and kind is Kind.DATE:
        return float(edge.toordinal())
    if isinstance(edge, datetime):
        return seconds_of(edge)
    if isinstance(edge, date):
        return seconds_of(datetime(edge.year, edge.month, edge.day))
    return float(edge)


def decimals_for(bounds: tuple[float, ...]) -> int:
    """Return how many decimals the values of a `number` have: at least 2, and so many that the
    narrowest bin has 100 values.

    >>> decimals_for((0, 10, 50)), decimals_for((0, 0.1, 1))
    (2, 3)
    """
    narrowest = min(b - a for a, b in itertools.pairwise(bounds))
    needed = math.ceil(math.log10(_STEPS / narrowest) - 1e-9) if narrowest > 0 else 2
    return min(max(2, needed), _MOST_DECIMALS)


def seconds_of(moment: datetime) -> float:
    """Return the seconds since 1970 in UTC. A datetime without a time zone counts as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return float(math.floor(aware.timestamp()))


def number_text(number: float) -> str:
    """Return a number without a needless decimal point.

    >>> number_text(2.0), number_text(1234567.0), number_text(0.5)
    ('2', '1234567', '0.5')
    """
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def text_of_number(cell: object, decimal: str | None = None) -> str | None:
    """Return a text that `number_in` reads as it reads the cell."""
    text = text_of(cell)
    is_comma = decimal == COMMA and text is not None and is_number(cell)
    return text.replace(POINT, COMMA) if is_comma and text else text


def number_in(cell: object, decimal: str | None = None) -> float | None:
    """Return the number in a cell, or None for a missing value. Raises CellError.

    `decimal` is the decimal sign of texts (`sugarbush.data.numbers`).
    """
    text = (text_of(cell) or "").strip()
    if not text or text.casefold() == "nan":
        return None
    if text.casefold().lstrip("+-") in {"inf", "infinity"}:
        return float(text)
    if is_number(cell):
        return _finite(float(text))
    try:
        return _finite(read_number(text, decimal))
    except TwoMeanings:
        raise CellError(TWO_NUMBERS) from None
    except NotANumber:
        other = decimal is not None and notation_of(text) != NO_NUMBER
        raise CellError(OTHER_SIGN if other else "is no number") from None


def _finite(number: float) -> float:
    if math.isinf(number):
        raise CellError("is too large for an exact number")
    return number


def datetime_in(text: str) -> datetime:
    """Return the date or time in a text. Raises CellError, also for a text with two meanings."""
    match = _DATE.match(text)
    if match is None:
        raise CellError(NO_DATE)
    try:
        day = _date_of(match)
    except CellError:
        raise
    except ValueError:
        raise CellError(NO_DATE) from None
    rest = text[match.end() :].strip(" T,")
    if not rest or (match["y2"] and _DECIMALS_OF_A_DATE.fullmatch(rest)):
        return datetime(day.year, day.month, day.day)
    time = _TIME.fullmatch(rest)
    if time is None:
        raise CellError(NO_DATE)
    hour = int(time["hour"])
    if time["half"]:
        hour = hour % 12 + (12 if time["half"].lower() == "pm" else 0)
    try:
        return datetime(
            day.year, day.month, day.day, hour, int(time["minute"]), int(time["second"] or 0),
            tzinfo=_zone_of(time["zone"]),
        )  # fmt: skip
    except ValueError:
        raise CellError(NO_DATE) from None


def _date_of(match: re.Match[str]) -> date:
    """Return the date of a match. Raises CellError for a date that may be read in two ways."""
    found = {name: text for name, text in match.groupdict().items() if text is not None}
    year = int(next(text for name, text in found.items() if name[0] == "y"))
    if "a" in found:
        first, second = int(found["a"]), int(found["b"])
        if first != second and max(first, second) <= 12:
            raise CellError(TWO_DATES)
        day, month = (first, second) if first > 12 or first == second else (second, first)
        return date(year, month, day)
    day = int(next(text for name, text in found.items() if name[0] == "d"))
    named = next((text for name, text in found.items() if name[0] == "n"), None)
    if named is not None:
        return date(year, _MONTHS[folded(named)], day)
    return date(year, int(next(text for name, text in found.items() if name[0] == "m")), day)


def _zone_of(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(offset if text[0] == "+" else -offset)
