"""AIM: an adaptive and iterative mechanism for synthetic data, in Gaussian DP, in three rounds.

    measure   every one-way marginal
    repeat    measure, for each candidate, the distance between its marginal and the model
              choose the marginals that lower the error most, and divide the round's budget
              measure these marginals
              fit the model to all measurements so far

The first round measures a tree of pairs. Before the second round, the values of large attributes
are grouped, and pairs of groups become candidates too. Every private answer comes from the
measurer, and the measurer's filter limits the total cost. All code in this module is
post-processing. Sources: McKenna, Mullins, Sheldon, Miklau 2022 (arXiv:2201.12677) for the
adaptive rounds and the weights; google/dpsynth's SWIFT for noisy distances of all candidates at
once and budgets in proportion to cells^(2/3). docs/decisions/aim-in-gaussian-dp.md has the proof.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sugarbush.tables.dp_table import AttributeNames, Measurement, attribute_of, group_column
from sugarbush.tables.graphical_model import Floats, MarkovRandomField, model_megabytes
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.structural_zeros import zeros_of
from sugarbush.tables.synthesis import (
    RareValues,
    Synthesis,
    all_of,
    find_rare,
    finish,
    finish_evenly,
    finish_singles,
    fit,
    links,
    measure_singles,
    merge_rare,
    only,
)

# E|N(0, s^2)| = s sqrt(2/pi): the L1 error per cell from noise alone.
_MEAN_ABSOLUTE_NOISE: Final = math.sqrt(2 / math.pi)
# Share of mu^2 for the first one-way marginals.
_SINGLES: Final = 0.3
_ROUNDS: Final = 3
# Share of the remaining mu^2 for each round before the last.
_ROUND: Final = 0.2
# Share of a round's budget for the distances.
_DISTANCES: Final = 0.1
# A distance below this number of standard deviations of its noise is not believed.
_BELIEVED: Final = 2.0
# A pair of the tree removes at least this share of its error.
_WORTH: Final = 0.2
# The search goes on if the first round found this share of a tree.
_FOUND: Final = 0.25
# A dependence is found if it exceeds the noise by this number of standard deviations.
_SURE: Final = 3.0
# Values of an attribute with a noisy count below this number of sigmas are merged.
_RARE_SIGMAS: Final = 2.0
# Attributes with more than _LARGE cells get _GROUPS groups of values, for pairs with more than
# _LARGE_PAIR cells.
_LARGE: Final = 16
_GROUPS: Final = 8
_LARGE_PAIR: Final = 400
# The logarithm of the probability of a value in a foreign group, next to 0 for its own group.
_FOREIGN: Final = -60.0
_CLUSTER_STEPS: Final = 20


def aim(
    measurer: MarginalMeasurer, *, degree: int, max_cells: int, max_model_mb: float
) -> Synthesis:
    """Fit a model of the measurer's table to marginals of up to `degree` attributes.

    The function spends the whole budget of the measurer's filter. After rare values are merged, a
    measured marginal of several attributes has at most `max_cells` cells. The model has at most
    `max_model_mb`, except for a tree of pairs and for the groups.

    Until the dependences above the noise are as many as a tree has, the model contains only these
    dependences. If the first round finds few, the rest of the budget is divided evenly among the
    found dependences and the one-way marginals. With few records, the table is therefore no worse
    than independent marginals (docs/decisions/aim-search-and-model.md).
    """
    measurements = measure_singles(measurer, mu_squared=_SINGLES * measurer.mu_squared_left)
    rare = find_rare(measurements, sigmas=_RARE_SIGMAS)
    merge_rare(measurer, rare)
    weights = _candidates(measurer.domain, degree=degree, max_cells=max_cells)
    if not weights:
        return finish_singles(measurer, measurements, rare=rare, round=1)
    edges, singles_stddev = len(measurer.domain) - 1, measurements[0].stddev
    dependences: dict[AttributeNames, None] = {}  # in the order in which they were found
    model = fit(measurer.domain, measurements, rare=rare)
    unpaired = 0.0  # mu^2 of the distances of rounds that measured nothing
    for number in range(1, _ROUNDS + 1):
        last = number == _ROUNDS
        share = measurer.mu_squared_left * (1 if last else _ROUND)
        search = _measure_distances(measurer, model, weights, mu_squared=_DISTANCES * share)
        unpaired += search.mu**2
        budget = (1 - _DISTANCES) * share
        chosen = (
            _tree(search, budget, singles_stddev)
            if number == 1
            else _best(search, budget, [*dependences, *links(measurer.domain)], max_model_mb)
        )
        for columns, mu_squared in chosen.items():
            measurement = measurer.measure(
                columns,
                mu=all_of(mu_squared),
                round=number,
                selection_mu=math.sqrt(unpaired / len(chosen)),
            )
            measurements.append(measurement)
            if len(dependences) >= edges or _shows_dependence(measurement, model, singles_stddev):
                dependences.setdefault(columns)
        unpaired = 0.0 if chosen else unpaired
        found = list(dependences)
        ruled = {zeros.attributes for zeros in zeros_of(measurer.domain)}  # dependences, too
        known = len(ruled.union(found))
        few = known < _FOUND * edges if number == 1 else last and not chosen
        if few:
            rest = finish_evenly(
                measurer, measurements, dependences=found, rare=rare, start=model, round=number + 1
            )
            return _with_selection(rest, unpaired)
        if last:
            break
        model = fit(measurer.domain, only(measurements, found), rare=rare, start=model)
        if number == 1:
            model, weights = _with_groups(measurer, model, weights, rare, max_cells=max_cells)
    return finish(measurer.domain, measurements, rare=rare, start=model, dependences=found)


def _with_selection(synthesis: Synthesis, mu_squared: float) -> Synthesis:
    """Add the cost of distances to the last measurement."""
    *others, last = synthesis.measurements
    paid = replace(last, selection_mu=math.sqrt(last.selection_mu**2 + mu_squared))
    return replace(synthesis, measurements=(*others, paid))


@dataclass(frozen=True, kw_only=True)
class _Search:
    """The noisy distances between candidates and the model, and what a measurement would cost."""

    columns: tuple[AttributeNames, ...]
    errors: Floats
    cells: Floats
    weights: Floats
    stddev: float
    mu: float
    domain: Mapping[str, int]
    unit: float  # the standard deviation of the noise, times mu

    def gains(self, which: Sequence[int], mu_squared: Floats) -> Floats:
        """Return how much of the error of candidates measurements are expected to remove.

        A residual e, spread evenly over the cells, has expected L1 error e p / sqrt(e^2 + p^2) if
        it is shrunk by the best factor. Here p is the L1 error from noise alone. So the rest is
        below both, also if a marginal has far more noise than records.
        """
        error = self.errors[which]
        noise = _MEAN_ABSOLUTE_NOISE * self.unit * self.cells[which] / np.sqrt(mu_squared)
        return np.asarray(self.weights[which] * error * (1 - noise / np.hypot(error, noise)))

    def divide(self, which: Sequence[int], budget: float) -> dict[AttributeNames, float]:
        """Divide a budget so that the sum of all L1 noise is least: by (weight * cells)^(2/3)."""
        parts = (self.weights[which] * self.cells[which]) ** (2 / 3)
        shares = budget * parts / parts.sum()
        return {self.columns[i]: float(s) for i, s in zip(which, shares, strict=True)}


def _measure_distances(
    measurer: MarginalMeasurer,
    model: MarkovRandomField,
    weights: Mapping[AttributeNames, float],
    *,
    mu_squared: float,
) -> _Search:
    estimates = {columns: model.marginal(columns) for columns in weights}
    errors, stddev, mu = measurer.distances(estimates, mu=all_of(mu_squared))
    return _Search(
        columns=tuple(weights),
        errors=np.where(errors > _BELIEVED * stddev, errors, 0).astype(np.float64),
        cells=np.array([math.prod(measurer.shape(columns)) for columns in weights], dtype=float),
        weights=np.array(list(weights.values())),
        stddev=stddev,
        mu=mu,
        domain=measurer.domain,
        unit=float(measurer.records_per_unit),
    )


def _tree(search: _Search, budget: float, singles_stddev: float) -> dict[AttributeNames, float]:
    """Choose a forest of pairs with large distances (Kruskal), and divide the budget.

    A distance must exceed what the noise of the one-way marginals explains, by the largest noise
    that is likely among all distances.
    """
    largest = max(_BELIEVED, math.sqrt(2 * math.log(len(search.columns)))) * search.stddev
    part = {name: name for name in search.domain}
    even, chosen = np.array([budget / len(part)]), []
    for i in np.argsort(-search.errors, kind="stable").tolist():
        columns, error = search.columns[i], search.errors[i]
        explained = singles_stddev * _MEAN_ABSOLUTE_NOISE * sum(search.domain[n] for n in columns)
        if len(columns) > 2 or error < explained + largest:
            continue
        one, other = (part[name] for name in columns)
        worth = _WORTH * search.weights[i] * error
        if one == other or search.gains([i], even)[0] < worth:
            continue
        chosen.append(i)
        part = {name: one if at == other else at for name, at in part.items()}
    return search.divide(chosen, budget) if chosen else {}


def _best(
    search: _Search, budget: float, cliques: Sequence[AttributeNames], max_model_mb: float
) -> dict[AttributeNames, float]:
    """Choose the marginals with the largest total gain, one after the other, and divide the budget.

    Each further marginal leaves less budget for the others. The choice ends when the total no
    longer grows. Of a marginal and its groups, at most one is chosen. `cliques` are in the model.
    """
    parts = (search.weights * search.cells) ** (2 / 3)
    left = np.flatnonzero(search.errors > 0).tolist()
    chosen: list[int] = []
    total = 0.0
    while left:
        wholes = parts[chosen].sum() + parts[left]
        totals = search.gains(left, budget * parts[left] / wholes) + sum(
            (search.gains([i] * len(left), budget * parts[i] / wholes) for i in chosen), 0.0
        )
        place = int(np.argmax(totals))
        if totals[place] <= total:
            break
        best = left.pop(place)
        wanted = [*cliques, *(search.columns[i] for i in [*chosen, best])]
        if model_megabytes(search.domain, wanted) > max_model_mb:
            continue
        total = float(totals[place])
        chosen.append(best)
        alike = set(map(attribute_of, search.columns[best]))
        left = [i for i in left if set(map(attribute_of, search.columns[i])) != alike]
    return search.divide(chosen, budget) if chosen else {}


def _with_groups(
    measurer: MarginalMeasurer,
    model: MarkovRandomField,
    weights: Mapping[AttributeNames, float],
    rare: Mapping[str, RareValues],
    *,
    max_cells: int,
) -> tuple[MarkovRandomField, dict[AttributeNames, float]]:
    """Group the values of large attributes, and add pairs of groups to the candidates.

    Values with nearly equal distributions of all other attributes in the model are in one group.
    The groups are post-processing of released values. A column of groups is a function of its
    attribute: in the model, a value has no probability in a foreign group.
    """
    names = list(measurer.domain)
    potentials: dict[AttributeNames, Floats] = {}
    for name in names:
        if (size := measurer.domain[name]) <= _LARGE:
            continue
        others = [
            model.marginal((name, other))
            for other in names
            if other != name and size * measurer.domain[other] <= max_cells
        ]
        groups = _cluster(others, model.marginal((name,)))
        cells = np.asarray(rare[name].cells) if name in rare else np.arange(size)
        measurer.group(group_column(name), name, groups[cells].tolist())
        own = np.arange(groups.max() + 1) == groups[:, None]
        potentials[name, group_column(name)] = np.where(own, 0.0, _FOREIGN)
    grouped = {name for name, _ in potentials}
    more = {
        tuple(group_column(name) if name in grouped else name for name in columns): weight
        for columns, weight in weights.items()
        if len(columns) == 2
        and math.prod(measurer.shape(columns)) > _LARGE_PAIR
        and not grouped.isdisjoint(columns)
    }
    linked = MarkovRandomField(
        measurer.domain,
        [*model.cliques, *potentials],
        total=model.total,
        potentials={**model.potentials, **potentials},
    )
    return linked, {**weights, **more}


def _cluster(joint: Sequence[Floats], counts: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Cluster values by their conditional distributions, in Hellinger distance, by k-means.

    `joint` has arrays of (values, values of another attribute). Each value counts by its expected
    count. The start is without chance: each further centre is the value that adds most to the cost.
    """
    rows = [
        np.sqrt(np.maximum(j, 0) / np.maximum(j.sum(axis=1, keepdims=True), 1e-9)) for j in joint
    ]
    points = np.concatenate([np.zeros((len(counts), 1)), *rows], axis=1)
    weights = np.maximum(counts, 1e-6)
    centres = points[[int(np.argmax(weights))]]
    for _ in range(_GROUPS - 1):
        cost = weights * _squares(points, centres).min(axis=1)
        if cost.max() <= 0:
            break
        centres = np.concatenate([centres, points[[int(np.argmax(cost))]]])
    for _ in range(_CLUSTER_STEPS):
        nearest = _squares(points, centres).argmin(axis=1)
        _, nearest = np.unique(nearest, return_inverse=True)
        belongs = weights * (nearest == np.arange(nearest.max() + 1)[:, None])
        centres = belongs @ points / belongs.sum(axis=1, keepdims=True)
    return np.asarray(nearest, dtype=np.int64)


def _squares(points: Floats, centres: Floats) -> Floats:
    """Return the squared distance of each point to each centre, `(points, centres)`."""
    square = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(square, 0.0))


def _shows_dependence(
    measurement: Measurement, model: MarkovRandomField, singles_stddev: float
) -> bool:
    """Return whether a marginal shows, beyond noise, an interaction that the model lacks.

    Residual = measured count - model count, main effects removed. The test statistic is the sum of
    the squared residuals. The statistic of noise alone has mean stddev^2 * degrees of
    freedom. Errors of the one-way marginals add at most `singles_stddev`^2 per value.
    """
    domain = measurement.counts.shape
    freedom = measurement.counts.size - 1 - sum(size - 1 for size in domain)
    if freedom < 1:
        return False
    apart = measurement.counts - model.marginal(measurement.columns)
    mean = apart.mean()
    for axis in range(apart.ndim):
        others = tuple(i for i in range(apart.ndim) if i != axis)
        apart = apart - (apart.mean(axis=others, keepdims=True) - mean)
    apart -= mean
    noise = measurement.stddev**2 * (freedom + _SURE * math.sqrt(2 * freedom))
    return bool((apart**2).sum() > noise + singles_stddev**2 * sum(domain))


def _candidates(
    domain: Mapping[str, int], *, degree: int, max_cells: int
) -> dict[AttributeNames, float]:
    """Return all marginals of 2 to `degree` attributes with at least two cells each, weighted.

    A marginal has at most `max_cells` cells. Its weight, in (0, 1], is its overlap with the largest
    marginals: w_r = sum_s c_s |r and s| (AIM, Section 4.1).
    """
    marginals = [
        attributes
        for size in range(2, degree + 1)
        for attributes in itertools.combinations(domain, size)
        if min(domain[name] for name in attributes) > 1
        and math.prod(domain[name] for name in attributes) <= max_cells
    ]
    largest = max(map(len, marginals), default=0)
    top = [set(marginal) for marginal in marginals if len(marginal) == largest]
    shared = {m: max(1, sum(len(t & set(m)) for t in top)) for m in marginals}
    return {m: count / max(shared.values()) for m, count in shared.items()}
