"""AIM: an adaptive and iterative mechanism for synthetic data, in Gaussian DP.

    measure   every one-way marginal
    repeat    select the marginal that the model gets most wrong
              measure it
              generate: fit the model to every measurement so far

Every private answer comes from the curator, whose filter ends the loop: what stands here is
post-processing. Source: McKenna, Mullins, Sheldon, Miklau 2022 (arXiv:2201.12677), Algorithms 1
to 4; its rho is here mu^2, which docs/decisions/0100-aim-in-gaussian-dp.md proves and compares.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sugarbush.tables.dp_table import Attributes, Measurement
from sugarbush.tables.graphical_model import MarkovRandomField, Model, model_megabytes
from sugarbush.tables.marginal_measurer import Candidate, MarginalMeasurer
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

# E|N(0, s^2)| = s sqrt(2/pi): what noise alone adds to an L1 distance, by cell.
_MEAN_ABSOLUTE_NOISE: Final = math.sqrt(2 / math.pi)


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How AIM divides its mu^2. All are fixed before the first draw."""

    # One part in `rounds_per_attribute * d` is what a round may spend at first; rounds that teach
    # the model nothing make the later ones dearer and fewer (the paper's T = 16 d).
    rounds_per_attribute: float = 16
    # Of all: the one-way marginals at the start. The paper's 0.9/16 leaves them noisy; measured,
    # 0.3 costs nothing on 5,000 records at epsilon 1 and helps wherever less can be learned.
    singles: float = 0.3
    # Of a round: the measurement; the rest selects (the paper's alpha).
    measurement: float = 0.9
    # How much dearer a round gets after one that taught nothing (Algorithm 3: epsilon doubles and
    # sigma halves).
    annealing: float = 4


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The marginals that may be selected, their weights (at most 1), and the model's size limit."""

    weights: Mapping[Attributes, float]
    max_model_mb: float

    def within(self, model: MarkovRandomField, *, part: float) -> list[Attributes]:
        """The marginals that keep the junction tree under `part` of the limit (Algorithm 2).

        One that the model's cliques hold already adds nothing to it, so there is always one.
        """
        limit_mb = part * self.max_model_mb
        return [
            attributes
            for attributes in self.weights
            if any(set(attributes) <= set(clique) for clique in model.cliques)
            or model_megabytes(model.domain, [*model.cliques, attributes]) <= limit_mb
        ]


# Standard deviations by which a dependence must pass the noise before AIM believes in any.
_SURE: Final = 3.0
# Values whose noisy count is under so many sigmas are modelled as one.
_RARE_SIGMAS: Final = 3.0


def aim(
    measurer: MarginalMeasurer,
    *,
    degree: int,
    max_cells: int,
    max_model_mb: float,
    shares: Shares | None = None,
) -> Synthesis:
    """A model of the curator's table, from marginals of up to `degree` attributes.

    Spends all that the curator's filter holds. Marginals of more than `max_cells` cells (rare
    values merged) are left out, but for one-way ones; the model stays under `max_model_mb`, growing
    with what is spent. Until the dependences that rise above the noise are enough for a tree, the
    model holds no others, and where no more are found, what is left is spent evenly on them and on
    the one-way marginals: so little data gives no worse a table than independent marginals
    (docs/decisions/0101-a-dependence-needs-evidence.md).
    """
    shares = shares or Shares()
    whole = measurer.mu_squared_left
    measurements = measure_singles(measurer, mu_squared=shares.singles * whole)
    rare = find_rare(measurements, sigmas=_RARE_SIGMAS)
    merge_rare(measurer, rare)
    marginals = _marginals(measurer.domain, degree=degree, max_cells=max_cells)
    if max(map(len, marginals)) == 1:
        return finish_singles(measurer, measurements, rare=rare, round=1)

    workload = Workload(weights=_weights(marginals), max_model_mb=max_model_mb)
    singles_stddev = measurements[0].stddev
    edges = len(measurer.domain) - 1
    shown: list[Attributes] = []
    model = fit(measurer.domain, measurements, rare=rare)
    budget = whole / (shares.rounds_per_attribute * len(measurer.domain))
    for number in itertools.count(1):
        left = measurer.mu_squared_left
        last = left < 2 * budget
        budget = left if last else budget
        choices = workload.within(model, part=(whole - left + budget) / whole)
        measurement = _measure_worst(
            measurer,
            model,
            weights={c: workload.weights[c] for c in choices},
            mu_squared=budget,
            shares=shares,
            round=number,
        )
        measurements.append(measurement)
        if last:
            break
        before, searching = model, len(shown) < edges
        shows = searching and _shows_dependence(measurement, before, singles_stddev)
        if shows and measurement.attributes not in shown:
            shown.append(measurement.attributes)
        believed = only(measurements, shown) if len(shown) < edges else measurements
        model = fit(measurer.domain, believed, rare=rare, start=before)
        if shows or (not searching and _learned(measurement, before, model)):
            continue
        budget *= shares.annealing
        if searching and measurer.mu_squared_left < budget * _rounds_to_try(edges, shown):
            return finish_evenly(
                measurer, measurements, shown=shown, rare=rare, start=model, round=number + 1
            )
    # The last marginal cost too much to be left out.
    kept = None if len(shown) >= edges else [*shown, measurements[-1].attributes]
    return finish(measurer.domain, measurements, rare=rare, start=model, shown=kept)


def _rounds_to_try(edges: int, shown: Sequence[Attributes]) -> float:
    """With fewer rounds left, a search without result ends: two for each edge of a tree.

    Half a round once dependences have shown, since then the rounds pay. A tree is over all
    attributes, also those merged to one cell: their one-way marginals wait for what is left.
    """
    return edges / 2 if shown else 2 * edges


def _measure_worst(
    measurer: MarginalMeasurer,
    model: Model,
    *,
    weights: Mapping[Attributes, float],
    mu_squared: float,
    shares: Shares,
    round: int,
) -> Measurement:
    """Select the marginal that the model gets most wrong beyond noise, and measure it (Eq. 1)."""
    mu_measure = all_of(shares.measurement * mu_squared)
    noise = _MEAN_ABSOLUTE_NOISE * measurer.noise_of(mu_measure)
    candidates = []
    for attributes, weight in weights.items():
        believed = model.marginal(attributes)
        candidates.append(
            Candidate(
                attributes=attributes,
                estimate=believed,
                weight=weight,
                penalty=noise * believed.size,
            )
        )
    mu_select = all_of((1 - shares.measurement) * mu_squared)
    chosen, selection_mu = measurer.select(candidates, mu=mu_select)
    return measurer.measure(
        candidates[chosen].attributes,
        mu=all_of(mu_squared - selection_mu**2),
        round=round,
        selection_mu=selection_mu,
    )


def _learned(measurement: Measurement, before: Model, after: Model) -> bool:
    """Whether the measured marginal moved by more than noise moves it (Algorithm 3, line 2)."""
    moved = after.marginal(measurement.attributes) - before.marginal(measurement.attributes)
    noise = _MEAN_ABSOLUTE_NOISE * measurement.stddev * moved.size
    return float(np.abs(moved).sum()) > noise


def _shows_dependence(measurement: Measurement, model: Model, singles_stddev: float) -> bool:
    """Whether a marginal holds an interaction that the model lacks, by more than noise would.

    What is compared is the interaction alone: counts less the model's, their main effects taken
    out. Noise leaves its square a mean of stddev^2 times the degrees of freedom, and the one-way
    marginals' own errors at most `singles_stddev`^2 a cell.
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


def _marginals(domain: Mapping[str, int], *, degree: int, max_cells: int) -> list[Attributes]:
    """Every one-way marginal, and the larger ones up to `degree` that hold at most `max_cells`.

    An attribute of one cell depends on nothing.
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


def _weights(marginals: Sequence[Attributes]) -> dict[Attributes, float]:
    """What a marginal shares with the largest ones (Section 4.1: w_r = sum_s c_s |r and s|).

    Scaled to at most 1. One that shares nothing still counts a little: it may be measured again.
    """
    largest = max(map(len, marginals))
    top = [set(marginal) for marginal in marginals if len(marginal) == largest]
    shared = {m: max(1, sum(len(t & set(m)) for t in top)) for m in marginals}
    return {m: count / max(shared.values()) for m, count in shared.items()}
