"""Reads csv files. The header decides the delimiter."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from sugarbush.data.formats.rows import Reading, Row, require_columns
from sugarbush.data.formats.text_files import lines_of, open_text
from sugarbush.data.remote import File
from sugarbush.errors import InputError

_DELIMITERS = ",;\t|"  # the first one wins a tie
_FIELD_LIMIT = 2**30
_NAMED_DELIMITER = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


def csv_names(path: File, reading: Reading) -> Sequence[str]:
    """Return the header. Only the header must have the encoding of the file."""
    with open_text(path, reading.options.encoding, errors="surrogateescape") as file:
        names = next(_cells(file, reading.wanted), [])
    for name in names:
        name.encode("utf-8", "surrogateescape").decode("utf-8")  # raises UnicodeDecodeError
    return names


def csv_rows(path: File, reading: Reading) -> Iterator[Row]:
    """Yield the rows of a csv file. The header is row 1."""
    setting, required = reading.setting, reading.wanted
    lines = _cells(lines_of(path, setting, reading.options.encoding), required)
    number = 1
    try:
        header = next(lines, None)
        if header is None:
            return
        require_columns(path, required, header)
        if any(header.count(name) > 1 for name in required):
            raise InputError(f"{path}, row 1: names a column twice (setting {setting})")
        for number, cells in enumerate(lines, start=2):
            if not cells:
                continue
            if len(cells) == len(header):
                yield Row(number, dict(zip(header, cells, strict=True)))
                continue
            problem = (
                f"has {len(cells)} cells, but the header (row 1) has {len(header)}. A cell with a "
                "delimiter or a line break needs quotes"
            )
            if not reading.broken:
                raise InputError(f"{path}, row {number}: {problem} (setting {setting})")
            yield Row(number, {}, problem)
    except csv.Error:
        raise InputError(
            f"{path}, row {number + 1}: is not csv. Look for an open quote (setting {setting})"
        ) from None


def _cells(lines: Iterator[str], required: Collection[str]) -> Iterator[list[str]]:
    """Yield the cells of each row. The delimiter gives the header the most `required` columns, and
    then the most cells.

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
        yield from csv.reader(lines, delimiter=named[1], strict=True)
        return

    def fit(delimiter: str) -> tuple[int, int]:
        cells = next(csv.reader([first], delimiter=delimiter), [])
        return len(set(required) & set(cells)), len(cells)

    delimiter = max(_DELIMITERS, key=fit)
    yield from csv.reader(chain([first] if first else [], lines), delimiter=delimiter, strict=True)
