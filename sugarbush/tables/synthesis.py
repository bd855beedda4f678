"""The result of an engine, and the steps that all engines use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.randomness import Rng
from sugarbush.tables.dp_table import AttributeNames, Measurement, attribute_of
from sugarbush.tables.graphical_model import Floats, MarkovRandomField
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.model_fit import NoisyMarginal, fit_model
from sugarbush.tables.structural_zeros import Broken

# Each step leaves the fraction 1e-12 of its budget, so that rounding cannot exceed the budget.
_ALL = 1 - 1e-12
# Maximum number of synthetic rows, because a noisy record count could be very large.
MAX_ROWS = 5_000_000
# Maximum number of evaluations of the model: ROUND after each round of AIM, FINAL at the end.
ROUND: Final = 100
FINAL: Final = 400
_SHARINGS: Final = 200  # a rare value that a rule demands may be one of many
# An estimation stops at this loss per count, half of the loss that noise alone causes. In our
# measurements, the optimum (a loss of about 0.2) changed total variation by less than 7%.
ENOUGH: Final = 0.25


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """The result of an engine.

    `rare` contains the values that were merged in measurements. If `model_merged`, the model merges
    rare values too.
    """

    model: MarkovRandomField
    measurements: tuple[Measurement, ...]
    record_count: float
    rare: Mapping[str, RareValues]
    model_merged: bool = True


@dataclass(frozen=True, kw_only=True)
class RareValues:
    """The values of one attribute that were merged because of their low noisy counts.

    `cells` maps every code to its cell. All merged codes have the last cell. `counts` contains
    estimates for all codes.
    """

    cells: tuple[int, ...]
    counts: Floats

    def shares(self, total: float) -> Floats:
        """Return the fraction of each code in the merged cell.

        The fractions are proportional to nonnegative counts with the sum `total`. Among all such
        counts, these are nearest to `counts`.
        """
        merged = np.asarray(self.cells) == max(self.cells)
        shares = np.zeros(len(self.cells))
        shares[merged] = _onto_simplex(self.counts[merged], max(total, 1.0))
        return np.asarray(shares / shares.sum())


def all_of(mu_squared: float) -> float:
    """Return the mu that spends `mu_squared`, minus a margin for rounding."""
    return math.sqrt(mu_squared * _ALL)


def measure_singles(
    measurer: MarginalMeasurer, *, mu_squared: float, round: int = 0
) -> list[Measurement]:
    """Measure every one-way marginal with an equal share of `mu_squared`."""
    mu = all_of(mu_squared / len(measurer.domain))
    return [measurer.measure((name,), mu=mu, round=round) for name in measurer.domain]


def count_records(measurements: Sequence[Measurement]) -> float:
    """Estimate the number of records by the mean of the marginals' sums, weighted by precision."""
    weights = np.array([1 / (m.stddev**2 * m.counts.size) for m in measurements])
    sums = np.array([float(m.counts.sum()) for m in measurements])
    return float(weights @ sums / weights.sum())


def find_rare(singles: Sequence[Measurement], *, sigmas: float) -> dict[str, RareValues]:
    """Find the values of each attribute with a noisy count below `sigmas` standard deviations.

    An attribute with fewer than two rare values is omitted. Guarantee: post-processing.
    """
    rare = {}
    for single in singles:
        (name,) = single.attributes
        kept = single.counts >= sigmas * single.stddev
        if np.count_nonzero(~kept) >= 2:
            cells = np.where(kept, np.cumsum(kept) - 1, np.count_nonzero(kept))
            counts = single.counts.astype(np.float64)
            rare[name] = RareValues(cells=tuple(cells.tolist()), counts=counts)
    return rare


def merge_rare(measurer: MarginalMeasurer, rare: Mapping[str, RareValues]) -> None:
    """Make the measurer count the rare values of each attribute together."""
    for name, values in rare.items():
        measurer.merge(name, values.cells)


def observe(measurement: Measurement, rare: Mapping[str, RareValues]) -> NoisyMarginal:
    """Convert a measurement to the model's form. Add up the merged counts and variances."""
    counts = measurement.counts.astype(np.float64)
    variance = np.full(counts.shape, measurement.stddev**2)
    if not measurement.merged:
        for axis, name in enumerate(measurement.attributes):
            if name in rare and name not in measurement.groups:
                cells = np.asarray(rare[name].cells)
                counts, variance = _add_up(counts, cells, axis), _add_up(variance, cells, axis)
    return NoisyMarginal(attributes=measurement.columns, counts=counts, variance=variance)


def fit(
    domain: Mapping[str, int],
    measurements: Sequence[Measurement],
    *,
    rare: Mapping[str, RareValues],
    start: MarkovRandomField | None = None,
    calibrations: int = ROUND,
) -> MarkovRandomField:
    """Fit a model to the measurements, with the potentials of `start` first.

    If the domain has columns of groups, `start` links each of them to its attribute.
    """
    return fit_model(
        domain,
        [observe(measurement, rare) for measurement in measurements],
        total=max(count_records(measurements), 1.0),
        enough=ENOUGH,
        calibrations=calibrations,
        start=start,
        cliques=links(domain),
    )


def links(domain: Mapping[str, int]) -> list[AttributeNames]:
    """Return each column of groups with its attribute."""
    return [(attribute_of(name), name) for name in domain if attribute_of(name) != name]


def finish(
    domain: Mapping[str, int],
    measurements: Sequence[Measurement],
    *,
    rare: Mapping[str, RareValues],
    start: MarkovRandomField | None = None,
    dependences: Sequence[AttributeNames] | None = None,
) -> Synthesis:
    """Fit the final model, and return the engine's result.

    The model uses all one-way marginals, and the larger marginals in `dependences` (None: all).
    """
    believed = measurements if dependences is None else only(measurements, dependences)
    return Synthesis(
        model=fit(domain, believed, rare=rare, start=start, calibrations=FINAL),
        measurements=tuple(measurements),
        record_count=count_records(measurements),
        rare=rare,
    )


def only(
    measurements: Sequence[Measurement], dependences: Sequence[AttributeNames]
) -> list[Measurement]:
    """Return the measurements of one-way marginals and of the larger marginals in `dependences`."""
    return [m for m in measurements if len(m.attributes) == 1 or m.columns in dependences]


def finish_evenly(
    measurer: MarginalMeasurer,
    measurements: Sequence[Measurement],
    *,
    dependences: Sequence[AttributeNames],
    rare: Mapping[str, RareValues],
    start: MarkovRandomField,
    round: int,
) -> Synthesis:
    """Spend the rest of the budget evenly on the marginals in `dependences` and on all
    one-way marginals.

    The model contains only marginals in `dependences` and one-way marginals. The new measurements
    of one-way marginals do not merge rare values.
    """
    if not dependences:
        return finish_singles(measurer, measurements, rare=rare, round=round)
    domain = measurer.domain
    mu = all_of(measurer.mu_squared_left / (len(dependences) + len(domain)))
    again = [measurer.measure(attributes, mu=mu, round=round) for attributes in dependences]
    measurer.unmerge()
    again += measure_singles(measurer, mu_squared=measurer.mu_squared_left, round=round)
    whole = [*measurements, *again]
    rare = with_all_counts(rare, whole)
    return finish(domain, whole, rare=rare, start=start, dependences=dependences)


def with_all_counts(
    rare: Mapping[str, RareValues], measurements: Sequence[Measurement]
) -> dict[str, RareValues]:
    """Replace the counts of rare values by the mean of all measurements, weighted by precision."""
    better = {}
    for name, values in rare.items():
        singles = [m for m in measurements if m.attributes == (name,) and not m.merged]
        weights = [m.stddev**-2 for m in singles]
        counts = np.average([m.counts for m in singles], axis=0, weights=weights)
        better[name] = replace(values, counts=counts)
    return better


def finish_singles(
    measurer: MarginalMeasurer,
    measurements: Sequence[Measurement] = (),
    *,
    rare: Mapping[str, RareValues] | None = None,
    round: int = 0,
) -> Synthesis:
    """Spend the rest of the budget on one-way marginals, without merged values."""
    measurer.unmerge()
    again = measure_singles(measurer, mu_squared=measurer.mu_squared_left, round=round)
    singles = [m for m in measurements if len(m.attributes) == 1 and not m.merged] + again
    return Synthesis(
        model=fit(measurer.domain, singles, rare={}, calibrations=FINAL),
        measurements=(*measurements, *again),
        record_count=count_records([*measurements, *again]),
        rare=rare or {},
        model_merged=False,
    )


def measured_cliques(synthesis: Synthesis) -> tuple[AttributeNames, ...]:
    """Return the largest sets of attributes in which every pair was measured and is in the model.

    A pair that was measured but showed no dependence is not in the model. Guarantee:
    post-processing, because the engine's released measurements decide the sets.
    """
    import networkx as nx  # slow to import

    names = _attributes(synthesis.model)
    of_model = [{attribute_of(name) for name in c} for c in synthesis.model.cliques]
    modelled, measured = (
        {pair for some in sets for pair in itertools.combinations(sorted(some), 2)}
        for sets in (of_model, (m.attributes for m in synthesis.measurements))
    )
    graph = nx.Graph(modelled & measured)
    graph.add_nodes_from(names)
    order = {name: place for place, name in enumerate(names)}
    cliques = (tuple(sorted(clique, key=order.__getitem__)) for clique in nx.find_cliques(graph))
    return tuple(sorted(cliques, key=lambda clique: [order[name] for name in clique]))


def draw_rows(
    synthesis: Synthesis, rng: Rng, *, count: int | None = None, broken: Broken | None = None
) -> NDArray[np.int64]:
    """Sample `count` rows of codes; None: the DP record count, in [1, MAX_ROWS].

    Where a row is `broken`, other rare values of its cells are drawn, at most _SHARINGS times. Its
    cells stay as the model has them, because a new row would move the one-way marginals.
    """
    count = count or min(max(round(synthesis.record_count), 1), MAX_ROWS)
    names = _attributes(synthesis.model)
    cells = synthesis.model.sample(count, rng)[:, : len(names)]
    if not synthesis.model_merged or not synthesis.rare:
        return cells
    rows = _unmerged(cells, synthesis, names, rng)
    if broken is None:
        return rows
    again = np.arange(len(rows))
    for _ in range(_SHARINGS):
        again = again[broken(rows[again])]
        if not len(again):
            break
        rows[again] = _unmerged(cells[again], synthesis, names, rng)
    return rows


def _unmerged(
    cells: NDArray[np.int64], synthesis: Synthesis, names: Sequence[str], rng: Rng
) -> NDArray[np.int64]:
    """Return rows with a value in place of each cell of merged values."""
    rows = cells.copy()
    for index, name in enumerate(names):
        if name in synthesis.rare:
            rows[:, index] = _unmerge(rows[:, index], synthesis, name, rng)
    return rows


def _attributes(model: MarkovRandomField) -> list[str]:
    """Return the attributes of a model. They are its first columns, before those of groups."""
    return [name for name in model.domain if attribute_of(name) == name]


def _unmerge(
    cells: NDArray[np.int64], synthesis: Synthesis, name: str, rng: Rng
) -> NDArray[np.int64]:
    rare = synthesis.rare[name]
    cell_of_code = np.asarray(rare.cells)
    last = int(cell_of_code.max())
    first_code = np.searchsorted(np.sort(cell_of_code), np.arange(last + 1))
    codes = np.argsort(cell_of_code, kind="stable")[first_code][cells]
    merged = cells == last
    shares = rare.shares(float(synthesis.model.marginal((name,))[last]))
    codes[merged] = rng.choice(len(shares), size=int(merged.sum()), p=shares)
    return codes


def _add_up(values: Floats, cells: NDArray[np.int64], axis: int) -> Floats:
    moved = np.moveaxis(values, axis, 0)
    summed = np.zeros((int(cells.max()) + 1, *moved.shape[1:]))
    np.add.at(summed, cells, moved)
    return np.moveaxis(summed, 0, axis)


def _onto_simplex(values: Floats, total: float) -> Floats:
    """Return the nearest point with entries >= 0 and sum `total` (Duchi et al. 2008, Figure 1)."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    cut = excess[np.flatnonzero(descending > excess)[-1]]
    return np.asarray(np.maximum(values - cut, 0.0))
