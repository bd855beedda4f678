"""The attribute values that first texts must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.drawn_values import draw_values, possible_rows
from sugarbush.data.mix import Mix
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.evolution.population import NO_CODE, no_values
from sugarbush.evolution.selection import apportion
from sugarbush.randomness import Rng

_EMPTY_TABLE = (
    "the DP table is empty, because the corpus is too small for this budget. Use more records, or "
    "raise privacy.epsilon"
)


@dataclass(frozen=True, kw_only=True)
class Donated:
    """Donated texts (m,) with their codes (m, d). The guarantee does not cover donated texts."""

    texts: tuple[str, ...]
    codes: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The required values of n first candidates: `codes` (n, d) and `labels` (n,).

    The code NO_CODE allows any value. `values` (n, d) are the numbers and dates that prompts show,
    inside the bins with these codes, or NaN.
    """

    codes: NDArray[np.int64]
    labels: NDArray[np.int64]
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        if self.values.shape != self.codes.shape:
            object.__setattr__(self, "values", no_values(self.codes))

    def take(self, places: NDArray[np.integer[Any]]) -> Targets:
        """Return the targets at `places`."""
        return Targets(
            codes=self.codes[places], labels=self.labels[places], values=self.values[places]
        )

    def open_from(self, place: int) -> Targets:
        """Return the targets, without a required value from number `place` on."""
        codes, values = self.codes.copy(), self.values.copy()
        codes[place:], values[place:] = NO_CODE, np.nan
        return Targets(codes=codes, labels=self.labels, values=values)

    def within(
        self, cliques: Sequence[Sequence[int]], *, rng: Rng, always: Sequence[int] = ()
    ) -> Targets:
        """Return the targets with the values of one clique each, and any value for the rest.

        `cliques` are columns of `codes`. Each clique is used once before one is used again, so
        every attribute and every dependence is requested about as often as the table allows. The
        choice of a clique does not depend on the row, so the values of each clique have the shares
        of the rows. Each target also has the values of the columns `always`. Guarantee:
        post-processing, with public randomness.
        """
        count = len(self.codes)
        passes = [rng.permutation(len(cliques)) for _ in range(-(-count // len(cliques)))]
        chosen = np.concatenate(passes)[:count]
        masks = np.zeros((len(cliques), self.codes.shape[1]), dtype=bool)
        for number, columns in enumerate(cliques):
            masks[number, [*columns, *always]] = True
        is_requested = masks[chosen]
        return replace(
            self,
            codes=np.where(is_requested, self.codes, NO_CODE),
            values=np.where(is_requested, self.values, np.nan),
        )

    def join(self, other: Targets) -> Targets:
        """Return these targets, followed by the targets of `other`."""
        return Targets(
            codes=np.concatenate([self.codes, other.codes]),
            labels=np.concatenate([self.labels, other.labels]),
            values=np.concatenate([self.values, other.values]),
        )

    def with_values(self, schema: Schema, *, rng: Rng) -> Targets:
        """Return the targets with numbers and dates in their bins, which obey the rules.

        Guarantee: post-processing of released codes, with public randomness.
        """
        if not schema.has_quantities:
            return self
        values, _ = draw_values(
            schema,
            self.codes,
            shares=lambda attempt, rows: rng.random((len(rows), len(schema.names))),
        )
        return replace(self, values=values)


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


def targets_by_mix(
    count: int, rows: NDArray[np.int64], schema: Schema, *, mix: Mix, rng: Rng
) -> Targets:
    """Return targets with the codes of DP rows, of which each cell of the mix has its share.

    Shares hold within rounding, by the largest remainder. Within a cell, every row is used once
    before any row is used again. The first targets have nearly the same shares as all.
    """
    if not len(rows):
        raise ParamsError(_EMPTY_TABLE)
    counts = apportion(mix.shares, total=count)
    cells = mix.spread(counts)
    codes = np.empty((count, rows.shape[1]), dtype=np.int64)
    for cell, size in enumerate(counts.tolist()):
        if size:
            own = mix.rows_of(cell, rows, schema)
            passes = [rng.permutation(len(own)) for _ in range(-(-size // len(own)))]
            codes[cells == cell] = own[np.concatenate(passes)[:size]]
    return Targets(codes=codes, labels=np.zeros(count, dtype=np.int64))


def targets_by_rows(count: int, rows: NDArray[np.int64], schema: Schema, *, rng: Rng) -> Targets:
    """Return targets with the codes of DP rows, in random order.

    Every row is used once before any row is used again. A row with bins in which no values obey the
    rules is not used. Raises ParamsError for an empty table, and if the rules allow no row.
    """
    if len(rows) and not len(rows := rows[possible_rows(schema, rows)]):
        raise ParamsError(
            "no row of the DP table can obey the rules of the schema. Remove or change `rules`"
        )
    if not len(rows):
        raise ParamsError(_EMPTY_TABLE)
    passes = [rng.permutation(len(rows)) for _ in range(-(-count // len(rows)))]
    codes = rows[np.concatenate(passes)[:count]]
    return Targets(codes=codes, labels=np.zeros(count, dtype=np.int64))
