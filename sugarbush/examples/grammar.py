"""Writes sentences from templates with choices, rules and marked values.

A template may contain `{name}` and `[this|that|]`. `{name}` is a slot that the caller fills, or a
rule of the grammar. Brackets contain alternatives. An alternative may be empty. Brackets can be
nested.

`mark` marks a value that identifies a person, before the value fills a slot. `unmark` removes the
marks from the finished text and returns the spans of the values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sugarbush.errors import InvariantError
from sugarbush.examples.seeded_random import SeededRandom

Slot = str | Callable[[], str]

_OPEN, _MIDDLE, _CLOSE = "\x02", "\x03", "\x04"
_TOKEN = re.compile(r"\{(\w+)\}|[\[\]|]|[^\[\]|{]+")
_MARKED = re.compile(f"{_OPEN}([A-Z_]+){_MIDDLE}([^{_CLOSE}]*){_CLOSE}")


@dataclass(frozen=True)
class LabelledSpan:
    """A span of a text, with a label. `text[start:end] == value`."""

    start: int
    end: int
    label: str
    value: str


@dataclass(frozen=True)
class _Name:
    name: str


@dataclass(frozen=True)
class _Choice:
    options: tuple[_Template, ...]


_Template = tuple[str | _Name | _Choice, ...]


class Grammar:
    """Maps names to rules. Each rule has one or more templates."""

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        self._rules = {name: tuple(map(_compile, templates)) for name, templates in rules.items()}

    def write(self, rule: str, rng: SeededRandom, slots: Mapping[str, Slot]) -> str:
        """Write one text, with marks, from a rule of the grammar."""
        return self._expand(rng.choice(self._rules[rule]), rng, slots)

    def fill(self, template: str, rng: SeededRandom, slots: Mapping[str, Slot]) -> str:
        return self._expand(_compile(template), rng, slots)

    def _expand(self, template: _Template, rng: SeededRandom, slots: Mapping[str, Slot]) -> str:
        written = []
        for piece in template:
            if isinstance(piece, str):
                written.append(piece)
            elif isinstance(piece, _Choice):
                written.append(self._expand(rng.choice(piece.options), rng, slots))
            elif piece.name in slots:
                slot = slots[piece.name]
                written.append(slot if isinstance(slot, str) else slot())
            elif piece.name in self._rules:
                written.append(self.write(piece.name, rng, slots))
            else:
                raise InvariantError(
                    f"a template uses '{piece.name}', which is not a slot or a rule"
                )
        return "".join(written)


def mark(label: str, value: str) -> str:
    """Add an invisible label to `value`, for `unmark`."""
    return f"{_OPEN}{label}{_MIDDLE}{value}{_CLOSE}"


def unmark(text: str) -> tuple[str, tuple[LabelledSpan, ...]]:
    """Remove all marks. Return the plain text, and the spans of the marked values in this text."""
    plain: list[str] = []
    spans = []
    done = length = 0
    for match in _MARKED.finditer(text):
        before, value = text[done : match.start()], match.group(2)
        start = length + len(before)
        spans.append(LabelledSpan(start, start + len(value), match.group(1), value))
        plain += [before, value]
        done, length = match.end(), start + len(value)
    return "".join([*plain, text[done:]]), tuple(spans)


def tidy(text: str) -> str:
    """Remove extra blanks, write `an` before a vowel, and begin sentences with a capital."""
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" (?=[,.;:!?](?:\s|$))", "", text)
    text = re.sub(r"\b([Aa]) (?=[aeioAEIO])(?!one\b)", r"\1n ", text)
    return re.sub(
        r"((?:^|[.!?]\s+|\n)\"?)([a-z])", lambda m: m.group(1) + m.group(2).upper(), text
    ).strip()


@lru_cache(maxsize=4096)
def _compile(template: str) -> _Template:
    # `choices` contains the choices with an open bracket. The last item is the innermost choice.
    choices: list[list[list[str | _Name | _Choice]]] = [[[]]]
    end = 0
    for token in _TOKEN.finditer(template):
        if token.start() != end:
            break
        end, text = token.end(), token.group()
        if text == "[":
            choices.append([[]])
        elif text == "|" and len(choices) > 1:
            choices[-1].append([])
        elif text == "]" and len(choices) > 1:
            options = tuple(map(tuple, choices.pop()))
            choices[-1][-1].append(_Choice(options))
        elif text in {"|", "]"}:
            break
        else:
            choices[-1][-1].append(_Name(token.group(1)) if token.group(1) else text)
    else:
        if end == len(template) and len(choices) == 1:
            return tuple(choices[0][0])
    raise InvariantError(f"a template has an unmatched bracket: {template!r}")
