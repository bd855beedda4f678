"""Reads JSON lines, and JSON files with one list of objects.

The memory for a list is one block of its text and the largest record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, ClassVar

from sugarbush.data.formats.interface import DividedTextFormat, TextFormat
from sugarbush.data.formats.rows import WHOLE, Reading, Row, Scan, Span, add_paths, flattened
from sugarbush.data.formats.text_files import LinesFrom, lines_of, open_text, reading_text
from sugarbush.data.remote import File
from sugarbush.errors import InputError

_BLOCK_CHARACTERS = 2**20
_LONGEST_RECORD = 2**28  # characters
_SPACE = re.compile(r"[ \t\n\r]*")
_OPEN_STRING = "Unterminated string"
_ESCAPE = len(r"\ud83d\ude00")  # the longest piece that is no value without its last character


class _NotAList(ValueError):
    """The items of a list are not separated by commas, or the list has no end."""


class _JsonText:
    """The text of a file, of which a block and the current record are in memory."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._text, self._at = file, "", 0
        self._decoder = json.JSONDecoder()

    def next_character(self) -> str:
        """Skip spaces. Return the next character without reading past it, or "" at the end."""
        while True:
            if (space := _SPACE.match(self._text, self._at)) is not None:
                self._at = space.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    def skip(self) -> None:
        self._at += 1

    def value(self) -> Any:
        """Return the value at the current character. Raises ValueError."""
        while True:
            try:
                value, self._at = self._decoder.raw_decode(self._text, self._at)
                return value
            except json.JSONDecodeError as error:
                # If the text ends inside the value, the error is at the end or in an open string.
                open_string = error.msg.startswith(_OPEN_STRING)
                if not (open_string or error.pos > len(self._text) - _ESCAPE):
                    raise
                if not self._read_more():
                    raise

    def _read_more(self) -> bool:
        rest = self._text[self._at :]
        if len(rest) > _LONGEST_RECORD:
            return False
        more = self._file.read(max(_BLOCK_CHARACTERS, len(rest)))
        self._text, self._at = rest + more, 0
        return bool(more)


class JsonLines(DividedTextFormat):
    """One object per line."""

    has_keys: ClassVar[bool] = True

    def names(self, path: File, reading: Reading) -> Sequence[str]:
        """Return the keys of the first record of JSON lines, and the dotted paths in the record."""
        with open_text(path, reading.options.encoding, newline="\n") as file:
            first = next((line for line in file if line.strip()), "{}")
        return _keys(json.loads(first))

    def rows(self, path: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the rows of JSON lines, or of a span that `scan` describes. The number of a row is
        its line."""
        lines: Iterable[str]
        if span == WHOLE:
            lines = lines_of(path, reading.setting, reading.options.encoding, newline="\n")
        else:
            lines = _lines_between(path, reading, span)

        def records() -> Iterator[tuple[int, Any]]:
            for number, line in enumerate(lines, start=span.rows + 1):
                if line.strip():
                    with _reading_json(path, number, reading.setting):
                        record = json.loads(line)
                    yield number, record

        return _rows(path, records(), reading)

    def scan(self, path: File, reading: Reading, start: int, stop: int, *, exact: bool) -> Scan:
        """Find the lines that begin between the bytes `start` and `stop`. If `exact` is false,
        `start` is any byte."""
        lines = _lines_from(path, reading, start, skip_first=not exact and start > 0)
        first, end, rows = start, None, 0
        try:
            for _ in lines:
                first = first if rows else lines.start
                if lines.start >= stop:
                    end = lines.start
                    break
                rows += 1
        except InputError:
            return Scan(first, None, rows)
        end = lines.end if end is None else end
        return Scan(first if rows else end, end, rows)


def _lines_from(path: File, reading: Reading, start: int, *, skip_first: bool) -> LinesFrom:
    encoding = reading.options.encoding
    return LinesFrom(
        path, reading.setting, encoding, start=start, skip_first=skip_first, newline="\n"
    )


def _lines_between(path: File, reading: Reading, span: Span) -> Iterator[str]:
    lines = _lines_from(path, reading, span.start, skip_first=False)
    for line in lines:
        yield line
        if span.stop is not None and lines.end >= span.stop:
            return


class JsonList(TextFormat):
    """One list of objects, or one object per line."""

    has_keys: ClassVar[bool] = True

    def names(self, path: File, reading: Reading) -> Sequence[str]:
        """Return the keys of the first object of a list, and the dotted paths in the object."""
        with open_text(path, reading.options.encoding, newline="\n") as file:
            text = _JsonText(file)
            if text.next_character() == "[":
                return _keys(next(_items(text), {}))
        return JsonLines().names(path, reading)

    def rows(self, path: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the objects of a list, counted from 1. A file that starts with an object is read as
        JSON lines, because many programs name such files `.json` too."""
        encoding, setting = reading.options.encoding, reading.setting
        with reading_text(path, setting, encoding), open_text(path, encoding, newline="\n") as file:
            text = _JsonText(file)
            if text.next_character() == "[":
                yield from _rows(path, _numbered(path, text, setting), reading)
                return
        yield from JsonLines().rows(path, reading)


def _numbered(path: File, text: _JsonText, setting: str) -> Iterator[tuple[int, Any]]:
    items, number = _items(text), 0
    while True:
        with _reading_json(path, number + 1, setting):
            item = next(items, None)
        if item is None:
            return
        number += 1
        yield number, item


def _items(text: _JsonText) -> Iterator[dict[str, Any]]:
    """Yield the objects of the list at the current character. Raises ValueError."""
    text.skip()
    if text.next_character() != "]":
        while True:
            if text.next_character() != "{":
                raise _NotAList
            yield text.value()
            if (after := text.next_character()) == "]":
                break
            if after != ",":
                raise _NotAList
            text.skip()
    text.skip()
    if text.next_character():
        raise _NotAList


def _rows(path: File, records: Iterable[tuple[int, Any]], reading: Reading) -> Iterator[Row]:
    for number, record in records:
        if not isinstance(record, dict):
            raise InputError(
                f"{path}, row {number}: is not a JSON object (setting {reading.setting})"
            )
        with _reading_json(path, number, reading.setting):
            fields = add_paths(record, reading)
        yield Row(number, fields)


@contextmanager
def _reading_json(path: File, number: int, setting: str) -> Iterator[None]:
    """Convert an error of one record, such as too many nested lists, to InputError."""
    try:
        yield
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError):
        raise InputError(f"{path}, row {number}: is not JSON (setting {setting})") from None


def _keys(record: Any) -> list[str]:
    if not isinstance(record, dict):
        raise ValueError("the first record is not a JSON object")
    return list(dict.fromkeys([*record, *(name for name, _ in flattened(record))]))
