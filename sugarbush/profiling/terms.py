"""The words and two-word phrases that a text gives to the profile."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from typing import Final

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from sugarbush.languages import MORE_STOP_WORDS
from sugarbush.profiling.layout import TERM_PHRASES, TERM_WORDS
from sugarbush.training.crt.patterns import RegexDetector

_READ: Final = 600  # characters of a text that give terms
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|[^\s\w]|\d+")
_LONGEST: Final = 30
STOP_WORDS: Final = ENGLISH_STOP_WORDS | MORE_STOP_WORDS
_REDACTOR = RegexDetector()


def terms(text: str, *, key: bytes) -> tuple[str, ...]:
    """Return at most TERM_WORDS words and TERM_PHRASES phrases of a text, without secrets and
    numbers.

    What the pattern redactor finds is removed first. A keyed hash of each term decides which terms
    are chosen. So the choice depends on this text and the key alone. Texts with the same terms
    choose the same terms, so more texts agree on a term than by chance.

    >>> sorted(terms("My flight 12 was late, mail ann@example.com! Late flight", key=b"k"))
    ['flight', 'late', 'late flight', 'mail']
    """
    words, phrases = set[str](), set[str]()
    before = ""
    for token in _tokens(text[:_READ]):
        if (
            token.replace("’", "'") in STOP_WORDS
            or not 3 <= len(token) <= _LONGEST
            or not token[0].isalpha()
        ):
            before = ""
            continue
        words.add(token)
        if before:
            phrases.add(f"{before} {token}")
        before = token
    return (*_chosen(words, TERM_WORDS, key), *_chosen(phrases, TERM_PHRASES, key))


def _tokens(text: str) -> Iterable[str]:
    (findings,) = _REDACTOR.find([text])
    if findings:
        characters = list(text)
        for finding in findings:
            for index in range(finding.start, finding.end):
                characters[index] = "\n"
        # A removed part separates its neighbours: a sign that is no word.
        text = re.sub(r"\n+", " . ", "".join(characters))
    return (token.casefold() for token in _TOKEN.findall(text))


def _chosen(terms: set[str], most: int, key: bytes) -> list[str]:
    if len(terms) <= most:
        return sorted(terms)
    return sorted(terms, key=lambda term: _priority(term, key))[:most]


def _priority(term: str, key: bytes) -> bytes:
    return hmac.digest(key, b"term" + term.encode("utf-8", "surrogatepass"), "sha256")[:8]
