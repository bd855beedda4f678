"""Reads JSON lines, and JSON files with one list of objects or with objects one after the other.

The list may be inside objects: `prepare.table` names its path, such as `data.tickets`. The memory
for a list is one block of its text and the largest record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, ClassVar

from sugarbush.data.formats.interface import DividedTextFormat, TextFormat
from sugarbush.data.formats.rows import (
    WHOLE,
    Reading,
    RecordList,
    Row,
    Scan,
    Span,
    add_paths,
    flattened,
)
from sugarbush.data.formats.text_files import LinesFrom, lines_of, open_text, reading_text
from sugarbush.data.remote import File
from sugarbush.errors import InputError

_BLOCK_CHARACTERS = 2**20
_LONGEST_RECORD = 2**28  # characters
_SPACE = re.compile(r"[ \t\n\r]*")
_OPEN_STRING = "Unterminated string"
_ESCAPE = len(r"\ud83d\ude00")  # the longest piece that is no value without its last character
_MOST_LEVELS, _MOST_LISTS = 4, 20  # in the search for lists of records


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

    def members(self) -> Iterator[str]:
        """Yield the names of the object at the current character. The caller reads the value of
        each name before the next one. Raises ValueError."""
        self.skip()
        if self.next_character() != "}":
            while True:
                if self.next_character() != '"':
                    raise _NotAList
                name = self.value()
                if self.next_character() != ":":
                    raise _NotAList
                self.skip()
                self.next_character()
                yield name
                if (after := self.next_character()) == "}":
                    break
                if after != ",":
                    raise _NotAList
                self.skip()
        self.skip()

    def items(self) -> Iterator[None]:
        """Pass through the list at the current character. The caller reads each item before the
        next one. Raises ValueError."""
        self.skip()
        if self.next_character() != "]":
            while True:
                self.next_character()
                yield
                if (after := self.next_character()) == "]":
                    break
                if after != ",":
                    raise _NotAList
                self.skip()
        self.skip()

    def skip_value(self) -> None:
        """Skip the value at the current character, a long list item by item. Raises ValueError."""
        if self.next_character() != "[":
            self.value()
            return
        for _ in self.items():
            self.value()

    def line_has_value(self) -> bool:
        """Return whether the line of the current character has a whole value."""
        while (end := self._text.find("\n", self._at)) < 0 and self._read_more():
            pass
        try:
            json.loads(self._text[self._at : end if end >= 0 else None])
        except (ValueError, RecursionError):
            return False
        return True

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
            first = json.loads(next((line for line in file if line.strip()), "{}"))
        return _keys(next(iter(_records_in(first, path, 1, reading)), {}))

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
                    for each in _records_in(record, path, number, reading):
                        yield number, each

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
    """One list of objects, or objects one after the other, as in JSON lines."""

    has_keys: ClassVar[bool] = True

    def names(self, path: File, reading: Reading) -> Sequence[str]:
        """Return the keys of the first object, and the dotted paths in the object."""
        with open_text(path, reading.options.encoding, newline="\n") as file:
            if (items := _items(_JsonText(file), reading.options.table)) is not None:
                return _keys(next(items, {}))
        return JsonLines().names(path, reading)

    def rows(self, path: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the objects of a list, counted from 1. A file with an object on its first line is
        read as JSON lines, because many programs name such files `.json` too."""
        encoding, setting = reading.options.encoding, reading.setting
        with reading_text(path, setting, encoding), open_text(path, encoding, newline="\n") as file:
            with _reading_json(path, 1, setting):
                items = _items(_JsonText(file), reading.options.table)
            if items is not None:
                yield from _rows(path, _numbered(path, items, reading), reading)
                return
        yield from JsonLines().rows(path, reading)

    def record_lists(self, path: File, reading: Reading) -> Sequence[RecordList]:
        with open_text(path, reading.options.encoding, newline="\n") as file:
            text, found = _JsonText(file), list[RecordList]()
            if text.next_character() == "{":
                _find_lists(text, (), found)
            return () if text.next_character() else found


def _items(text: _JsonText, records: str | None) -> Iterator[Any] | None:
    """Return the objects of a file, or None if it has one object per line."""
    start = text.next_character()
    if records is not None:
        return _at_path(text, tuple(records.split(".")))
    if start == "[":
        return _objects_in(text)
    return None if start != "{" or text.line_has_value() else _one_after_another(text)


def _one_after_another(text: _JsonText) -> Iterator[Any]:
    while text.next_character():
        yield text.value()


def _at_path(text: _JsonText, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the objects of the list at a path of the values of a file. A list on the way is passed
    through item by item. Raises ValueError."""
    while text.next_character():
        yield from _within(text, path)


def _within(text: _JsonText, path: tuple[str, ...]) -> Iterator[Any]:
    start = text.next_character()
    if start == "[":
        for _ in text.items():
            if path:
                yield from _within(text, path)
            elif text.next_character() == "{":
                yield text.value()
            else:
                raise _NotAList
    elif start == "{" and path:
        for name in text.members():
            if name == path[0]:
                yield from _within(text, path[1:])
            else:
                text.skip_value()
    else:
        text.skip_value()


def _records_in(record: Any, path: File, number: int, reading: Reading) -> Iterable[Any]:
    """Return the records of a line: itself, or the objects of the list at `prepare.table`."""
    if (records := reading.options.table) is None:
        return (record,)
    found: list[Any] = [record]
    for name in records.split("."):
        found = [
            value
            for each in found
            for inner in (each if isinstance(each, list) else [each])
            if isinstance(inner, dict) and (value := inner.get(name)) is not None
        ]
    if not found or not all(isinstance(each, list) for each in found):
        option = reading.records_option
        raise InputError(
            f"{path}, row {number}: has no list of records at {records}, which {option} names "
            f"(setting {reading.setting})"
        )
    return [item for each in found for item in each]


def _find_lists(text: _JsonText, above: tuple[str, ...], found: list[RecordList]) -> None:
    """Read an object, and append the lists of objects in it, with the names of the first one."""
    for name in text.members():
        path, start = (*above, name), text.next_character()
        if start == "{" and len(path) < _MOST_LEVELS:
            _find_lists(text, path, found)
        elif start == "[" and len(found) < _MOST_LISTS:
            for number, _ in enumerate(text.items()):
                value = text.value()
                if number == 0 and isinstance(value, dict):
                    found.append(RecordList(".".join(path), tuple(_keys(value))))
        else:
            text.skip_value()


def _numbered(path: File, items: Iterator[Any], reading: Reading) -> Iterator[tuple[int, Any]]:
    number = 0
    while True:
        with _reading_json(path, number + 1, reading.setting):
            item = next(items, None)
        if item is None:
            break
        number += 1
        yield number, item
    if not number and (records := reading.options.table) is not None:
        option = reading.records_option
        raise InputError(
            f"{path}: has no list of records at {records}, which {option} names "
            f"(setting {reading.setting})"
        )


def _objects_in(text: _JsonText) -> Iterator[dict[str, Any]]:
    """Yield the objects of the list at the current character. Raises ValueError."""
    for _ in text.items():
        if text.next_character() != "{":
            raise _NotAList
        yield text.value()
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
