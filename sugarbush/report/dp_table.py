"""Prepares the page's section on the DP table: measured marginals, strongest pairs, first rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.report.model import InternalData, Pair
from sugarbush.tables.dp_table import DpTable, Measurement

_STRONGEST = 10
_SHOWN_ROWS = 10
_BATCH_ROWS = 2**18


def dependence(codes: NDArray[np.int64], names: Sequence[str]) -> dict[Pair, float]:
    """Return how far each pair of columns is from independence, from 0 to 1. `codes` is (n, d).

    The measure is the total variation distance between the joint distribution and the product of
    the marginals. This distance is the share of rows that must change to make the columns
    independent. With few rows and many cells, the measure is larger by chance.
    """
    if not len(codes):
        return dict.fromkeys(itertools.combinations(names, 2), 0.0)
    sizes = [int(column.max()) + 2 for column in codes.T]  # cell 0 is a missing value, -1
    distances = {}
    for first, second in itertools.combinations(range(len(names)), 2):
        shape = sizes[first], sizes[second]
        counts = np.zeros(shape, dtype=np.int64)
        for start in range(0, len(codes), _BATCH_ROWS):
            pair = codes[start : start + _BATCH_ROWS, [first, second]].astype(np.int64) + 1
            cells = np.ravel_multi_index((pair[:, 0], pair[:, 1]), shape)
            counts += np.bincount(cells, minlength=counts.size).reshape(shape)
        joint = counts / len(codes)
        product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        distances[names[first], names[second]] = float(np.abs(joint - product).sum() / 2)
    return distances


def table_view(table: DpTable, schema: Schema, internal: InternalData | None) -> dict[str, Any]:
    """Prepare the DP table for the template.

    With `internal`, the result also contains the dependence of each pair in the private table,
    which is not DP.
    """
    real = {} if internal is None else internal.dependence
    rows = table.rows.value
    rounds = itertools.groupby(table.measurements, key=lambda measurement: measurement.round)
    return {
        "records": table.record_count.value,
        "merged": {name: cells.count(max(cells)) for name, cells in table.merged.items()},
        "rounds": [
            _round(number, list(measurements), table.mu_spent) for number, measurements in rounds
        ],
        "independent": is_independent(table),
        "pairs": _strongest(table, dependence(rows, schema.names), real),
        "real": bool(real),
        "names": schema.names,
        "rows": [
            [value for _, value in schema.decode(tuple(row))] for row in rows[:_SHOWN_ROWS].tolist()
        ],
    }


def is_independent(table: DpTable) -> bool:
    """Return whether the last round measured only single attributes, each of them once.

    Such a table does not model how attributes depend on each other.
    """
    last = [
        measurement
        for measurement in table.measurements
        if measurement.round == table.measurements[-1].round
    ]
    alone = all(len(measurement.attributes) == 1 for measurement in last)
    return alone and len(last) == table.rows.value.shape[1]


def _round(number: int, measurements: Sequence[Measurement], mu: float) -> dict[str, Any]:
    """Describe one round. Its costs are fractions of the table's mu^2."""
    single = [
        measurement.attributes[0]
        for measurement in measurements
        if len(measurement.attributes) == 1
    ]
    return {
        "number": number,
        "measured": (
            f"each of {len(measurements)} attributes alone"
            if len(single) == len(measurements) > 1
            else "; ".join(" × ".join(measurement.attributes) for measurement in measurements)
        ),
        "cells": sum(measurement.counts.size for measurement in measurements),
        "stddev": max(measurement.stddev for measurement in measurements),
        "choosing": math.fsum(measurement.selection_mu**2 for measurement in measurements) / mu**2,
        "measuring": math.fsum(measurement.mu**2 for measurement in measurements) / mu**2,
    }


def _strongest(
    table: DpTable, synthetic: Mapping[Pair, float], real: Mapping[Pair, float]
) -> list[dict[str, Any]]:
    """Return the most dependent pairs of the DP table, with the rounds that measured them.

    If the table models no pairs, return the most dependent pairs of the real texts, `real`. For the
    public page, `real` is empty.
    """
    strengths = real if is_independent(table) else synthetic
    return [
        {
            "pair": " × ".join(pair),
            "strength": synthetic[pair],
            "rounds": [
                measurement.round
                for measurement in table.measurements
                if set(pair) <= {*measurement.attributes}
            ],
            "real": real.get(pair),
        }
        for pair, _ in sorted(strengths.items(), key=lambda item: -item[1])[:_STRONGEST]
    ]
