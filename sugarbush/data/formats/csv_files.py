"""Reads csv files. The header rows decide the delimiter."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

from sugarbush.data.formats.header_rows import Cells, header_row
from sugarbush.data.formats.interface import DividedTextFormat
from sugarbush.data.formats.rows import WHOLE, Reading, Row, Scan, Span, require_columns
from sugarbush.data.formats.text_files import LinesFrom, header_encoding, lines_of, open_text
from sugarbush.data.remote import File
from sugarbush.errors import InputError

_DELIMITERS = ",;\t|"  # the first one wins a tie
_FIELD_LIMIT = 2**30
_LINES_OF_A_GUESS, _ROWS_OF_A_GUESS = 500, 20
_LINES_OF_A_HEADER_ROW = 20  # a cell of a header may have several lines
_NAMED_DELIMITER = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


class Csv(DividedTextFormat):
    """Rows of cells under a header, with a comma, a semicolon, a tab or `|` between the cells."""

    header_is_row_1: ClassVar[bool] = True

    def names(self, path: File, reading: Reading) -> Sequence[str]:
        """Return the names. Only the header rows must have the encoding of the file."""
        header = self.first_rows(path, reading, reading.header_rows)
        if not header:
            return []
        names = header[header_row(path, header, reading.wanted, reading.setting)]
        for name in names:
            name.encode("utf-8", "surrogateescape").decode("utf-8")  # raises UnicodeDecodeError
        return names

    def first_rows(self, path: File, reading: Reading, most: int) -> Sequence[Cells]:
        with open_text(path, reading.options.encoding, errors="surrogateescape") as file:
            return list(islice(_cells(file, reading.wanted, header_rows=most), most))

    def rows(self, path: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the rows of a csv file, or of a span that `scan` describes. A header row is a row,
        too."""
        setting, required = reading.setting, reading.wanted
        number = span.rows + reading.header_rows
        first = number + 1
        try:
            if span == WHOLE:
                lines: Iterator[list[str]] = _cells(
                    lines_of(path, setting, reading.options.encoding),
                    required,
                    header_rows=reading.header_rows,
                )
                head_rows = list(islice(lines, reading.header_rows))
            else:
                head = _head(path, reading)
                lines, head_rows = (
                    iter(_RowsFrom(path, reading, head, span.start, span.stop)),
                    head.rows,
                )
            if not head_rows:
                return
            at = header_row(path, head_rows, required, setting)
            header = head_rows[at]
            require_columns(path, required, header)
            if any(header.count(name) > 1 for name in required):
                raise InputError(f"{path}, row {at + 1}: names a column twice (setting {setting})")
            for number, cells in enumerate(lines, start=first):
                if not cells:
                    continue
                if len(cells) == len(header):
                    yield Row(number, dict(zip(header, cells, strict=True)))
                    continue
                problem = (
                    f"has {len(cells)} cells, but the header (row {at + 1}) has {len(header)}. "
                    "A cell with a delimiter or a line break needs quotes"
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
    """The header rows of a csv file, and the first byte after them."""

    rows: list[list[str]]
    delimiter: str
    end: int

    @property
    def sizes(self) -> set[int]:
        """The numbers of cells of the header rows."""
        return set(map(len, self.rows)) or {0}


def _head(path: File, reading: Reading) -> _Head:
    found = LinesFrom(path, reading.setting, reading.options.encoding)
    delimiter, is_named, _ = _delimiter(iter(found), reading.wanted, reading.header_rows)
    lines = LinesFrom(path, reading.setting, reading.options.encoding)
    rows = csv.reader(islice(lines, int(is_named), None), delimiter=delimiter, strict=True)
    return _Head(list(islice(rows, reading.header_rows)), delimiter, lines.end)


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
        if sizes and len(of := set(sizes[:-1] or sizes)) == 1 and of <= head.sizes:
            return first
    return window[0][0] if window else lines.end


def _cells(lines: Iterator[str], required: Collection[str], *, header_rows: int = 1) -> Any:
    """Return a reader of the cells of each row. The delimiter gives a header row the most
    `required` columns, and then the most cells.

    Spreadsheets write semicolons where the decimal sign is a comma. A first line `sep=;` names the
    delimiter. Spreadsheets do not show this line, so it is no row.

    >>> list(_cells(iter(["no;text\\n", "1;good, but late\\n"]), {"text"}))
    [['no', 'text'], ['1', 'good, but late']]
    >>> list(_cells(iter(["sep=,\\n", "a;b;c,text\\n"]), {"text"}))
    [['a;b;c', 'text']]
    """
    delimiter, _, first = _delimiter(lines, required, header_rows)
    return csv.reader(chain(first, lines), delimiter=delimiter, strict=True)


def _delimiter(
    lines: Iterator[str], required: Collection[str], header_rows: int
) -> tuple[str, bool, Iterable[str]]:
    """Return the delimiter, whether a first line names it, and the further lines that were read."""
    csv.field_size_limit(_FIELD_LIMIT)
    first = next(lines, "")
    if named := _NAMED_DELIMITER.fullmatch(first):
        return named[1], True, ()
    # With one header row, no record is parsed with a delimiter that it does not have.
    more = 0 if header_rows == 1 else header_rows * _LINES_OF_A_HEADER_ROW
    block = [first, *islice(lines, more)] if first else []

    def fit(delimiter: str) -> tuple[int, int]:
        header = islice(csv.reader(block, delimiter=delimiter), header_rows)
        return max(
            ((len(set(required) & set(cells)), len(cells)) for cells in header), default=(0, 0)
        )

    return max(_DELIMITERS, key=fit), False, block
