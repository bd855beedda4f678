"""Templates with choices, rules and labelled values.

A template holds `{name}` (a slot that the writer fills, or else a rule of the grammar) and
`[this|that|]` (one alternative; an empty one is allowed), nested as deep as one likes. A value
that identifies somebody is `mark`ed where it is made; the marks travel through expansion and
`unmark` turns them into spans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sugarbush.errors import InvariantError
from sugarbush.examples.simulator.dice import Dice

Slot = str | Callable[[], str]

_OPEN, _MIDDLE, _CLOSE = "\x02", "\x03", "\x04"
_TOKEN = re.compile(r"\{(\w+)\}|[\[\]|]|[^\[\]|{]+")
_MARKED = re.compile(f"{_OPEN}([A-Z_]+){_MIDDLE}([^{_CLOSE}]*){_CLOSE}")


@dataclass(frozen=True)
class Span:
    """A labelled part of a text: text[start:end] == value."""

    start: int
    end: int
    label: str
    value: str


@dataclass(frozen=True)
class _Name:
    name: str


@dataclass(frozen=True)
class _Choice:
    options: tuple[_Sequence, ...]


_Sequence = tuple[str | _Name | _Choice, ...]


class Grammar:
    """Rules by name, each with its templates, compiled once."""

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        self._rules = {name: tuple(map(_compile, templates)) for name, templates in rules.items()}

    def __contains__(self, rule: str) -> bool:
        return rule in self._rules

    def write(self, rule: str, dice: Dice, slots: Mapping[str, Slot]) -> str:
        """One text of `rule`, marks and all. A slot hides the rule of the same name."""
        return self._expand(dice.pick(self._rules[rule]), dice, slots)

    def fill(self, template: str, dice: Dice, slots: Mapping[str, Slot]) -> str:
        """One text of a template that is no rule."""
        return self._expand(_compile(template), dice, slots)

    def names(self) -> frozenset[str]:
        """Every slot and rule that some template asks for."""
        return frozenset(n for rule in self._rules.values() for t in rule for n in _names(t))

    def _expand(self, parts: _Sequence, dice: Dice, slots: Mapping[str, Slot]) -> str:
        written = []
        for part in parts:
            if isinstance(part, str):
                written.append(part)
            elif isinstance(part, _Choice):
                written.append(self._expand(dice.pick(part.options), dice, slots))
            elif part.name in slots:
                slot = slots[part.name]
                written.append(slot if isinstance(slot, str) else slot())
            elif part.name in self._rules:
                written.append(self.write(part.name, dice, slots))
            else:
                raise InvariantError(f"a template asks for '{part.name}', which nothing fills")
        return "".join(written)


def mark(label: str, value: str) -> str:
    """`value`, to be found again by `unmark`."""
    return f"{_OPEN}{label}{_MIDDLE}{value}{_CLOSE}"


def unmark(text: str) -> tuple[str, tuple[Span, ...]]:
    """The plain text and where the marked values lie in it."""
    plain: list[str] = []
    spans = []
    done = length = 0
    for found in _MARKED.finditer(text):
        before, value = text[done : found.start()], found.group(2)
        start = length + len(before)
        spans.append(Span(start, start + len(value), found.group(1), value))
        plain += [before, value]
        done, length = found.end(), start + len(value)
    return "".join([*plain, text[done:]]), tuple(spans)


def tidy(text: str) -> str:
    """Single blanks, no blank before a stop, `an` before a vowel, capitals at sentence starts."""
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" (?=[,.;:!?](?:\s|$))", "", text)
    text = re.sub(r"\b([Aa]) (?=[aeioAEIO])(?!one\b)", r"\1n ", text)
    return re.sub(
        r"((?:^|[.!?]\s+|\n)\"?)([a-z])", lambda m: m.group(1) + m.group(2).upper(), text
    ).strip()


@lru_cache(maxsize=4096)
def _compile(template: str) -> _Sequence:
    tokens = list(_TOKEN.finditer(template))
    parts, end = _sequence(tokens, 0)
    if end != len(tokens) or sum(len(token.group()) for token in tokens) != len(template):
        raise InvariantError(f"a template does not close: {template!r}")
    return parts


def _sequence(tokens: list[re.Match[str]], at: int) -> tuple[_Sequence, int]:
    parts: list[str | _Name | _Choice] = []
    while at < len(tokens):
        token = tokens[at].group()
        if token in {"|", "]"}:
            break
        if token == "[":
            choice, at = _choice(tokens, at + 1)
            parts.append(choice)
            continue
        name = tokens[at].group(1)
        parts.append(_Name(name) if name else token)
        at += 1
    return tuple(parts), at


def _choice(tokens: list[re.Match[str]], at: int) -> tuple[_Choice, int]:
    options = []
    while at < len(tokens):
        option, at = _sequence(tokens, at)
        options.append(option)
        at += 1
        if tokens[at - 1 : at] and tokens[at - 1].group() == "]":
            return _Choice(tuple(options)), at
    raise InvariantError("a template opens a choice that it does not close")


def _names(parts: _Sequence) -> set[str]:
    found: set[str] = set()
    for part in parts:
        if isinstance(part, _Name):
            found.add(part.name)
        elif isinstance(part, _Choice):
            found = found.union(*map(_names, part.options))
    return found
