"""Writes a text in plain characters, and maps spans of it back to the text.

Word processors, web pages and typography write a number with no-break spaces, thin spaces, dashes,
soft hyphens, entities of HTML, or digits of full width or of another script. A detector knows the
characters of a keyboard. So detectors also read a text in plain characters (`plain`). Patterns of
secrets that may be wrapped also read it with one character for each line break, tab and run of
spaces (`unwrapped`).
"""

from __future__ import annotations

import html
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

# Characters that no reader sees: soft hyphen, zero-width spaces and joiners, marks of direction,
# variation selectors, byte order mark
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff"
)
# As a hyphen between letters or digits: dashes, bullets and waves of all scripts
_DASHES = "\u058a\u05be\u1806\u2010-\u2013\u2043\u2053\u2212\u301c\u30a0\ufe58\ufe63\uff0d"
_LONG_DASHES = "\u2014\u2015"  # as a hyphen only between digits
_HYPHEN = re.compile(rf"(?<=[\w)])[{_DASHES}](?=[\w(])|(?<=[\d)])[{_LONG_DASHES}](?=[\d(])")
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_HIDDEN = re.compile(f"[{_INVISIBLE}]+")
# One break of a line, with the mark of a quoted e-mail, or a tab
_BLANK, _MARGIN = rf"[ \t{_INVISIBLE}]*", rf"[ \t>|{_INVISIBLE}]*"
_BREAK = re.compile(rf"{_BLANK}(?<!\n)\n(?!{_MARGIN}\n){_MARGIN}|[ {_INVISIBLE}]*\t{_BLANK}")
_SPACES = re.compile(rf"[{_INVISIBLE}][ {_INVISIBLE}]*| [ {_INVISIBLE}]+")
# One character as HTML or an address writes it: &nbsp; &amp;nbsp; &#160; <br> %40
_WRITTEN = re.compile(
    r"&(?:amp;)?(?:#[0-9]{1,6}|#x[0-9a-f]{1,5}|[a-z]{2,9});|<br ?/?>|(?<=\w)%(?:20|40)(?=\w)",
    re.IGNORECASE,
)
_OTHERS = {
    **dict.fromkeys("\u2044\u2215", "/"),
    **dict.fromkeys("\u00b7\u2024\u2219\u30fb\uff65", "."),
    **dict.fromkeys("\u2800\u3164\uffa0", " "),  # an empty Braille cell, and fillers of Hangul
    "\ufe6b": "@",
}
_LAST_DIGIT = 0x1FFFF  # all digits of Unicode come before
_FULL_WIDTH = range(0xFF01, 0xFF5F)
_MATHEMATICAL = range(0x1D400, 0x1D800)


@dataclass(frozen=True)
class PlainText:
    """A text in plain characters. `starts` and `ends` are the places of each character in the
    original text, or None if both texts have the same places."""

    text: str
    starts: array[int] | None = None
    ends: array[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the places in the original text of the characters `start` to `end`."""
        if self.starts is None or self.ends is None or start >= end:
            return start, end
        return self.starts[start], self.ends[end - 1]

    def replaced(
        self, expression: re.Pattern[str], by: Callable[[re.Match[str]], str | None]
    ) -> PlainText:
        """Return the text with `by`, at most one character, in place of each match. A match stays
        if `by` returns None for it."""
        return _replaced(self, expression, by)


def plain(text: str) -> PlainText:
    r"""Return the text in plain characters. Line breaks stay, as \n.

    >>> plain("06\u00a012\u202f34, ٣\u200b٤ \uff21\u2013\uff11").text
    '06 12 34, 34 A-1'
    """
    if text.isascii() and not _LINE_END.search(text) and not _WRITTEN.search(text):
        return PlainText(text)
    written = _with_plain_characters(text)
    written = written.replaced(_LINE_END, _line_break).replaced(_HIDDEN, lambda _: "")
    return PlainText(_HYPHEN.sub("-", written.text), written.starts, written.ends)


def unwrapped(text: str) -> PlainText:
    r"""Return the text in plain characters, with one \n for each line break and tab, and one space
    for each run of spaces and invisible characters. Two line breaks stay, because they end a
    paragraph.

    >>> unwrapped("555\r\n> 010\t12\u200b34").text
    '555\n010\n12 34'
    """
    written = _with_plain_characters(text)
    written = written.replaced(_LINE_END, _line_break).replaced(_BREAK, _line_break)
    written = written.replaced(_SPACES, lambda _: " ")
    return PlainText(_HYPHEN.sub("-", written.text), written.starts, written.ends)


def visible(text: str) -> str:
    """Return a text of the same length, with a space for each space, tab and invisible
    character."""
    if text.isascii():
        return text
    return _HIDDEN.sub(lambda match: " " * len(match.group()), text.translate(_table()))


def _with_plain_characters(text: str) -> PlainText:
    written = PlainText(text).replaced(_WRITTEN, _character)
    if written.text.isascii():
        return written
    return PlainText(written.text.translate(_table()), written.starts, written.ends)


def _line_break(_: re.Match[str]) -> str:
    return "\n"


def _character(match: re.Match[str]) -> str | None:
    """Return the character that HTML or an address writes, or None if it is none."""
    written = match.group()
    if written[0] == "%":
        return chr(int(written[1:], 16))
    character = "\n" if written[0] == "<" else html.unescape(html.unescape(written))
    return character if len(character) == 1 else None


def _replaced(
    written: PlainText,
    expression: re.Pattern[str],
    replacement: Callable[[re.Match[str]], str | None],
) -> PlainText:
    matches = [
        (match, by)
        for match in expression.finditer(written.text)
        if (by := replacement(match)) is not None
    ]
    if all(match.group() == by for match, by in matches):
        return written
    pieces: list[str] = []
    starts, ends, at = array("q"), array("q"), 0
    old_starts = written.starts or array("q", range(len(written.text)))
    old_ends = written.ends or array("q", range(1, len(written.text) + 1))
    for match, by in matches:
        first, last = match.span()
        pieces += (written.text[at:first], by)
        starts += old_starts[at:first]
        ends += old_ends[at:first]
        if by:
            starts.append(old_starts[first])
            ends.append(old_ends[last - 1])
        at = last
    pieces.append(written.text[at:])
    return PlainText("".join(pieces), starts + old_starts[at:], ends + old_ends[at:])


@cache
def _table() -> dict[int, str]:
    """Map spaces, digits of all scripts, and letters of full width and of mathematics to plain
    characters."""
    return {code: plain for code, plain in _plain_characters() if chr(code) != plain}


def _plain_characters() -> Iterator[tuple[int, str]]:
    for code in range(0x80, _LAST_DIGIT + 1):
        character = chr(code)
        kind = unicodedata.category(character)
        if kind == "Zs":
            yield code, " "
        elif kind == "Nd":
            yield code, str(unicodedata.decimal(character))
        elif code in _FULL_WIDTH or (code in _MATHEMATICAL and kind.startswith("L")):
            folded = unicodedata.normalize("NFKC", character)
            if len(folded) == 1 and folded.isascii():
                yield code, folded
        elif character in _OTHERS:
            yield code, _OTHERS[character]
