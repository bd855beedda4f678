"""Final texts with the candidates that they descend from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sugarbush.report.model import SyntheticText


def with_ancestors(
    final: Sequence[SyntheticText], candidates: Iterable[SyntheticText]
) -> tuple[SyntheticText, ...]:
    """`final`, then every candidate that one of them descends from, marked as an ancestor.

    Ids are unique within a method; a survivor keeps its id from round to round, and the first of
    several candidates of one id is taken. A parent that is not among the candidates ends a line.
    """
    known: dict[int, SyntheticText] = {}
    for candidate in candidates:
        known.setdefault(candidate.id, candidate)
    shown = {text.id for text in final}
    ancestors: list[SyntheticText] = []
    waiting = [text.parent for text in final]
    while waiting:
        parent = waiting.pop()
        if parent is None or parent in shown or parent not in known:
            continue
        shown.add(parent)
        ancestors.append(replace(known[parent], final=False))
        waiting.append(known[parent].parent)
    return (*final, *sorted(ancestors, key=lambda text: text.id))
