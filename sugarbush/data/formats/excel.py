"""Reads xlsx workbooks, row by row. Needs the extra `xlsx`.

A cell with a formula has the value that the spreadsheet program stored last. A cell with an error,
such as #N/A, has no value. Of merged cells, the first one has the value. The others are not filled,
because otherwise a record would depend on the row above.

A workbook stores its different texts in one part. These texts are in memory, but the rows are not.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar

from sugarbush.data.formats.header_rows import Cells, header_row, names_row
from sugarbush.data.formats.interface import Format
from sugarbush.data.formats.rows import (
    BATCH_ROWS,
    WHOLE,
    Reading,
    Row,
    Span,
    require_columns,
)
from sugarbush.data.remote import File
from sugarbush.errors import InputError, UsageError
from sugarbush.extras import require_extra

_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # ECMA-376, type ST_Xstring
_ROUNDED = 10**15  # spreadsheets keep 15 digits of a number
_MOST_ROWS = 2**20  # of a sheet


class Workbook(Format[File]):
    """One sheet of an xlsx workbook."""

    extra: ClassVar[str | None] = "xlsx"
    header_is_row_1: ClassVar[bool] = True

    def names(self, path: File, reading: Reading) -> Sequence[str]:
        """Return the header of the sheet that `rows` reads."""
        with _workbook(path, reading.setting) as workbook:
            sheet = _sheet(path, workbook, reading)
            return [name for name in _header(sheet, reading, path)[0] if name]

    def first_rows(self, path: File, reading: Reading, most: int) -> Sequence[Cells]:
        with _workbook(path, reading.setting) as workbook:
            return _first_rows(_sheet(path, workbook, reading, within=most), most)

    def rows(self, path: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the rows of one sheet. Header rows and empty rows count.

        The sheet is the one in `prepare.table`. Without this setting, it is the only visible sheet
        with the required columns.
        """
        setting, wanted = reading.setting, reading.wanted
        with _workbook(path, setting) as workbook:
            sheet = _sheet(path, workbook, reading)
            header, at = _header(sheet, reading, path)
            require_columns(path, wanted, header)
            if any(header.count(name) > 1 for name in wanted):
                raise InputError(f"{path}, row {at + 1}: names a column twice (setting {setting})")
            for number, cells in enumerate(_cells(sheet), start=1):
                if number > _MOST_ROWS:
                    raise ValueError("the number of a row is too large")
                values = list(map(_value, cells))
                if number <= reading.header_rows or all(value is None for value in values):
                    continue
                values += [None] * (len(header) - len(values))
                fields = {name: value for name, value in zip(header, values, strict=False) if name}
                for name in wanted:
                    if _is_rounded(fields[name]):
                        raise InputError(
                            f"{path}, row {number}: column '{name}' has a number of more than 15 "
                            "digits, and spreadsheets round such numbers. Format the column as "
                            f"text, and enter the numbers again (setting {setting})"
                        )
                yield Row(number, fields)


@contextmanager
def _workbook(path: File, setting: str) -> Iterator[Any]:
    """Open a workbook for a block. Any error of openpyxl becomes an InputError."""
    require_extra("xlsx")
    with path.open("rb") as file:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from openpyxl import load_workbook

                workbook = load_workbook(file, read_only=True, data_only=True, keep_links=False)
            try:
                yield workbook
            finally:
                workbook.close()
        except UsageError:
            raise
        except Exception:
            raise InputError(
                f"{path}: is not an xlsx file, or has a password (setting {setting})"
            ) from None


def _sheet(path: File, workbook: Any, reading: Reading, *, within: int | None = None) -> Any:
    """Return the sheet of the settings, or the only one with the required columns in a header row.
    Without such a sheet, it is the only one with the columns in its first `within` rows."""
    required, setting = reading.wanted, reading.setting
    if (table := reading.options.table) is not None:
        named = [sheet for sheet in workbook.worksheets if sheet.title == table]
        if not named:
            raise InputError(f"{path}: has no sheet '{table}' (setting {reading.option('table')})")
        return named[0]
    visible = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    if len(visible) == 1:
        return visible[0]
    fitting = [sheet for sheet in visible if set(required) <= set(_header(sheet, reading)[0])]
    if not fitting and within is not None:
        fitting = [
            sheet
            for sheet in visible
            if any(set(required) <= set(_names(row)) for row in _first_rows(sheet, within))
        ]
    if not fitting:
        columns = ", ".join(f"'{column}'" for column in required)
        raise InputError(
            f"{path}: none of {len(visible)} sheets has the columns {columns} in "
            f"{_places(reading.header_rows)} (setting {setting})"
        )
    if len(fitting) > 1:
        raise InputError(
            f"{path}: {len(fitting)} sheets have the columns. Name one of them in "
            f"{reading.option('table')} (setting {setting})"
        )
    return fitting[0]


def _places(header_rows: int) -> str:
    return "row 1" if header_rows == 1 else f"rows 1 to {header_rows}"


def _header(sheet: Any, reading: Reading, path: File | None = None) -> tuple[list[str], int]:
    """Return the names of the columns, and the index of their row. With `path`, raise InputError if
    the wanted columns are in different rows."""
    rows, wanted = _first_rows(sheet, reading.header_rows), reading.wanted
    at = header_row(path, rows, wanted, reading.setting) if path else names_row(rows, wanted)
    return _names(rows[at]) if rows else [], at


def _names(cells: Cells) -> list[str]:
    return ["" if cell is None else str(cell) for cell in cells]


def _first_rows(sheet: Any, most: int) -> list[Cells]:
    return [list(map(_value, cells)) for cells in islice(_cells(sheet), most)]


def _cells(sheet: Any) -> Iterator[Sequence[Any]]:
    sheet.reset_dimensions()  # some programs write wrong dimensions
    rows = sheet.iter_rows()
    while batch := _next_batch(rows):
        yield from batch


def _next_batch(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    with warnings.catch_warnings():  # a warning of openpyxl may quote a cell
        warnings.simplefilter("ignore")
        return list(islice(rows, BATCH_ROWS))


def _value(cell: Any) -> Any:
    if cell.data_type == "e":
        return None
    if isinstance(cell.value, str):
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), cell.value)
    return cell.value


def _is_rounded(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= _ROUNDED
