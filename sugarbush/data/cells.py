"""The one rule that turns a cell into text, and finds the listed value that the cell has.

The profile, the schema, the records of every format, donated columns, `dp_table` and
`private_histogram` use this rule. So a value that one of them names matches in all others.

1. A text keeps every character: 007, 250.00 and 250.0 are three codes.
2. The spelling of a number does not matter. 5, 5.0 and Decimal('5.00') become '5'; True becomes
   'true'; a datetime at midnight without a time zone becomes its date. A category, an enumeration
   and UTF-8 bytes become the text that they contain.
3. A cell has a listed value if their texts are equal, apart from surplus spaces. Otherwise it has
   the only listed value
     - with the same number, if the cell is a number and no text, or if all listed values are plain
       numbers and no two are equal (then '5.0' is 5);
     - with the same date or time in ISO form;
     - that differs only in case, spaces or Unicode form.

Guarantee: each function reads one cell by itself, and public values.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)

_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_OF_PROGRAMS = re.compile(r"-?[0-9](?:\.[0-9]+)?[eE][+-][0-9]{2,3}")  # 1e-07, as repr writes it
_WHOLE_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.0")
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6}0{0,3})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
)
_SHORT_FLOATS: Final[dict[str, Any]] = {
    "float": np.float32,  # as Arrow names it
    "float32": np.float32,
    "halffloat": np.float16,
    "float16": np.float16,
}
_EXACT_AS_FLOAT: Final = 2**53
_MOST_DIGITS: Final = 10**16  # a larger float is written with an exponent


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, or a missing number or date of pandas."""
    if value is None or isinstance(value, str):
        return value is None
    if isinstance(value, Decimal):  # pandas cannot compare a signalling NaN
        return value.is_nan()
    import pandas as pd  # a slow import, which texts do not need

    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def may_be_rounded(cell: Any) -> bool:
    """Return whether a number may be rounded.

    If one record has no value, a column of integers is read as floats. This record would then
    change the ids of other records, or with `bad_rows: drop` remove other records. Therefore a
    rounded id is always an error.
    """
    return isinstance(cell, float) and abs(cell) >= _EXACT_AS_FLOAT


def text_of(cell: Any) -> str | None:
    """Return the text of a cell; None for a missing value and for a text without characters.

    >>> [text_of(cell) for cell in ("250.00", 250.0, Decimal("9.90"), True, b"lamp", " ")]
    ['250.00', '250', '9.9', 'true', 'lamp', None]
    >>> text_of(datetime(2024, 5, 1)), text_of(datetime(2024, 5, 1, 8, 30))
    ('2024-05-01', '2024-05-01 08:30:00')
    """
    if type(cell) is str:
        return None if not cell or cell.isspace() else cell
    if is_missing(cell):
        return None
    text = next((text for kind, text in _TEXTS if isinstance(cell, kind)), str)
    return text(cell)


def is_number(cell: Any) -> bool:
    """Return whether a cell is a number and no text. A boolean or a missing value is not a
    number.
    """
    others = bool | np.bool_ | np.timedelta64 | Enum
    is_real = isinstance(cell, Real | Decimal) and not isinstance(cell, others)
    return is_real and not is_missing(cell)


def cells_of(column: Any) -> list[Any]:
    """Return the cells of a column of pandas, numpy or Arrow, or of any other sequence. A missing
    value of pandas or numpy is None.

    A number in single precision is the decimal number that it is written as, such as 0.1.
    """
    import pandas as pd

    if hasattr(column, "to_pylist"):  # Arrow
        return single_precision(column.to_pylist(), str(column.type))
    if hasattr(column, "to_list") and not hasattr(column, "dtype"):
        return list(column.to_list())
    if isinstance(column, np.ndarray | pd.Index | pd.api.extensions.ExtensionArray):
        column = pd.Series(column)
    if not isinstance(column, pd.Series):
        return list(column.to_list() if hasattr(column, "to_list") else column)
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        categories = cells_of(kind.categories)
        return [None if code < 0 else categories[code] for code in column.cat.codes]
    cells = single_precision(column.astype(object).tolist(), str(kind))
    return [None if is_missing(cell) else cell for cell in cells]


def single_precision(cells: list[Any], kind: str) -> list[Any]:
    """Return cells of the type `kind`. A float of fewer than 64 bits is the shortest decimal number
    that is this float. Programs write it in this form to a csv file."""
    name = re.sub(r"[^a-z0-9]|pyarrow", "", kind.lower())
    width = _SHORT_FLOATS.get(name)
    if width is None:
        return cells
    return [cell if is_missing(cell) else float(str(width(cell))) for cell in cells]


def is_half(text: str) -> bool:
    """Return whether a text has half a surrogate pair, which UTF-8 cannot encode."""
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def same_text(text: str) -> str:
    """Return a text without surplus spaces. Equal results are the same value."""
    return " ".join(text.split())


def canonical(cell: Any) -> str | None:
    """Return the same text for a cell of every file format.

    A csv file contains a float, a boolean or a time as text: 4.0, True and 2024-05-01 00:00:00. A
    text in such a form becomes the text of the value. Other texts do not change.

    >>> [canonical(cell) for cell in ("4.0", 4, "True", "250.00", "2024-05-01T08:30:00.000")]
    ['4', '4', 'true', '250.00', '2024-05-01 08:30:00']
    """
    if (text := text_of(cell)) is None:
        return None
    text = same_text(text)
    if text in {"True", "False", "TRUE", "FALSE"}:
        return text.lower()
    if _WHOLE_FLOAT.fullmatch(text):
        return "0" if text == "-0.0" else text.removesuffix(".0")
    if _OF_PROGRAMS.fullmatch(text):
        return text_of(float(text))
    if (moment := _moment_in(text)) is not None:
        return text_of(moment if moment.tzinfo is None else moment.astimezone(UTC))
    return text


def typed_number(text: str) -> int | float | None:
    """Return the number that is written exactly as `text`, or None.

    >>> [typed_number(text) for text in ("4", "4.0", "2.5", "9.90", "007", "1E3")]
    [4, 4.0, 2.5, None, None, None]
    """
    for kind in (int, float):
        try:
            number = kind(text)
        except (ValueError, OverflowError):
            continue
        if abs(number) < _EXACT_AS_FLOAT and str(number) == text and text != "-0.0":
            return number
    return None


def plain_number(text: str) -> Decimal | None:
    """Return the number in a text without leading zeros, plus sign, or exponent, or None.

    >>> plain_number("9.90") == plain_number("9.9"), plain_number("007"), plain_number("1E3")
    (True, None, None)
    """
    return Decimal(text) if _PLAIN.fullmatch(text) else None


@dataclass(frozen=True)
class Listing:
    """Listed values of a column, all different.

    >>> prices = Listing(("9.90", "19.90"))
    >>> [prices.place(cell) for cell in ("9.90", 9.9, "9.9", "19,90", None)]
    [0, 0, 0, None, None]
    >>> codes = Listing(("250.0", "250.00"))
    >>> [codes.place(cell) for cell in ("250.00", "250.0", "250.000")]
    [1, 0, None]
    """

    values: tuple[str, ...]

    @cached_property
    def repeated(self) -> tuple[str, ...]:
        """The values that an earlier value equals, apart from surplus spaces."""
        first = {same_text(value): at for at, value in reversed([*enumerate(self.values)])}
        return tuple(v for at, v in enumerate(self.values) if first[same_text(v)] != at)

    @cached_property
    def is_numeric(self) -> bool:
        """Whether all values are plain numbers and no two are equal."""
        numbers = [plain_number(same_text(value)) for value in self.values]
        return bool(numbers) and None not in numbers and len(set(numbers)) == len(numbers)

    def place(self, cell: Any) -> int | None:
        """Return the index of the listed value that a cell has, or None."""
        text = text_of(cell)
        if text is None:
            return None
        text = same_text(text)
        if (place := self._exact.get(text)) is not None:
            return place
        if self._numbers and (self.is_numeric or is_number(cell)):
            number = plain_number(text)
            if number is None and _OF_PROGRAMS.fullmatch(text):
                number = Decimal(text)
            if number is not None:
                return self._numbers.get(number)
        if self._moments and (moment := _moment_in(text)) is not None:
            return self._moments.get(moment)
        return self._loose.get(_loose(text))

    @cached_property
    def _exact(self) -> dict[str, int]:
        return {same_text(v): at for at, v in reversed([*enumerate(self.values)])}

    @cached_property
    def _numbers(self) -> dict[Decimal, int]:
        return _unique((plain_number(same_text(value)), at) for at, value in enumerate(self.values))

    @cached_property
    def _moments(self) -> dict[datetime, int]:
        return _unique((_moment_in(same_text(value)), at) for at, value in enumerate(self.values))

    @cached_property
    def _loose(self) -> dict[str, int]:
        return _unique((_loose(value), at) for at, value in enumerate(self.values))


def _unique(pairs: Iterable[tuple[Key | None, int]]) -> dict[Key, int]:
    """Return the places of the keys that only one value has."""
    places: dict[Key, list[int]] = {}
    for key, place in pairs:
        if key is not None:
            places.setdefault(key, []).append(place)
    return {key: found[0] for key, found in places.items() if len(found) == 1}


def _loose(text: str) -> str:
    return unicodedata.normalize("NFC", same_text(unicodedata.normalize("NFC", text)).casefold())


def _text_of_member(member: Enum) -> str | None:
    """Return the text of a member of an enumeration: its value if it is a text, a number of
    IntEnum, or else its name."""
    is_value = isinstance(member.value, str) or isinstance(member, int | float)
    return text_of(member.value if is_value else member.name)


def _text_of_bytes(cell: bytes) -> str | None:
    try:
        return text_of(bytes(cell).decode("utf-8"))
    except UnicodeDecodeError:
        return bytes(cell).hex()


def _text_of_decimal(cell: Decimal) -> str:
    digits = f"{cell:f}"
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits == "-0" else digits


def _text_of_float(cell: Any) -> str:
    number = float(str(cell) if isinstance(cell, np.floating) else cell)
    if number.is_integer() and abs(number) < _MOST_DIGITS:
        return str(int(number))
    return repr(number)


def _text_of_duration(cell: timedelta | np.timedelta64) -> str:
    import pandas as pd

    return str(pd.Timedelta(cell))


def _text_of_numpy_date(cell: np.datetime64) -> str | None:
    import pandas as pd

    return text_of(pd.Timestamp(cell))


def _text_of_datetime(cell: datetime) -> str:
    is_day = cell.tzinfo is None and cell.time() == time.min and not getattr(cell, "nanosecond", 0)
    return str(cell.date() if is_day else cell)


# The first type of a cell decides.
_TEXTS: Final[tuple[tuple[Any, Callable[[Any], str | None]], ...]] = (
    (Enum, _text_of_member),
    (str, lambda cell: text_of(str.__str__(cell))),
    ((bytes, bytearray, memoryview), _text_of_bytes),
    ((bool, np.bool_), lambda cell: "true" if cell else "false"),
    (Decimal, _text_of_decimal),
    ((timedelta, np.timedelta64), _text_of_duration),
    (Integral, lambda cell: str(int(cell))),
    (Real, _text_of_float),
    (np.datetime64, _text_of_numpy_date),
    (np.ndarray, lambda cell: str(cell.tolist())),
    (datetime, _text_of_datetime),
)


def _moment_in(text: str) -> datetime | None:
    """Return the date or time that a text in ISO form contains, or None."""
    if not _MOMENT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
