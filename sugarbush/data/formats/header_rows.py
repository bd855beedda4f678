"""The rows above the records of a csv file or a sheet: a title, the names, and further header rows.

`prepare.header_rows` is their number. One of them has the names of the columns: the first one with
all columns that the settings name. The others are skipped.

Without the setting, row 1 has the names. `require_one_header_row` then refuses a file that shows
further header rows, so that they do not become records. It never decides how a row is read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from sugarbush.data.cells import is_missing
from sugarbush.errors import InputError

FIRST_ROWS = 20
"""The rows in which `require_one_header_row` looks for header rows."""
_MOST_FURTHER = 4  # header rows below the names
_FEWEST_TYPED = 2  # records with a number or a date in a column
_EXPORTED = re.compile(r'\s*\{\s*"ImportId"')  # the third row of Qualtrics
_OF_CHOICES = {"Response", "Open-Ended Response"}  # the second row of SurveyMonkey
_NUMBER_OR_DATE = re.compile(
    r"[-+(]?\W?\d[\d\s.,:/'_T+-]*(?:[AaPp]\.?[Mm]\.?|Z|UTC|%|\W)?\)?|true|false", re.IGNORECASE
)
_NO_VALUE = {"-", "--", "?", "n/a", "na", "nan", "nil", "none", "null", "unknown", "missing"}

Cells = Sequence[Any]


class HeaderRowsError(InputError):
    """A file that shows `rows` header rows, although one was expected."""

    def __init__(self, message: str, *, rows: int) -> None:
        super().__init__(message)
        self.rows = rows


def names_row(rows: Sequence[Cells], wanted: Collection[str]) -> int:
    """Return the index of the header row with the names: the first one with the most `wanted`
    columns, and then with the most cells that are not empty.

    >>> names_row([["Survey 2026", ""], ["id", "text"], ["ID of the answer", "Why?"]], {"text"})
    1
    """

    def fit(index: int) -> tuple[int, int]:
        names = [_name(cell) for cell in rows[index]]
        return len(set(wanted) & set(names)), len(list(filter(None, names)))

    return max(range(len(rows)), key=fit, default=0)


def header_row(path: object, rows: Sequence[Cells], wanted: Collection[str], setting: str) -> int:
    """Return the index of the header row with the names, as `names_row` does. Raises InputError if
    some `wanted` columns are in another header row only."""
    at = names_row(rows, wanted)
    names = [{_name(cell) for cell in row} for row in rows]
    for column in wanted:
        found = [index for index, row in enumerate(names) if column in row]
        if found and at not in found:
            raise InputError(
                f"{path}: row {found[0] + 1} has the column '{column}', but row {at + 1} has other "
                f"columns that you name. Name all columns as one row has them (setting {setting})"
            )
    return at


def require_one_header_row(
    path: object, rows: Sequence[Cells], wanted: Collection[str], *, setting: str, option: str
) -> None:
    """Raise HeaderRowsError if the first rows of a file show a title or several header rows.

    A title is shown by the columns that the user names: they are in a row below. A further header
    row is shown by the types of the cells: it has words where the rows below have numbers or dates.
    The message contains numbers of rows alone.
    """
    names = names_row(rows, wanted) if wanted else 0
    if not set(wanted) <= {_name(cell) for cell in rows[names]} if rows else True:
        return  # the error about the missing column says more
    further = _further_rows(rows[names], rows[names + 1 :])
    count = names + 1 + further
    if count == 1:
        return
    if not further:
        shown = f"row {count} names the columns"
    elif further == 1:
        shown = f"row {count} looks like a further header row, by the types of its cells"
    else:
        shown = f"rows {names + 2} to {count} look like header rows, by the types of their cells"
    other = names + 1 if further else 1
    raise HeaderRowsError(
        f"{path}: {shown}. If the first record is row {count + 1}, set {option} to {count}; if it "
        f"is row {other + 1}, to {other} (setting {setting})",
        rows=count,
    )


def _name(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _further_rows(names: Cells, below: Sequence[Cells]) -> int:
    """Return the number of header rows below the names."""
    by_types = _rows_of_words(below)
    for number in range(min(_MOST_FURTHER, len(below)), by_types, -1):
        if _is_exported(below[number - 1]) or (number == 1 and _has_choices(names, below[0])):
            return number
    return by_types


def _is_exported(cells: Cells) -> bool:
    filled = [str(cell) for cell in cells if not _is_empty(cell)]
    return bool(filled) and 2 * sum(map(bool, map(_EXPORTED.match, filled))) > len(filled)


def _has_choices(names: Cells, cells: Cells) -> bool:
    """Return whether a row has the choices of questions: names are empty beside a question, and the
    row has `Response` below a question and nothing below the number of the answer."""
    filled = [str(cell).strip() for cell in cells if not _is_empty(cell)]
    return bool(_OF_CHOICES & set(filled)) and len(filled) < len(names)


def _rows_of_words(below: Sequence[Cells]) -> int:
    """Return the number of first rows without a number or a date, in which a column has words that
    has only numbers or dates afterwards."""
    columns = [_typed_from(column) for column in _columns(below)]
    starts = [start for start in columns if start]
    count = max(starts, default=0)
    if count > _MOST_FURTHER or any(_is_typed(c) for cells in below[:count] for c in cells):
        return 0
    return count


def _typed_from(column: Cells) -> int:
    """Return the index from which a column has only numbers and dates, or 0 if no words are above.

    >>> _typed_from(["How many?", "3", "", "4"]), _typed_from(["n/a", "3", "4"])
    (1, 0)
    """
    words = [index for index, cell in enumerate(column) if _is_words(cell)]
    start = words[-1] + 1 if words else 0
    typed = sum(map(_is_typed, column[start:]))
    empty_above = any(_is_empty(cell) or _is_typed(cell) for cell in column[:start])
    return start if typed >= _FEWEST_TYPED and not empty_above else 0


def _columns(rows: Sequence[Cells]) -> list[list[Any]]:
    width = max(map(len, rows), default=0)
    return [[row[at] if at < len(row) else None for row in rows] for at in range(width)]


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and cell.strip().lower() in ("", *_NO_VALUE))


def _is_typed(cell: Any) -> bool:
    if isinstance(cell, str):
        return _NUMBER_OR_DATE.fullmatch(cell.strip()) is not None
    return not is_missing(cell)


def _is_words(cell: Any) -> bool:
    return not (_is_empty(cell) or _is_typed(cell))
