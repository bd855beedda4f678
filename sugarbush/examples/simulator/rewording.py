"""Replaces words by synonyms, and replaces identities: names, numbers and streets."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from sugarbush.examples.data_files import lines, load_yaml, words
from sugarbush.examples.people import FAMILY_NAMES, GIVEN_NAMES, STREET_KINDS, STREETS
from sugarbush.examples.seeded_random import SeededRandom

_DATA = load_yaml(Path(__file__).parent / "data" / "synonyms.yaml")
_OPENINGS = lines(_DATA["openings"])
_LOWER_CASE = frozenset(words(_DATA["lower_case"]))

_WORD_FOLLOWS = re.compile(r" [a-z]")
_CODE = re.compile(r"\+?\d(?:[\d -]*\d)?[A-Z]?\b")
_DATE = re.compile(r"(?:19|20)\d\d-\d\d(?:-\d\d)?$|\d\d?-\d\d?-(?:19|20)\d\d$")
_STREET = re.compile(rf"\b\d{{1,4}} (?P<street>[A-Z][a-z]+) (?:{'|'.join(STREET_KINDS)})\b")
_GIVEN = "|".join(GIVEN_NAMES)
_NAME = re.compile(
    rf"\b(?P<given>{_GIVEN}) (?P<family>[A-Z][a-z]+)\b"
    r"|(?:\b[Nn]ame is|\b[Nn]ame of|\bI am|\bI'm|\b[Tt]his is|\b[Uu]nder|\b(?:Mr|Mrs|Ms|Dr)\.?) "
    r"(?P<cued_given>[A-Z][a-z]+) (?P<cued_family>[A-Z][a-z]+)\b"
    rf"|\b(?P<alone>{_GIVEN})\b"
)
_FEW_DIGITS = 4


def reword(text: str, rng: SeededRandom, *, rate: float) -> str:
    """Replace each word of `text` that has a synonym, with probability `rate`."""

    def other(match: re.Match[str]) -> str:
        if not rng.chance(rate):
            return match.group()
        word = match.group()
        new = rng.choice(_synonyms()[word.lower()])
        if "'" in new and not _WORD_FOLLOWS.match(match.string, match.end()):
            return word  # "here you are." has no short form
        return new[0].upper() + new[1:] if word[0].isupper() and word != "I" else new

    return _synonym_pattern().sub(other, text)


def add_opening(text: str, rng: SeededRandom) -> str:
    """Add a short opening to `text` that does not change the meaning."""
    first = re.match(r"\w+", text)
    is_word = first is not None and first.group().lower() in _LOWER_CASE
    return rng.choice(_OPENINGS) + (text[0].lower() + text[1:] if is_word else text)


class IdentityReplacer:
    """Replaces names, numbers and streets. Equal names and codes get equal replacements."""

    def __init__(self, rng: SeededRandom) -> None:
        self._rng = rng
        self._names: dict[str, str] = {}
        self._codes: dict[str, str] = {}

    def apply(self, text: str) -> str:
        text = _STREET.sub(self._street, text)
        text = _CODE.sub(self._code, text)
        return _NAME.sub(self._name, text)

    def _street(self, match: re.Match[str]) -> str:
        return match.group().replace(match["street"], self._rng.choice(STREETS))

    def _name(self, match: re.Match[str]) -> str:
        text = match.group()
        for group, names in (
            ("given", GIVEN_NAMES),
            ("cued_given", GIVEN_NAMES),
            ("alone", GIVEN_NAMES),
            ("family", FAMILY_NAMES),
            ("cued_family", FAMILY_NAMES),
        ):
            if old := match[group]:
                if old not in self._names:
                    self._names[old] = self._rng.choice(names)
                text = re.sub(rf"\b{old}\b", self._names[old], text)
        return text

    def _code(self, match: re.Match[str]) -> str:
        old = match.group()
        if match.string[match.start() - 1 : match.start()].isalpha() and len(old) < _FEW_DIGITS:
            return old  # a short code such as P4 or A380 stays
        if _DATE.match(old) or sum(c.isdigit() for c in old) < _FEW_DIGITS:
            return self._number(old)
        if old not in self._codes:
            # A telephone number keeps its prefix, so that it still looks like a telephone number.
            kept = 7 if old.startswith(("0", "+", "555")) else 0
            self._codes[old] = old[:kept] + "".join(map(self._symbol, old[kept:]))
        return self._codes[old]

    def _symbol(self, symbol: str) -> str:
        if symbol.isdigit():
            return str(self._rng.between(symbol != "0", 9))
        return chr(ord("A") + self._rng.below(26)) if symbol.isupper() else symbol

    def _number(self, old: str) -> str:
        """Return the same number, or a nearby number without additional digits."""
        if not old.isdigit() or not self._rng.chance(0.5):
            return old
        number = int(old)
        if number < 2:
            return old
        near = self._rng.between(max(2, number - number // 3), number + number // 3 + 1)
        return str(min(near, 10 ** len(old) - 1))


@cache
def _synonyms() -> dict[str, tuple[str, ...]]:
    synonyms: dict[str, tuple[str, ...]] = {}
    for line in lines(_DATA["synonyms"]):
        group = tuple(word.strip() for word in line.split("|"))
        for word in group:
            earlier = synonyms.get(word.lower(), ())
            others = tuple(w for w in group if w != word and w not in earlier)
            synonyms[word.lower()] = earlier + others
    return synonyms


@cache
def _synonym_pattern() -> re.Pattern[str]:
    longest_first = sorted(_synonyms(), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)
