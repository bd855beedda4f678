"""Replaces each secret by a surrogate, which is an invented value of the same kind.

HMAC-SHA256 with a key makes the choice, so nobody without the key can repeat it. Within a record, a
word that occurs in several names gets one surrogate. So "Anna Berg" and a later "Anna" stay one
person. The surrogates of different records are independent, so they link no records.

A span has the label of its longest finding, but may contain others: "Anna Berg 555-1234" is one.
So every letter and digit of a span is replaced, whatever its label. Accents and vowel signs that
are characters of their own are removed, and so are symbols that can stand for letters ("🅰").

A number may contain words for digits ("seven"). Each such word is replaced by the word for another
digit. Random letters would show the length of the word, which nearly identifies the digit.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Sequence
from functools import partial
from itertools import count

from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.redactor.labels import kind_of_label
from sugarbush.redactor.values import LISTS, LOCALES, NAME, pool
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.recall import distinct_secret
from sugarbush.training.crt.redact import TextSpan

_ROMAN_LOCALES = [name for name in LOCALES if name.startswith(("en", "de", "fr", "es", "it", "pl"))]
_ADDRESSES = {"ADDRESS", "STREET", "ZIP_ADDRESS", "MILITARY_ADDRESS", "LOCATION", "GPE", "LOC"}
_WORD = re.compile(r"[^\W\d_]+")
_SPELLED = {*LISTS["digits"], *LISTS["tens"], "oh", "double", "triple", "hundred", "thousand"}
_SPELLED |= {"ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"}
_SPELLED |= {"eighteen", "nineteen"}
_WORD_OR_NUMBER = re.compile(rf"{_WORD.pattern}|\d+")
_WORD_OR_CHARACTER = re.compile(rf"{_WORD.pattern}|.", re.DOTALL)


def with_surrogates(text: str, spans: Sequence[TextSpan], *, key: bytes, record: str) -> str:
    """Replace each of `spans` in `text` by a surrogate. The spans are disjoint and in order.

    Equal (key, record, secret) give equal surrogates. No surrogate equals its secret in any case or
    width. A span that consists of masks stays.
    """
    pieces, end = [], 0
    for span in spans:
        secret = text[span.start : span.end]
        pieces += [text[end : span.start], _surrogate(secret, span.label, key=key, record=record)]
        end = span.end
    return "".join(pieces) + text[end:]


def _surrogate(secret: str, label: str, *, key: bytes, record: str) -> str:
    if not secret.replace(MASK, "").strip():
        return secret
    plain = _without_marks(secret)
    for attempt in range(100):
        rng = _rng(key, record, label, distinct_secret(secret, "").text, attempt)
        if kind_of_label(label) == NAME:
            like = partial(_name_like, key=key, record=record)
            made = _WORD_OR_NUMBER.sub(like, plain)
        elif label in _ADDRESSES:
            made = rng.choice(pool(rng.choice(_ROMAN_LOCALES), "address")).replace("\n", ", ")
        else:
            made = _same_format(plain, rng)
        if made.strip() and made.casefold() not in {secret.casefold(), plain.casefold()}:
            return made
    return "X" * len(secret)  # nothing to replace: a secret without a letter or digit


def _name_like(match: re.Match[str], *, key: bytes, record: str) -> str:
    """Return another word. It depends on the word alone, so it is the same in all names."""
    word: str = match.group()
    if word in "sS" and match.string[: match.start()].endswith(("'", "’")):
        return word  # keep the s of a possessive (Anna's)
    made = word
    attempts = count()
    while made.casefold() == word.casefold():
        made = _word_like(word, _rng(key, record, "name", word.casefold(), next(attempts)))
    return made


def _word_like(word: str, rng: SeededRandom) -> str:
    if word.isdecimal():
        return _same_format(word, rng)
    made = rng.choice(pool(rng.choice(_ROMAN_LOCALES), rng.choice(("first_name", "last_name"))))
    made = str(_WORD.findall(made)[0])
    if len(word) == 1:
        made = made[0]
    if word.isupper():
        return made.upper()
    return made.lower() if word.islower() else made


def _without_marks(secret: str) -> str:
    """Remove combining characters (accents that are not part of a letter, and vowel signs) and
    symbols. Write circled and other special letters as plain ones."""
    composed = unicodedata.normalize("NFKC", secret)
    kinds = map(unicodedata.category, composed)
    return "".join(
        char
        for char, kind in zip(composed, kinds, strict=True)
        if kind != "So" and not kind.startswith("M")
    )


def _same_format(secret: str, rng: SeededRandom) -> str:
    """Replace digits and letters by others, in the same places and in the same case.

    Words of numbers are replaced by words of digits.
    """

    def other(char: str) -> str:
        if char.isnumeric():
            return str(rng.below(10))
        if not char.isalpha():
            return char
        letter = chr(ord("a") + rng.below(26))
        return letter.upper() if char.isupper() else letter

    def other_word(match: re.Match[str]) -> str:
        word: str = match.group()
        if word.casefold() not in _SPELLED:
            return "".join(map(other, word))
        digit = rng.choice(LISTS["digits"])
        return digit.upper() if word.isupper() else digit

    return _WORD_OR_CHARACTER.sub(other_word, secret)


def _rng(key: bytes, *names: str | int) -> SeededRandom:
    message = "\x1f".join(map(str, names)).encode("utf-8", "surrogatepass")
    digest = hmac.new(key, message, hashlib.sha256).digest()
    return SeededRandom(int.from_bytes(digest[:8]), "surrogate")
