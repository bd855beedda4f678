"""Reads csv files. The header decides the delimiter."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

from sugarbush.data.formats.interface import DividedTextFormat
from sugarbush.data.formats.rows import WHOLE, Reading, Row, Scan, Span, require_columns
from sugarbush.data.formats.text_files import LinesFrom, header_encoding, lines_of, open_text
from sugarbush.data.remote import File
from sugarbush.errors import InputError

_DELIMITERS = ",;\t|"  # the first one wins a tie
_FIELD_LIMIT = 2**30
_LINES_OF_A_GUESS, _ROWS_OF_A_GUESS = 500, 20
_NAMED_DELIMITER = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


class Csv(DividedTextFormat):
    """Rows of cells under a header, with a comma, a semicolon, a tab or `|` between the cells."""

    header_is_row_1: ClassVar[bool] = True

    def names(self, path: File, reading: Reading) -> Sequence[str]:
        """Return the header. Only the header must have the encoding of the file."""
        with open_text(path, reading.options.encoding, errors="surrogateescape") as file:
            names: list[str] = next(_cells(file, reading.wanted), [])
        for name in names:
            name.encode("utf-8", "surrogateescape").decode("utf-8")  # raises UnicodeDecodeError
        return names

    def rows(self, path: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the rows of a csv file, or of a span that `scan` describes. The header is row 1."""
        setting, required = reading.setting, reading.wanted
        number = span.rows + 1
        try:
            if span == WHOLE:
                lines: Iterator[list[str]] = _cells(
                    lines_of(path, setting, reading.options.encoding), required
                )
                header = next(lines, None)
            else:
                head = _head(path, reading)
                lines, header = (
                    iter(_RowsFrom(path, reading, head, span.start, span.stop)),
                    head.cells,
                )
            if header is None:
                return
            require_columns(path, required, header)
            if any(header.count(name) > 1 for name in required):
                raise InputError(f"{path}, row 1: names a column twice (setting {setting})")
            for number, cells in enumerate(lines, start=span.rows + 2):
                if not cells:
                    continue
                if len(cells) == len(header):
                    yield Row(number, dict(zip(header, cells, strict=True)))
                    continue
                problem = (
                    f"has {len(cells)} cells, but the header (row 1) has {len(header)}. A cell "
                    "with a delimiter or a line break needs quotes"
                )
                if not reading.broken:
                    raise InputError(f"{path}, row {number}: {problem} (setting {setting})")
                yield Row(number, {}, problem)
        except csv.Error:
            raise InputError(
                f"{path}, row {number + 1}: is not csv. Look for an open quote (setting {setting})"
            ) from None

    def scan(self, path: File, reading: Reading, start: int, stop: int, *, exact: bool) -> Scan:
        """Find the rows that begin between the bytes `start` and `stop`.

        If `exact` is false, `start` is any byte, and the first row is a guess: a line may be inside
        a quoted cell. The caller compares the guess with the end of the rows before.
        """
        rows = 0
        try:
            head = _head(path, reading)
            if not start:
                start = head.end
            elif not exact:
                start = _first_row(path, reading, head, start)
            found = _RowsFrom(path, reading, head, start, stop)
            for _ in found:
                rows += 1
        except (csv.Error, InputError):
            return Scan(start, None, rows)
        return Scan(start, found.end, rows)

    def encoding_of_header(self, path: File) -> str | None:
        return header_encoding(path)


class _Head(NamedTuple):
    """The header of a csv file, and the first byte after it."""

    cells: list[str] | None
    delimiter: str
    end: int


def _head(path: File, reading: Reading) -> _Head:
    lines = LinesFrom(path, reading.setting, reading.options.encoding)
    rows = _cells(iter(lines), reading.wanted)
    return _Head(next(rows, None), rows.dialect.delimiter, lines.end)


class _RowsFrom:
    """The cells of the rows that begin before the byte `stop`. `end` is the byte after the last
    row that was read."""

    def __init__(
        self, path: File, reading: Reading, head: _Head, start: int, stop: int | None
    ) -> None:
        self._lines = LinesFrom(path, reading.setting, reading.options.encoding, start=start)
        self._rows = csv.reader(self._lines, delimiter=head.delimiter, strict=True)
        self._stop = stop

    @property
    def end(self) -> int:
        return self._lines.end

    def __iter__(self) -> Iterator[list[str]]:
        while self._stop is None or self.end < self._stop:
            cells = next(self._rows, None)
            if cells is None:
                return
            yield cells


def _first_row(path: File, reading: Reading, head: _Head, start: int) -> int:
    """Return the first line after `start` from which some rows have as many cells as the header."""
    lines = LinesFrom(path, reading.setting, reading.options.encoding, start=start, skip_first=True)
    window = [(lines.start, line) for line in islice(lines, _LINES_OF_A_GUESS)]
    for index, (first, _) in enumerate(window):
        rows = csv.reader((line for _, line in window[index:]), delimiter=head.delimiter)
        sizes = [len(cells) for cells in islice(rows, _ROWS_OF_A_GUESS) if cells]
        if sizes and set(sizes[:-1] or sizes) == {len(head.cells or ())}:
            return first
    return window[0][0] if window else lines.end


def _cells(lines: Iterator[str], required: Collection[str]) -> Any:
    """Return a reader of the cells of each row. The delimiter gives the header the most `required`
    columns, and then the most cells.

    Spreadsheets write semicolons where the decimal sign is a comma. A first line `sep=;` names the
    delimiter. Spreadsheets do not show this line, so it is no row.

    >>> list(_cells(iter(["no;text\\n", "1;good, but late\\n"]), {"text"}))
    [['no', 'text'], ['1', 'good, but late']]
    >>> list(_cells(iter(["sep=,\\n", "a;b;c,text\\n"]), {"text"}))
    [['a;b;c', 'text']]
    """
    csv.field_size_limit(_FIELD_LIMIT)
    first = next(lines, "")
    if named := _NAMED_DELIMITER.fullmatch(first):
        return csv.reader(lines, delimiter=named[1], strict=True)

    def fit(delimiter: str) -> tuple[int, int]:
        cells = next(csv.reader([first], delimiter=delimiter), [])
        return len(set(required) & set(cells)), len(cells)

    delimiter = max(_DELIMITERS, key=fit)
    return csv.reader(chain([first] if first else [], lines), delimiter=delimiter, strict=True)
