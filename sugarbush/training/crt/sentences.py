"""Splits a text into sentences. The joined sentences equal the text.

A sentence ends before white space: at a line break, or after one of . ! ? … and any closing quotes
or brackets. A few abbreviations and single initials do not end a sentence. The rule reads no letter
after the end of a sentence. So a secret at the start of the next sentence cannot move this end.

A text without an end of sentence is one sentence of any length. A sentence is never cut by length,
because the position of the cut would depend on all earlier text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# A match begins before the first mark, so that the time stays linear for 100,000 dots in a row.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|\n+")
_NO_END = re.compile(
    r"(?i:mr|mrs|ms|dr|prof|st|jr|sr|no|nr|vs|etc|e\.g|i\.e|apt|ave|dept|inc|ltd)|[A-Z]"
)
_LAST_WORD = re.compile(r"\S+\Z")
_LONGEST_WORD = 12  # number of characters before a full stop that are searched for an abbreviation


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and the white space after it."""

    text: str
    space: str


def split(text: str) -> list[Sentence]:
    """Return the sentences of `text`, in order.

    Lines of white space before the first word form a sentence with an empty `text`.
    """
    sentences = []
    start = 0
    for match in _END.finditer(text):
        if _goes_on(text, match):
            continue
        after = match.end()
        while after < len(text) and text[after].isspace():
            after += 1
        if after > start:
            sentences.append(_sentence(text[start:after]))
            start = after
    if start < len(text):
        sentences.append(_sentence(text[start:]))
    return sentences


def sentences_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the distinct sentences of `texts`."""
    return frozenset(s.text for text in texts for s in split(text) if s.text)


def joined(sentences: list[Sentence]) -> str:
    """Join sentences to one text."""
    return "".join(sentence.text + sentence.space for sentence in sentences)


def _goes_on(text: str, end: re.Match[str]) -> bool:
    """Return whether a full stop belongs to an abbreviation or an initial."""
    if end.group() != ".":
        return False
    word = _LAST_WORD.search(text, max(0, end.end() - _LONGEST_WORD), end.end())
    return word is not None and _NO_END.fullmatch(word.group()[:-1]) is not None


def _sentence(piece: str) -> Sentence:
    text = piece.rstrip()
    return Sentence(text, piece[len(text) :])
