"""The DP table on the page: the measured marginals, the strongest pairs, the first rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.report.model import DpTableFacts, InternalData, MeasuredMarginal, Pair

_STRONGEST = 10


def dependence(codes: NDArray[np.int64], names: Sequence[str]) -> dict[Pair, float]:
    """The distance of each pair of columns of `codes` (n, d) from independence, from 0 to 1.

    The total variation between the joint distribution and the product of the marginals. It is the
    share of rows that must change to make the columns independent. It increases if there are few
    rows and many cells.
    """
    columns = [np.unique(column, return_inverse=True)[1] for column in codes.T]
    shares = [np.bincount(column) / len(codes) for column in columns]
    found = {}
    for one, other in itertools.combinations(range(len(names)), 2):
        size = len(shares[other])
        cells, counts = np.unique(columns[one] * size + columns[other], return_counts=True)
        product = shares[one][cells // size] * shares[other][cells % size]
        # Cells without rows contribute the rest of the product's mass.
        apart = np.abs(counts / len(codes) - product).sum() + 1 - product.sum()
        found[names[one], names[other]] = float(apart / 2)
    return found


def table_view(
    facts: DpTableFacts, schema: Schema, internal: InternalData | None
) -> dict[str, Any]:
    """The DP table for the template, with real dependences if `internal` is given."""
    real = {} if internal is None else internal.dependence
    return {
        "records": facts.record_count,
        "merged": dict(facts.merged),
        "rounds": [_round(number, list(own)) for number, own in _by_round(facts.measured)],
        "independent": is_independent(facts),
        "pairs": _strongest(facts, real),
        "real": bool(real),
        "names": schema.names,
        "rows": [[value for _, value in schema.decode(tuple(row))] for row in facts.rows.tolist()],
    }


def is_independent(facts: DpTableFacts) -> bool:
    """Whether the engine modelled no pairs: its last round measured each attribute alone."""
    last = [one for one in facts.measured if one.round == facts.measured[-1].round]
    alone = all(len(one.attributes) == 1 for one in last)
    return alone and len(last) == facts.rows.shape[1]


def _by_round(measured: Sequence[MeasuredMarginal]) -> Any:
    return itertools.groupby(measured, key=lambda one: one.round)


def _round(number: int, own: Sequence[MeasuredMarginal]) -> dict[str, Any]:
    choosing = math.fsum(one.choosing for one in own)
    measuring = math.fsum(one.measuring for one in own)
    single = [one.attributes[0] for one in own if len(one.attributes) == 1]
    return {
        "number": number,
        "measured": (
            f"each of {len(own)} attributes alone"
            if len(single) == len(own) > 1
            else "; ".join(" × ".join(one.attributes) for one in own)
        ),
        "cells": sum(one.cells for one in own),
        "stddev": max(one.stddev for one in own),
        "choosing": choosing,
        "measuring": measuring,
    }


def _strongest(facts: DpTableFacts, real: Mapping[Pair, float]) -> list[dict[str, Any]]:
    """The most dependent pairs of the DP table, with the rounds that measured them.

    If the table has no dependence, the pairs of the real texts; none on the public page.
    """
    found = real if is_independent(facts) else facts.dependence
    ranked = sorted(found.items(), key=lambda item: -item[1])[:_STRONGEST]
    return [
        {
            "pair": " × ".join(pair),
            "strength": facts.dependence[pair],
            "rounds": [one.round for one in facts.measured if set(pair) <= set(one.attributes)],
            "real": real.get(pair),
        }
        for pair, _ in ranked
    ]
