"""The attribute values that first texts must have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.evolution.population import NO_CODE
from sugarbush.evolution.selection import apportion
from sugarbush.randomness import Rng


@dataclass(frozen=True, kw_only=True)
class Donated:
    """Donated texts (m,) with their codes (m, d). The guarantee does not cover donated texts."""

    texts: tuple[str, ...]
    codes: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The required values of n first candidates: `codes` (n, d) and `labels` (n,).

    The code NO_CODE allows any value.
    """

    codes: NDArray[np.int64]
    labels: NDArray[np.int64]

    def take(self, places: NDArray[np.integer[Any]]) -> Targets:
        """Return the targets at `places`."""
        return Targets(codes=self.codes[places], labels=self.labels[places])

    def join(self, other: Targets) -> Targets:
        """Return these targets, followed by the targets of `other`."""
        return Targets(
            codes=np.concatenate([self.codes, other.codes]),
            labels=np.concatenate([self.labels, other.labels]),
        )


def open_targets(count: int, schema: Schema) -> Targets:
    """Return targets without required attribute values."""
    return Targets(
        codes=np.full((count, len(schema.attributes)), NO_CODE, dtype=np.int64),
        labels=np.zeros(count, dtype=np.int64),
    )


def targets_by_label(
    count: int, schema: Schema, *, attribute: str, label_counts: NDArray[Any]
) -> Targets:
    """Return targets in proportion to the DP counts of one attribute's values.

    A negative count is replaced by 0.
    """
    weights = np.maximum(np.asarray(label_counts, dtype=np.float64), 0.0)
    labels = np.repeat(np.arange(len(weights)), apportion(weights, total=count))
    targets = open_targets(count, schema)
    targets.codes[:, schema.names.index(attribute)] = labels
    return replace(targets, labels=labels.astype(np.int64))


def targets_by_rows(count: int, rows: NDArray[np.int64], *, rng: Rng) -> Targets:
    """Return targets with the codes of DP rows, in random order.

    Every row is used once before any row is used again. Raises ParamsError for an empty table.
    """
    if not len(rows):
        raise ParamsError(
            "the DP table is empty, because the corpus is too small for this budget. Use more "
            "records, or raise privacy.epsilon"
        )
    passes = [rng.permutation(len(rows)) for _ in range(-(-count // len(rows)))]
    codes = rows[np.concatenate(passes)[:count]]
    return Targets(codes=codes, labels=np.zeros(count, dtype=np.int64))
