"""Reads the output of stage synthesize_metadata, for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.evolution.population import NO_CODE
from sugarbush.privacy.data_types import Released
from sugarbush.release.store import ReleasedMetadata
from sugarbush.report.model import DpCounts
from sugarbush.tables.dp_table import Measurement

_ENGINES = {
    "sugarbush": "AIM",
    "smartnoise": "AIM",
    "mst": "MST",
    "independent": "independent marginals",
}


def dp_counts_of(metadata: ReleasedMetadata, schema: Schema) -> DpCounts | None:
    """Return DP counts of the attributes, from the DP table or from a noisy histogram."""
    table, described = metadata.table, metadata.described
    if table is not None:
        return DpCounts(
            source=f"{_ENGINES[table.engine]}, engine {table.engine}",
            counts=Released(counts_of(table.rows.value, schema), table.rows.ledger_ids),
            stddev=_stddevs(table.measurements),
        )
    if metadata.values.labels is not None:
        name = described["label"]
        return DpCounts(
            source="one noisy histogram",
            counts=Released({name: metadata.values.labels}, metadata.values.ledger_ids),
            stddev={name: float(described["label_stddev"])},
        )
    return None


def counts_of(codes: NDArray[np.int64], schema: Schema) -> dict[str, NDArray[Any]]:
    """Count the values of each attribute. Rows without a value are not counted."""
    found = {}
    for place, attribute in enumerate(schema.attributes):
        column = codes[:, place][codes[:, place] != NO_CODE]
        if len(column):
            found[attribute.name] = np.bincount(column, minlength=len(attribute.domain))
    return found


def _stddevs(measurements: Sequence[Measurement]) -> Mapping[str, float]:
    """Return the noise stddev of each attribute's counts. Several one-way measurements of an
    attribute are weighted by their precision."""
    precision: dict[str, float] = {}
    for measured in measurements:
        if len(measured.attributes) == 1 and not measured.merged:
            (name,) = measured.attributes
            precision[name] = precision.get(name, 0.0) + 1 / measured.stddev**2
    return {name: value**-0.5 for name, value in precision.items()}
