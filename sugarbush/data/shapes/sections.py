"""Texts of labelled sections, such as the turns of a conversation: `Agent: Good morning.`

A line of a section that looks like a label gets the mark `> ` in front, as in mailbox files, and
loses it again when the text is parsed. So a section may contain any lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from sugarbush.data.shapes.interface import ShapeError, Span, unfenced
from sugarbush.languages import folded

_QUOTE = "> "


def label_of(name: str) -> str:
    """Return the label of a role or field in a canonical text.

    >>> label_of("customer"), label_of("chief_complaint")
    ('Customer', 'Chief complaint')
    """
    words = " ".join(name.replace("_", " ").split())
    return words[:1].upper() + words[1:]


def label_key(name: str) -> str:
    """Return a name without case and underscores. The labels of two names differ if this does."""
    return folded(label_of(name))


def joined(
    sections: Iterable[tuple[str, str]], names: Sequence[str], *, plain: bool = False
) -> str:
    """Return the text of sections (name, content). With `plain`, labels are the names themselves.

    >>> joined([("agent", "Good morning."), ("customer", "Hi\\nAgent: you")], ["agent", "customer"])
    'Agent: Good morning.\\nCustomer: Hi\\n> Agent: you'
    """
    pattern = _pattern(tuple(names))
    texts = []
    for name, content in sections:
        first, *others = content.strip().split("\n")
        lines = [_QUOTE + line if pattern.match(line) else line for line in others]
        label = name if plain else label_of(name)
        texts.append("\n".join([f"{label}: {first}" if content.strip() else f"{label}:", *lines]))
    return "\n".join(texts)


def sections_of(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the sections (name, content) of a text, in order.

    Labels may differ from `names` in case, spaces, bold marks and a bullet. Raises ShapeError.

    >>> sections_of("**Customer:** Hi\\n\\nagent : Hello", ["customer", "agent"])
    [('customer', 'Hi'), ('agent', 'Hello')]
    """
    return [
        (name, "\n".join([first, *map(_without_quote(names), others)]).strip())
        for name, (first, *others), _ in _split(unfenced(text), names)
    ]


def content_spans(text: str, names: Sequence[str]) -> list[Span]:
    """Return the positions of the contents of a canonical text."""
    return [span for _, _, span in _split(text, names)]


def _split(text: str, names: Sequence[str]) -> list[tuple[str, list[str], Span]]:
    pattern, name_of = _pattern(tuple(names)), {label_key(name): name for name in names}
    sections: list[tuple[str, list[str], Span]] = []
    position = 0
    for line in text.split("\n"):
        end = position + len(line)
        match = pattern.match(line)
        if match is not None and not match["quote"]:
            label = match["bold"] or match["label"]
            start = position + match.start("rest")
            sections.append((name_of[label_key(label)], [match["rest"]], (start, end)))
        elif sections:
            name, lines, (start, _) = sections[-1]
            lines.append(line)
            sections[-1] = (name, lines, (start, end))
        elif line.strip():
            raise ShapeError(f"does not begin with {_one_of(names)}")
        position = end + 1
    if not sections:
        raise ShapeError("has no text")
    return sections


def _one_of(names: Sequence[str]) -> str:
    return " or ".join(f"'{label_of(name)}:'" for name in names)


def _without_quote(names: Sequence[str]) -> Callable[[str], str]:
    pattern = _pattern(tuple(names))

    def unquoted(line: str) -> str:
        match = pattern.match(line)
        return line.removeprefix(_QUOTE) if match is not None and match["quote"] else line

    return unquoted


@lru_cache(maxsize=64)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of a line with a label, which may have quotes before it."""
    spelled = "|".join(
        r"[ \t_]+".join(map(re.escape, label_of(name).split(" ")))
        for name in sorted(names, key=len, reverse=True)
    )
    return re.compile(
        rf"(?P<quote>(?:> )*)[ \t]*(?:[-*•][ \t]+)?"
        rf"(?:\*\*[ \t]*(?P<bold>{spelled})[ \t]*(?:\*\*[ \t]*[:：]|[:：][ \t]*\*\*)"
        rf"|(?P<label>{spelled})[ \t]*[:：])(?P<rest>[^\n]*)",
        re.IGNORECASE,
    )
