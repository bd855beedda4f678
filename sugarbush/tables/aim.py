"""AIM: an adaptive and iterative mechanism for synthetic data, in Gaussian DP.

    measure   every one-way marginal
    repeat    select the marginal for which the model has the largest error
              measure this marginal
              fit the model to all measurements so far
    measure   the marginals that changed the model again, with the rest of the budget

Every private answer comes from the measurer, and the measurer's filter limits the total cost. All
code in this module is post-processing. Source: McKenna, Mullins, Sheldon, Miklau 2022
(arXiv:2201.12677), Algorithms 1 to 4, with mu^2 instead of the paper's rho.
docs/decisions/aim-in-gaussian-dp.md contains the proof and a comparison.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from sugarbush.tables.dp_table import AttributeNames, Measurement
from sugarbush.tables.graphical_model import MarkovRandomField, model_megabytes
from sugarbush.tables.marginal_measurer import Candidate, MarginalMeasurer
from sugarbush.tables.structural_zeros import zeros_of
from sugarbush.tables.synthesis import (
    Synthesis,
    all_of,
    find_rare,
    finish,
    finish_evenly,
    finish_singles,
    fit,
    measure_singles,
    merge_rare,
    only,
)

# E|N(0, s^2)| = s sqrt(2/pi): the L1 error per cell from noise alone.
_MEAN_ABSOLUTE_NOISE: Final = math.sqrt(2 / math.pi)
# With d attributes, the first round spends 1 / (16 d) of the budget (the paper's T = 16 d).
_ROUNDS_PER_ATTRIBUTE: Final = 16
# Share of mu^2 for the first one-way marginals. The paper's share is 0.9/16. In our measurements,
# 0.3 is equally good on 5,000 records at epsilon 1, and better on less data.
_SINGLES: Final = 0.3
# Share of a round's budget for the measurement (the paper's alpha). The rest is for the selection.
_MEASUREMENT: Final = 0.9
# After a round that does not improve the model, the budget of a round is multiplied by this factor
# (Algorithm 3: epsilon doubles and sigma halves).
_ANNEALING: Final = 4
# A dependence is found if it exceeds the noise by this number of standard deviations.
_SURE: Final = 3.0
# Values of an attribute with a noisy count below this number of sigmas are merged.
_RARE_SIGMAS: Final = 3.0


def aim(
    measurer: MarginalMeasurer, *, degree: int, max_cells: int, max_model_mb: float
) -> Synthesis:
    """Fit a model of the measurer's table to marginals of up to `degree` attributes.

    The function spends the whole budget of the measurer's filter. After rare values are merged, a
    selected marginal of several attributes has at most `max_cells` cells. The size limit of the
    model grows with the spent budget, up to `max_model_mb`.

    Until the dependences above the noise form a tree, the model contains only these dependences.
    The search ends when it finds no more dependences. The rest of the budget is then divided evenly
    among the found dependences and the one-way marginals. With few records, the table is therefore
    no worse than independent marginals. With more records, the search ends when a round costs more
    than the rest divided by the number of marginals that changed the model. The rest is then spent
    on all these marginals (docs/decisions/aim-search-and-model.md).
    """
    whole = measurer.mu_squared_left
    measurements = measure_singles(measurer, mu_squared=_SINGLES * whole)
    rare = find_rare(measurements, sigmas=_RARE_SIGMAS)
    merge_rare(measurer, rare)
    marginals = _marginals(measurer.domain, degree=degree, max_cells=max_cells)
    if max(map(len, marginals)) == 1:
        return finish_singles(measurer, measurements, rare=rare, round=1)

    weights = _weights(marginals)
    singles_stddev = measurements[0].stddev
    edges = len(measurer.domain) - 1
    rules = [zeros.attributes for zeros in zeros_of(measurer.domain)]  # dependences of the schema
    dependences: list[AttributeNames] = []
    gains: dict[AttributeNames, None] = {}  # the marginals that changed the model, in order
    model = fit(measurer.domain, measurements, rare=rare)
    budget = whole / (_ROUNDS_PER_ATTRIBUTE * len(measurer.domain))
    for number in itertools.count(1):
        left = measurer.mu_squared_left
        last = left < 2 * budget
        budget = left if last else budget
        limit_mb = max_model_mb * ((whole - left + budget) / whole)
        measurement = _measure_worst(
            measurer,
            model,
            weights={m: w for m, w in weights.items() if _fits(model, m, limit_mb)},
            mu_squared=budget,
            round=number,
        )
        measurements.append(measurement)
        if last:
            break
        before, searching = model, len(dependences) < edges
        shows = searching and _shows_dependence(measurement, before, singles_stddev)
        if shows and measurement.attributes not in dependences:
            dependences.append(measurement.attributes)
        believed = only(measurements, dependences) if len(dependences) < edges else measurements
        model = fit(measurer.domain, believed, rare=rare, start=before)
        gained = shows or (not searching and _learned(measurement, before, model))
        again = measurement.attributes in gains
        if gained and len(measurement.attributes) > 1:
            gains[measurement.attributes] = None
        if again and not searching and measurer.mu_squared_left <= budget * len(gains):
            measurements += _measure_again(measurer, gains, round=number + 1)
            return finish(measurer.domain, measurements, rare=rare, start=model)
        if gained:
            continue
        budget *= _ANNEALING
        known = dependences or rules
        if searching and measurer.mu_squared_left < budget * _rounds_to_try(edges, known):
            return finish_evenly(
                measurer,
                measurements,
                dependences=dependences,
                rare=rare,
                start=model,
                round=number + 1,
            )
    # The last measurement used much of the budget, so the model always contains its marginal.
    kept = None if len(dependences) >= edges else [*dependences, measurements[-1].attributes]
    return finish(measurer.domain, measurements, rare=rare, start=model, dependences=kept)


def _fits(model: MarkovRandomField, attributes: AttributeNames, limit_mb: float) -> bool:
    """Return whether the junction tree with one more marginal fits the limit (Algorithm 2).

    A marginal within a clique of the model adds no cell, so at least one marginal always fits.
    """
    if any(set(attributes) <= set(clique) for clique in model.cliques):
        return True
    return model_megabytes(model.domain, [*model.cliques, attributes]) <= limit_mb


def _rounds_to_try(edges: int, dependences: Sequence[AttributeNames]) -> float:
    """Return the number of affordable rounds below which the search for dependences ends.

    The number is two rounds per edge of a tree that spans all attributes. After the first found
    dependence, or if the schema's rules are one, the number is half a round per edge.
    """
    return edges / 2 if dependences else 2 * edges


def _measure_worst(
    measurer: MarginalMeasurer,
    model: MarkovRandomField,
    *,
    weights: Mapping[AttributeNames, float],
    mu_squared: float,
    round: int,
) -> Measurement:
    """Select and measure the marginal with the largest model error above the noise (Eq. 1)."""
    mu_measure = all_of(_MEASUREMENT * mu_squared)
    noise = _MEAN_ABSOLUTE_NOISE * measurer.noise_of(mu_measure)
    candidates = []
    for attributes, weight in weights.items():
        estimate = model.marginal(attributes)
        penalty = noise * estimate.size
        candidates.append(
            Candidate(attributes=attributes, estimate=estimate, weight=weight, penalty=penalty)
        )
    mu_select = all_of((1 - _MEASUREMENT) * mu_squared)
    chosen, selection_mu = measurer.select(candidates, mu=mu_select)
    return measurer.measure(
        candidates[chosen].attributes,
        mu=all_of(mu_squared - selection_mu**2),
        round=round,
        selection_mu=selection_mu,
    )


def _measure_again(
    measurer: MarginalMeasurer, marginals: Collection[AttributeNames], *, round: int
) -> list[Measurement]:
    """Spend the rest of the budget on marginals.

    The L1 noise of a marginal is proportional to its cells and to its standard deviation. The sum
    of all L1 noise is least if the share of mu^2 is proportional to cells^(2/3).
    """
    shares = {m: math.prod(measurer.shape(m)) ** (2 / 3) for m in marginals}
    left, whole = measurer.mu_squared_left, sum(shares.values())
    return [
        measurer.measure(marginal, mu=all_of(left * share / whole), round=round)
        for marginal, share in shares.items()
    ]


def _learned(measurement: Measurement, before: MarkovRandomField, after: MarkovRandomField) -> bool:
    """Return whether the change of the model's marginal exceeds the noise (Algorithm 3, line 2)."""
    moved = after.marginal(measurement.attributes) - before.marginal(measurement.attributes)
    noise = _MEAN_ABSOLUTE_NOISE * measurement.stddev * moved.size
    return float(np.abs(moved).sum()) > noise


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
    apart = measurement.counts - model.marginal(measurement.attributes)
    mean = apart.mean()
    for axis in range(apart.ndim):
        others = tuple(i for i in range(apart.ndim) if i != axis)
        apart = apart - (apart.mean(axis=others, keepdims=True) - mean)
    apart -= mean
    noise = measurement.stddev**2 * (freedom + _SURE * math.sqrt(2 * freedom))
    return bool((apart**2).sum() > noise + singles_stddev**2 * sum(domain))


def _marginals(domain: Mapping[str, int], *, degree: int, max_cells: int) -> list[AttributeNames]:
    """Return all one-way marginals, and larger marginals with at most `max_cells` cells.

    A larger marginal has 2 to `degree` attributes with at least two cells each.
    """
    return [
        attributes
        for size in range(1, degree + 1)
        for attributes in itertools.combinations(domain, size)
        if size == 1
        or (
            min(domain[name] for name in attributes) > 1
            and math.prod(domain[name] for name in attributes) <= max_cells
        )
    ]


def _weights(marginals: Sequence[AttributeNames]) -> dict[AttributeNames, float]:
    """Weight each marginal by its overlap with the largest marginals, with weights in (0, 1].

    Source: Section 4.1, w_r = sum_s c_s |r and s|.
    """
    largest = max(map(len, marginals))
    top = [set(marginal) for marginal in marginals if len(marginal) == largest]
    shared = {m: max(1, sum(len(t & set(m)) for t in top)) for m in marginals}
    return {m: count / max(shared.values()) for m, count in shared.items()}
