"""The MST mechanism, a baseline for AIM. All its answers on private data come from a
`MarginalMeasurer`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Final

from sugarbush.tables.marginal_measurer import Candidate, MarginalMeasurer
from sugarbush.tables.synthesis import (
    Synthesis,
    all_of,
    find_rare,
    finish,
    finish_singles,
    fit,
    measure_singles,
    merge_rare,
)

# One-way marginals, the choice of the tree and the marginals of the tree get equal shares.
_THIRD: Final = 1 / 3
_RARE_SIGMAS: Final = 3.0


def mst(measurer: MarginalMeasurer, *, max_cells: int) -> Synthesis:
    """Make synthetic rows from a tree of two-way marginals with strong dependence.

    Each of at most d - 1 choices joins two components of the tree (Kruskal's algorithm with noise).
    Pairs with more than `max_cells` cells are excluded, so the result may be a forest. Source:
    McKenna, Miklau, Sheldon 2021 (arXiv:2108.04978), Algorithms 1 and 2.
    """
    whole = measurer.mu_squared_left
    measurements = measure_singles(measurer, mu_squared=_THIRD * whole)
    rare = find_rare(measurements, sigmas=_RARE_SIGMAS)
    merge_rare(measurer, rare)
    model = fit(measurer.domain, measurements, rare=rare)
    pairs = {
        pair: Candidate(attributes=pair, estimate=model.marginal(pair), weight=1.0, penalty=0.0)
        for pair in itertools.combinations(measurer.domain, 2)
        if math.prod(measurer.shape(pair)) <= max_cells
    }
    edges = len(measurer.domain) - _count_parts(measurer.domain, pairs)
    tree: list[tuple[tuple[str, str], float]] = []
    part = {name: name for name in measurer.domain}
    for _ in range(edges):
        joining = [c for (one, other), c in pairs.items() if part[one] != part[other]]
        chosen, cost = measurer.select(joining, mu=all_of(_THIRD * whole / edges))
        one, other = joining[chosen].attributes
        tree.append(((one, other), cost))
        part = _join(part, one, other)
    if not tree:
        return finish_singles(measurer, measurements, rare=rare, round=1)
    left = measurer.mu_squared_left
    for number, (pair, cost) in enumerate(tree, start=1):
        measurements.append(
            measurer.measure(pair, mu=all_of(left / len(tree)), round=number, selection_mu=cost)
        )
    return finish(measurer.domain, measurements, rare=rare, start=model)


def _join(part: dict[str, str], one: str, other: str) -> dict[str, str]:
    """Add an edge between `one` and `other`, and return the new component of each attribute."""
    gone = part[other]
    return {name: part[one] if at == gone else at for name, at in part.items()}


def _count_parts(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> int:
    """Return the number of components if every allowed pair is joined. The number is public."""
    part = {name: name for name in names}
    for one, other in pairs:
        part = _join(part, one, other)
    return len(set(part.values()))
