"""Runs smartnoise-synth's AIM as a second engine, on the measurer instead of the data.

The loop of snsynth 1.0.8 (`AIMSynthesizer.AIM`) decides which marginals to request. The measurer
answers with exact noise under the filter, so the loop reads no record. Smartnoise's floating-point
noise, its selection by numpy's global generator, and its domains from the data are not used. This
module suppresses smartnoise's prints, and adds attributes that the workload would omit. Rows are
sampled from our junction tree, because mbi 1.1 samples wrongly from cycles and correlates columns
that share a parent.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import ParamsError
from sugarbush.extras import require_extra
from sugarbush.privacy.gaussian_dp import bounded_range_mu, discrete_gaussian_mu
from sugarbush.tables.dp_table import AttributeNames, Measurement
from sugarbush.tables.graphical_model import MarkovRandomField
from sugarbush.tables.marginal_measurer import Candidate, MarginalMeasurer
from sugarbush.tables.synthesis import Synthesis, count_records

_VERSION: Final = "1.0.8"
# Smartnoise spends this share of a round's rho on the measurement, and the rest on the selection.
_MEASUREMENT_SHARE: Final = 0.9


def require_smartnoise() -> None:
    """Raise ParamsError if the supported version is not installed."""
    require_extra("smartnoise")
    installed = importlib.metadata.version("smartnoise-synth")
    if installed != _VERSION:
        raise ParamsError(
            f"`synthesize_metadata.engine: smartnoise` needs smartnoise-synth {_VERSION}, found "
            f"{installed}. Install the extra 'smartnoise', or set `engine: sugarbush`"
        )


def smartnoise(
    measurer: MarginalMeasurer, *, degree: int, max_cells: int, max_model_mb: float
) -> Synthesis:
    """Run smartnoise's AIM on the measurer's domain, within the filter's budget."""
    from mbi import Domain
    from snsynth.aim import aim as module

    domain = measurer.domain
    asked = _Conversation(measurer=measurer, domain=Domain(list(domain), list(domain.values())))
    loop = module.AIMSynthesizer(
        max_model_size=max_model_mb, degree=degree, max_cells=max_cells, rounds=None
    )
    loop.rho = rho_within(measurer.mu_squared_left)
    setattr(loop, "_worst_approximated", asked.select)  # noqa: B010 — smartnoise's own hook
    # A copy of `AIM` has its own globals, so the replacements do not change smartnoise's module.
    # `print` is replaced, because smartnoise prints its sigma and its table's width.
    original = module.AIMSynthesizer.AIM
    names = {**vars(module), "gaussian_noise": asked.measure, "print": lambda *_: None}
    run = FunctionType(original.__code__, names, argdefs=original.__defaults__)
    run(loop, asked, _workload(domain, degree=degree, max_cells=max_cells))
    return Synthesis(
        model=_adopt(loop.synthesizer, domain),
        measurements=tuple(asked.measurements),
        record_count=count_records(asked.measurements),
        rare={},
    )


def rho_within(mu_squared: float) -> float:
    """Compute the rho with which all steps of smartnoise together cost at most `mu_squared`.

    Let r be the rho of one step. The costs of the step in mu^2 are

        measurement   0.9 r, stddev >= 1/sqrt(1.8 rho): 1.8 r, times a factor for discreteness that
                      is largest at the smallest stddev
        selection     0.1 r, epsilon = sqrt(0.8 r): at most (2 pi / 16) 0.8 r
    """
    selection = (1 - _MEASUREMENT_SHARE) * 8 * (2 * math.pi / 16)

    def cost(rho: float) -> float:
        smallest = 1 / math.sqrt(2 * _MEASUREMENT_SHARE * rho)
        discrete = (discrete_gaussian_mu(smallest) * smallest) ** 2
        return rho * (2 * _MEASUREMENT_SHARE * discrete + selection)

    from scipy.optimize import brentq

    root = brentq(lambda rho: cost(rho) - mu_squared, mu_squared / 16, mu_squared, rtol=1e-12)
    return float(root) * (1 - 1e-9)


@dataclass
class _Conversation:
    """Replaces smartnoise's data set, and passes each request to the measurer."""

    measurer: MarginalMeasurer
    domain: Any
    measurements: list[Measurement] = field(default_factory=list)
    _asked: AttributeNames = ()
    _selection_mu: float = 0.0

    def project(self, attributes: Sequence[str]) -> _Conversation:
        self._asked = tuple(attributes)
        return self

    def datavector(self) -> NDArray[np.float64]:
        """Return zeros instead of the exact marginal. The loop then adds the noisy marginal."""
        return np.zeros(self.domain.size(self._asked))

    def measure(self, stddev: float, size: int) -> NDArray[np.float64]:
        """Return the noisy marginal of the last request, instead of smartnoise's noise."""
        measurement = self.measurer.measure(
            self._asked,
            mu=discrete_gaussian_mu(float(stddev)),
            round=1 + self.measurements[-1].round if self._selection_mu else 0,
            selection_mu=self._selection_mu,
        )
        self._selection_mu = 0.0
        self.measurements.append(measurement)
        return measurement.counts.ravel().astype(np.float64)

    def select(
        self,
        candidates: Mapping[AttributeNames, float],
        answers: object,
        model: Any,
        epsilon: float,
        stddev: float,
    ) -> AttributeNames:
        """Select with the measurer, by the scores of smartnoise's exponential mechanism."""
        greatest = max(candidates.values())
        offered = []
        for attributes, weight in candidates.items():
            believed = np.asarray(model.project(attributes).datavector(), dtype=np.float64)
            offered.append(
                Candidate(
                    attributes=attributes,
                    estimate=believed.reshape(self.measurer.shape(attributes)),
                    weight=weight / greatest,
                    penalty=math.sqrt(2 / math.pi) * stddev * believed.size,
                )
            )
        mu = bounded_range_mu(float(epsilon))
        chosen, self._selection_mu = self.measurer.select(offered, mu=mu)
        return offered[chosen].attributes


def _workload(domain: Mapping[str, int], *, degree: int, max_cells: int) -> list[AttributeNames]:
    """Return the marginals of `degree` attributes, and one-way marginals of the rest."""
    sets = itertools.combinations(domain, min(degree, len(domain)))
    workload = [s for s in sets if math.prod(domain[name] for name in s) <= max_cells]
    covered = {name for attributes in workload for name in attributes}
    return workload + [(name,) for name in domain if name not in covered]


def _adopt(fitted: Any, domain: Mapping[str, int]) -> MarkovRandomField:
    """Convert a model of mbi to our junction tree, with the same potentials."""
    factors = [fitted.potentials[clique] for clique in fitted.potentials.cliques]
    potentials = {tuple(f.domain.attrs): np.asarray(f.values, dtype=np.float64) for f in factors}
    return MarkovRandomField(
        domain, list(potentials), total=max(float(fitted.total), 1.0), potentials=potentials
    )
