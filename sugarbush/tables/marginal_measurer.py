"""Gives engines noisy answers about the private table. No other code reads the table.

An engine requests a noisy marginal (`measure`), noisy distances between marginals and its model
(`distances`), or the marginal for which its model has the largest error (`select`). One Gaussian-DP
filter charges every answer before the noise is drawn. All answers together are therefore mu-GDP,
for any choice of requests. All further work of an engine is post-processing.

Sensitivities when one unit of at most m records is added or removed:

    a marginal                     L2: m    (each record is in one cell; all m may be in one cell)
    ||marginal - estimate||_1      m        (reverse triangle inequality)
    a selection score              m * weight
    k distances, as integers       L2: sqrt(k) m  (each at most m)

A column of groups (`group`) and a merged attribute recode each record by itself, so these bounds
hold for them too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.gaussian_dp import (
    bounded_range_epsilon,
    bounded_range_mu,
    discrete_gaussian_mu,
    discrete_gaussian_stddev,
)
from sugarbush.privacy.gaussian_dp_filter import GaussianDpFilter
from sugarbush.privacy.noise import discrete_gaussian, report_noisy_max
from sugarbush.privacy.shards import Shards, map_shards
from sugarbush.tables.dp_table import AttributeNames, Measurement
from sugarbush.tables.structural_zeros import TableDomain

# Scores are integer multiples of 1/_GRID^2, clipped to the range that float64 represents exactly
# (8.6e9 records). Rounding and clipping therefore do not increase the sensitivity of scores.
_GRID = 1024
_LARGEST_EXACT = 2**53
_LARGEST_DISTANCE = 2**62
_BATCH_ROWS: Final = 2**18


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A candidate for selection, with the score weight * (||marginal - estimate||_1 - penalty).

    `estimate` is the model's marginal, with one axis per attribute. `weight` is at most 1.
    """

    attributes: AttributeNames
    estimate: NDArray[np.float64]
    weight: float
    penalty: float


@dataclass(frozen=True, kw_only=True)
class _Recoding:
    """The cell of each code of an attribute."""

    attribute: str
    cells: NDArray[np.int64]


def marginal_sensitivity(records_per_unit: int) -> float:
    """Return the L2 sensitivity of a marginal to one unit."""
    return float(records_per_unit)


def score_sensitivity(records_per_unit: int) -> float:
    """Return the sensitivity of a score to one unit, for weights of at most 1."""
    return float(records_per_unit)


class MarginalMeasurer:
    """Gives noisy answers about one private table.

    Guarantee: all answers together are mu-GDP under adding or removing one unit. `table` has one
    row of codes per record, `(n, d)`, with columns in the order of `domain`. A marginal is the sum
    of the exact marginals of the table's shards, so only one shard is in memory.
    """

    def __init__(
        self,
        table: Private[tuple[int, ...]],
        domain: Mapping[str, int],
        *,
        mu: float,
        records_per_unit: int = 1,
    ) -> None:
        if not domain or any(size < 1 for size in domain.values()):
            raise InvariantError("a domain needs attributes, each with at least one value")
        self.domain = TableDomain.of(domain)
        self.records_per_unit = records_per_unit
        self._filter = GaussianDpFilter(mu)
        self._public_domain = self.domain
        self._table = _in_shards(table._per_unit)
        self._cells: dict[str, _Recoding] = {}  # of merged attributes and columns of groups
        self._counted: dict[AttributeNames, NDArray[np.int64]] = {}
        self._count_missing((name,) for name in domain)  # also checks every code

    @property
    def mu_squared_spent(self) -> float:
        return self._filter.spent

    @property
    def mu_squared_left(self) -> float:
        return self._filter.remaining

    def merge(self, attribute: str, cells: Sequence[int]) -> None:
        """Count `cells[code]` instead of `code` from now on. `cells` must be public or released.

        Each record is recoded independently, so the sensitivities stay the same.
        """
        self._recode(attribute, attribute, cells)

    def group(self, column: str, attribute: str, cells: Sequence[int]) -> None:
        """Add a column with `cells[code]` of an attribute. `cells` must be public or released.

        Each record gets one value, from its own code, so the sensitivities stay the same.
        """
        if column in self.domain:
            raise InvariantError("a column of groups needs a new name")
        self._recode(column, attribute, cells)

    def _recode(self, column: str, attribute: str, cells: Sequence[int]) -> None:
        mapping = np.asarray(cells, dtype=np.int64)
        size = int(mapping.max()) + 1
        if len(mapping) != self._public_domain[attribute] or set(mapping.tolist()) != set(
            range(size)
        ):
            raise InvariantError("cells must map every code to a number 0, 1, ..., without gaps")
        self._cells[column] = _Recoding(attribute=attribute, cells=mapping)
        own = {name: one.cells for name, one in self._cells.items() if name == one.attribute}
        groups = self._cells.keys() - own.keys()
        self.domain = self._public_domain.merged(own)
        self.domain |= {n: int(c.cells.max()) + 1 for n, c in self._cells.items() if n in groups}
        self._counted = {c: v for c, v in self._counted.items() if column not in c}

    def unmerge(self) -> None:
        """Undo all calls of `merge` and `group`: count codes again."""
        recoded = self._cells.keys()
        self._counted = {c: v for c, v in self._counted.items() if recoded.isdisjoint(c)}
        self.domain, self._cells = self._public_domain, {}

    def _groups(self, columns: AttributeNames) -> dict[str, tuple[int, ...]]:
        """Return the cells of each attribute that `columns` contain in groups."""
        recoded = {name: self._cells[name] for name in columns if name in self._cells}
        return {
            one.attribute: tuple(one.cells.tolist())
            for name, one in recoded.items()
            if name != one.attribute
        }

    def _attributes(self, columns: AttributeNames) -> AttributeNames:
        return tuple(self._cells[n].attribute if n in self._cells else n for n in columns)

    def shape(self, attributes: AttributeNames) -> tuple[int, ...]:
        return tuple(self.domain[name] for name in attributes)

    def measure(
        self, attributes: AttributeNames, *, mu: float, round: int, selection_mu: float = 0.0
    ) -> Measurement:
        """Measure the marginal of `attributes`, with exact discrete Gaussian noise on each count.

        `attributes` may contain columns of groups. The result names their attributes, and `groups`
        has their cells.
        Guarantee: at most `mu`-GDP, charged to the filter before the noise is drawn.
        """
        sensitivity = marginal_sensitivity(self.records_per_unit)
        stddev = discrete_gaussian_stddev(mu, sensitivity=sensitivity)
        cost = discrete_gaussian_mu(stddev, sensitivity=sensitivity)
        self._filter.spend(cost)
        counts = self._count(attributes)
        noisy = discrete_gaussian(counts.ravel(), stddev=stddev, sensitivity=sensitivity)
        named, groups = self._attributes(attributes), self._groups(attributes)
        return Measurement(
            attributes=named,
            counts=noisy.reshape(counts.shape),
            stddev=stddev,
            mu=cost,
            round=round,
            selection_mu=selection_mu,
            merged=any(n in self._cells and n not in groups for n in named),
            groups=groups,
        )

    def distances(
        self, estimates: Mapping[AttributeNames, NDArray[np.float64]], *, mu: float
    ) -> tuple[NDArray[np.int64], float, float]:
        """Measure ||marginal - estimate||_1 of each marginal, rounded down, with equal noise.

        Returns the noisy distances, the standard deviation of their noise, and the spent mu.
        Guarantee: at most `mu`-GDP, charged to the filter before the noise is drawn. Proof: a unit
        of m records changes a distance by at most m, and so also the distance rounded down,
        because floor(x + m) = floor(x) + m and floor is monotone. So the answer about one distance
        is c-GDP, with the c of a count with sensitivity m. The k noises are independent, so the k
        answers together are sqrt(k) c-GDP.
        """
        sensitivity, root = score_sensitivity(self.records_per_unit), math.sqrt(len(estimates))
        stddev = discrete_gaussian_stddev(mu / root, sensitivity=sensitivity)
        cost = root * discrete_gaussian_mu(stddev, sensitivity=sensitivity)
        self._filter.spend(cost)
        self._count_missing(estimates)
        exact = np.array([self._distance(m, e) // _GRID for m, e in estimates.items()])
        noisy = discrete_gaussian(exact, stddev=stddev, sensitivity=root * sensitivity)
        return noisy, stddev, cost

    def select(self, candidates: Sequence[Candidate], *, mu: float) -> tuple[int, float]:
        """Choose a candidate by the exponential mechanism. Return the index and the spent mu.

        Guarantee: at most `mu`-GDP, charged to the filter before the selection.
        """
        sensitivity = score_sensitivity(self.records_per_unit)
        epsilon = bounded_range_epsilon(mu)
        cost = bounded_range_mu(epsilon)
        self._filter.spend(cost)
        self._count_missing(candidate.attributes for candidate in candidates)
        scores = np.array([self._score(candidate) for candidate in candidates])
        return report_noisy_max(scores, epsilon=epsilon, sensitivity=sensitivity), cost

    def _score(self, candidate: Candidate) -> float:
        """Compute the score of a candidate in integers.

        With floating-point numbers, rounding errors could exceed the proven sensitivity.
        """
        if not 0 < candidate.weight <= 1:
            raise InvariantError("a weight must be above 0 and at most 1")
        weight = max(1, round(candidate.weight * _GRID))
        distance = self._distance(candidate.attributes, candidate.estimate)
        score = weight * (distance - round(candidate.penalty * _GRID))
        return min(max(score, -_LARGEST_EXACT), _LARGEST_EXACT) / _GRID**2

    def _distance(self, attributes: AttributeNames, estimate: NDArray[np.float64]) -> int:
        """Compute ||marginal - estimate||_1, in units of 1/_GRID.

        numpy would repeat counts to fit an estimate of another shape, and so count records twice.
        """
        counts = self._count(attributes)
        if estimate.shape != counts.shape:
            raise InvariantError("an estimate must have the shape of its marginal")
        return int(np.abs(counts * _GRID - _on_grid(estimate)).sum())

    def _count(self, attributes: AttributeNames) -> NDArray[np.int64]:
        self._count_missing([attributes])
        return self._counted[attributes]

    def _count_missing(self, marginals: Iterable[AttributeNames]) -> None:
        """Count the marginals that are not counted yet, in one pass over the table."""
        missing = [m for m in dict.fromkeys(marginals) if m not in self._counted]
        if not missing:
            return
        count_shard = partial(
            _marginals, marginals=missing, domain=self._public_domain, cells=self._cells
        )
        ends = np.cumsum([math.prod(self.shape(marginal)) for marginal in missing])
        counts = np.split(self._table.total(count_shard), ends[:-1])
        for marginal, own in zip(missing, counts, strict=True):
            self._counted[marginal] = own.reshape(self.shape(marginal))


def _in_shards(per_unit: Any) -> Shards:
    """Return the table in shards. A table in memory becomes shards of `_BATCH_ROWS` rows."""
    if isinstance(per_unit, Shards):
        return per_unit
    table = np.asarray(per_unit)
    starts = range(0, max(len(table), 1), _BATCH_ROWS)
    return Shards(
        shards=tuple(starts),
        sizes=tuple(len(table[start : start + _BATCH_ROWS]) for start in starts),
        read=lambda start: table[start : start + _BATCH_ROWS],
        map_shards=map_shards,
    )


def _marginals(
    table: NDArray[Any],
    *,
    marginals: Sequence[AttributeNames],
    domain: Mapping[str, int],
    cells: Mapping[str, _Recoding],
) -> NDArray[np.int64]:
    """Count the marginals of some rows, one after the other. Errors show no values of the rows."""
    codes = _columns(table, domain)
    columns, sizes = dict(codes), dict(domain)
    for name, one in cells.items():
        columns[name], sizes[name] = one.cells[codes[one.attribute]], int(one.cells.max()) + 1
    counts = []
    for marginal in marginals:
        cell = np.zeros(len(table), dtype=np.int64)
        for name in marginal:
            cell = cell * sizes[name] + columns[name]
        counts.append(np.bincount(cell, minlength=math.prod(sizes[name] for name in marginal)))
    return np.concatenate(counts)


def _columns(table: NDArray[Any], domain: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Split rows into one array per column. Errors show no values of the rows."""
    if table.size == 0:
        table = np.zeros((0, len(domain)), dtype=np.int64)
    if table.ndim != 2 or table.shape[1] != len(domain):
        raise InvariantError("every record must have one code per attribute of the schema")
    if not np.issubdtype(table.dtype, np.integer):
        raise InvariantError("codes must be integers")
    columns = dict(zip(domain, np.ascontiguousarray(table.T), strict=True))
    for name, column in columns.items():
        if len(column) and not (column.min() >= 0 and column.max() < domain[name]):
            raise InvariantError(f"attribute '{name}' has a code outside its domain")
    return columns


def _on_grid(estimate: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round to multiples of 1/_GRID. Raises InvariantError on NaN.

    Huge estimates are clipped, because distances must not overflow an integer.
    """
    if np.isnan(estimate).any():
        raise InvariantError("an estimate of a marginal is not a number")
    largest = _LARGEST_DISTANCE // max(estimate.size, 1)
    return np.rint(np.clip(estimate * _GRID, -largest, largest)).astype(np.int64)
