"""Reads the output of stage synthesize_metadata, for the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.evolution.population import NO_CODE
from sugarbush.paths import Roots, require
from sugarbush.privacy.data_types import Released
from sugarbush.release.folders import read_ledger_ids
from sugarbush.report.model import DpCounts
from sugarbush.tables.dp_table import DpTable, Measurement

_ENGINES = {
    "sugarbush": "AIM",
    "smartnoise": "AIM",
    "mst": "MST",
    "independent": "independent marginals",
}


def dp_counts_of(base: Path, schema: Schema) -> DpCounts | None:
    """Return DP counts of the attributes, from the DP table or from a noisy histogram."""
    folder = _folder(base)
    table = dp_table_of(base)
    if table is not None:
        return DpCounts(
            source=f"{_ENGINES[table.engine]}, engine {table.engine}",
            counts=Released(counts_of(table.rows.value, schema), table.rows.ledger_ids),
            stddev=_stddevs(table.measurements),
        )
    if (folder / "labels.npy").exists():
        described = json.loads((folder / "metadata.json").read_text())
        name = described["label"]
        return DpCounts(
            source="one noisy histogram",
            counts=Released({name: np.load(folder / "labels.npy")}, read_ledger_ids(folder)),
            stddev={name: float(described["label_stddev"])},
        )
    return None


def dp_table_of(base: Path) -> DpTable | None:
    """Read the DP table and its measurements. Return None if the run has no DP table."""
    folder = _folder(base)
    if not (folder / "rows.parquet").exists():
        return None
    rows = pd.read_parquet(folder / "rows.parquet").to_numpy(dtype=np.int64)
    return DpTable.from_json(json.loads((folder / "table.json").read_text()), rows)


def counts_of(codes: NDArray[np.int64], schema: Schema) -> dict[str, NDArray[Any]]:
    """Count the values of each attribute. Rows without a value are not counted."""
    found = {}
    for place, attribute in enumerate(schema.attributes):
        column = codes[:, place][codes[:, place] != NO_CODE]
        if len(column):
            found[attribute.name] = np.bincount(column, minlength=len(attribute.domain))
    return found


def _folder(base: Path) -> Path:
    return require(Roots(base).released / "metadata", left_by="synthesize_metadata")


def _stddevs(measurements: Sequence[Measurement]) -> Mapping[str, float]:
    """Return the noise stddev of each attribute's counts. Several one-way measurements of an
    attribute are weighted by their precision."""
    precision: dict[str, float] = {}
    for measured in measurements:
        if len(measured.attributes) == 1 and not measured.merged:
            (name,) = measured.attributes
            precision[name] = precision.get(name, 0.0) + 1 / measured.stddev**2
    return {name: value**-0.5 for name, value in precision.items()}
