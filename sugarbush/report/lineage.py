"""Final texts with their ancestors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sugarbush.report.model import SyntheticText


def with_ancestors(
    final: Sequence[SyntheticText], candidates: Iterable[SyntheticText]
) -> tuple[SyntheticText, ...]:
    """`final`, then every candidate that is an ancestor of one of them.

    Ids are unique within a method, and a survivor keeps its id in later rounds: the first candidate
    with an id is used. A lineage ends at a parent that is not among the candidates.
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
