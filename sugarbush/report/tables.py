"""Returns released values as tables, for the page and for `dvc plots`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.report.model import PublicData, SyntheticText
from sugarbush.report.svg import thinned


def votes_table(data: PublicData) -> pd.DataFrame:
    """Return noisy votes by rank, highest first, with at most 200 ranks per round.

    The ranks are evenly spaced on a logarithmic axis. Scores are in units of one vote, rounded to
    0.001.
    """
    rows = [
        {
            "method": method.name,
            "round": number,
            "rank": rank,
            "votes": round(ranked[rank - 1].item(), 3),
        }
        for method in data.methods
        for number, scored in enumerate(method.all_scores, start=1)
        for ranked in [np.sort(scored.votes.value)[::-1]]
        for rank in thinned(len(ranked)).tolist()
    ]
    return pd.DataFrame(rows, columns=["method", "round", "rank", "votes"])


def survivors_table(data: PublicData) -> pd.DataFrame:
    """Count the survivors of every round. Group them by the round for which their texts were
    written."""
    rows = [
        {
            "method": method.name,
            "round": round_.number,
            "written": int(written),
            "survivors": int(count),
        }
        for method in data.methods
        for round_ in method.rounds
        for written, count in zip(
            *np.unique(round_.written[round_.survivors], return_counts=True), strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["method", "round", "written", "survivors"])


def with_ancestors(
    final: Sequence[SyntheticText], candidates: Iterable[SyntheticText]
) -> tuple[SyntheticText, ...]:
    """Return the texts in `final`, followed by all their ancestors.

    A survivor is a candidate of several rounds, with the same id. So the function uses only the
    first candidate with an id. A lineage ends at a parent that is not among the candidates.
    """
    by_id: dict[int, SyntheticText] = {}
    for candidate in candidates:
        by_id.setdefault(candidate.id, candidate)
    ids = {text.id for text in final}
    ancestors: list[SyntheticText] = []
    waiting = [text.parent for text in final]
    while waiting:
        parent = waiting.pop()
        if parent is None or parent in ids or parent not in by_id:
            continue
        ids.add(parent)
        ancestors.append(replace(by_id[parent], final=False))
        waiting.append(by_id[parent].parent)
    return (*final, *sorted(ancestors, key=lambda text: text.id))


def synthetic_projection(embeddings: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """Return a function from embeddings (n, d) to positions (n, 2) on a map.

    The axes are principal components of the synthetic texts. Synthetic texts are released, so the
    public map is post-processing. Only the internal page also shows real texts, on the same axes.
    Raises InvariantError for fewer than two texts.
    """
    if len(embeddings) < 2 or embeddings.shape[1] < 2:
        raise InvariantError("a map needs two texts and two dimensions")
    mean = embeddings.mean(axis=0, dtype=np.float64)
    axes = np.linalg.svd(embeddings - mean, full_matrices=False)[2][:2]
    # The sign of an axis is arbitrary. To make the map reproducible, the largest component is
    # positive.
    axes *= np.sign(axes[[0, 1], np.abs(axes).argmax(axis=1)])[:, None]
    return lambda other: (other - mean) @ axes.T
