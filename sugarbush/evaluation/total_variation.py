"""Computes the mean total variation distance over all k-way marginals of a categorical table.

The mean is the usual workload error of a DP table synthesizer. McKenna et al. 2022 (AIM), Section
6, report the L1 distance, which is twice the total variation distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import ResampledRows
from sugarbush.evaluation.interface import (
    TABLE,
    Metric,
    MetricSettings,
    MetricValue,
    Sample,
    distance_value,
)

# Below this ratio of cells to rows of both tables, counting all cells is faster than sorting.
_CELLS_A_ROW = 8


def total_variation(
    reference: NDArray[np.integer[Any]],
    synthetic: NDArray[np.integer[Any]],
    *,
    domain: Mapping[str, int],
    ways: int,
) -> float:
    """Compute the mean of L1 distance / 2 of marginals over all sets of `ways` columns, in [0, 1].

    `reference` (n, a) and `synthetic` (m, a) are codes in the order of `domain`. Raises
    InvariantError if a table is empty or has fewer than `ways` attributes.
    """
    if not len(reference) or not len(synthetic) or not 1 <= ways <= len(domain):
        raise InvariantError(
            f"total variation needs two non-empty tables and 1 to {len(domain)} ways, got "
            f"{len(reference)} and {len(synthetic)} rows and {ways} ways"
        )
    sizes = tuple(domain.values())
    distances = [
        _marginal_distance(reference[:, chosen], synthetic[:, chosen], [sizes[c] for c in chosen])
        for chosen in map(list, combinations(range(len(sizes)), ways))
    ]
    return float(np.mean(distances))


def _marginal_distance(
    reference: NDArray[np.integer[Any]], synthetic: NDArray[np.integer[Any]], sizes: list[int]
) -> float:
    first, second = (
        np.ravel_multi_index(tuple(table.T), sizes) for table in (reference, synthetic)
    )
    count = int(np.prod(sizes))
    if count > _CELLS_A_ROW * (len(first) + len(second)):
        # A 3-way marginal of large domains is mostly empty, so only cells that occur are counted.
        occurring, indices = np.unique(np.concatenate([first, second]), return_inverse=True)
        first, second, count = indices[: len(first)], indices[len(first) :], len(occurring)
    p = np.bincount(first, minlength=count) / len(first)
    q = np.bincount(second, minlength=count) / len(second)
    return float(np.abs(p - q).sum() / 2)


def _measure(heldout: Sample, synthetic: Sample, settings: MetricSettings) -> Iterator[MetricValue]:
    if not settings.domain:
        return
    domain = settings.domain
    for ways in (2, 3):
        if len(domain) < ways:
            continue

        def distance(p: ResampledRows, q: ResampledRows, ways: int = ways) -> float:
            return total_variation(heldout.codes[p], synthetic.codes[q], domain=domain, ways=ways)

        name = f"total_variation_{ways}"
        yield distance_value(name, TABLE, distance, (heldout, synthetic), settings, most=1.0)


METRIC = Metric(name="total_variation", measure=_measure)
