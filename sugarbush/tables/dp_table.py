"""A DP table and its measurements as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.privacy.data_types import Released

AttributeNames = tuple[str, ...]

_GROUPS = "\0groups"  # no attribute of a schema has this character in its name


def group_column(attribute: str) -> str:
    """Return the name of the model's column that has the groups of an attribute's values."""
    return attribute + _GROUPS


def attribute_of(column: str) -> str:
    """Return the attribute of a column of the model."""
    return column.removesuffix(_GROUPS)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A noisy marginal.

    `counts` is the marginal plus N_Z(0, stddev^2) per cell, with one axis per attribute in the
    order of `attributes`. `mu` is the cost of the measurement, and `selection_mu` its part of the
    cost of the search: of a selection, or of distances (0 without a search). If `merged`, the axes
    of the attributes in `DpTable.merged` are merged cells, not codes of the schema. The axis of an
    attribute in `groups` has groups of values: `groups` contains the group of each code.
    """

    attributes: AttributeNames
    counts: NDArray[np.int64]
    stddev: float
    mu: float
    round: int
    selection_mu: float = 0.0
    merged: bool = False
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def columns(self) -> AttributeNames:
        """The columns of the model: attributes, and columns of groups."""
        return tuple(group_column(n) if n in self.groups else n for n in self.attributes)

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": list(self.attributes),
            "shape": list(self.counts.shape),
            "counts": self.counts.ravel().tolist(),
            "stddev": self.stddev,
            "mu": self.mu,
            "round": self.round,
            "selection_mu": self.selection_mu,
            "merged": self.merged,
            **({"groups": {n: list(g) for n, g in self.groups.items()}} if self.groups else {}),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Measurement:
        return cls(
            attributes=tuple(fields["attributes"]),
            counts=np.asarray(fields["counts"], dtype=np.int64).reshape(fields["shape"]),
            stddev=float(fields["stddev"]),
            mu=float(fields["mu"]),
            round=int(fields["round"]),
            selection_mu=float(fields["selection_mu"]),
            merged=bool(fields["merged"]),
            groups={n: tuple(g) for n, g in fields.get("groups", {}).items()},
        )


@dataclass(frozen=True, kw_only=True)
class DpTable:
    """Synthetic metadata rows, and all values that were released with them.

    `rows` is `(n_dp, d)` int64 with at least one row: codes in schema order. `record_count` is the
    DP estimate of the number of records, which may be fractional or negative. If rare
    values of an attribute are merged, `merged` contains the model's cell for each code of this
    attribute. `cliques` are the largest sets of attributes in which every pair was measured and is
    in the model. The model takes other pairs as independent, as far as no third attribute links
    them.
    """

    rows: Released[NDArray[np.int64]]
    record_count: Released[float]
    measurements: tuple[Measurement, ...]
    merged: Mapping[str, tuple[int, ...]]
    cliques: tuple[AttributeNames, ...]
    engine: str
    mu_spent: float

    def to_json(self) -> dict[str, Any]:
        """Return all fields except the rows, which are stored as a table."""
        return {
            "engine": self.engine,
            "record_count": self.record_count.value,
            "ledger_ids": list(self.rows.ledger_ids),
            "mu_spent": self.mu_spent,
            "merged": {name: list(cells) for name, cells in self.merged.items()},
            "cliques": [list(clique) for clique in self.cliques],
            "measurements": [measurement.to_json() for measurement in self.measurements],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], rows: NDArray[np.int64]) -> DpTable:
        """Invert `to_json`, given the rows."""
        ids = tuple(fields["ledger_ids"])
        return cls(
            rows=Released(rows, ids),
            record_count=Released(float(fields["record_count"]), ids),
            measurements=tuple(map(Measurement.from_json, fields["measurements"])),
            merged={name: tuple(cells) for name, cells in fields["merged"].items()},
            cliques=tuple(map(tuple, fields["cliques"])),
            engine=str(fields["engine"]),
            mu_spent=float(fields["mu_spent"]),
        )
