"""Private-PGM: fits a graphical model to noisy marginals. All code here is post-processing.

Source: McKenna, Sheldon, Miklau 2019 (Private-PGM).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sugarbush.tables.dp_table import AttributeNames
from sugarbush.tables.graphical_model import (
    Calibration,
    Domain,
    Floats,
    MarkovRandomField,
    Subset,
    first_within,
)

_CONJUGATE_STEPS = 8  # maximum number of conjugate-gradient steps in a Levenberg-Marquardt step
_TRUNCATION = 1e-2  # conjugate gradients stop at this fraction of the first squared residual
# If an estimation starts from an earlier model, its first damping is this number in place of 1.
# With a larger damping, a nearly correct model would hardly change.
_STARTED_DAMPING = 4.0**-5
# Largest change of a potential in one step. For a larger step the linear model is wrong: all mass
# may move to one cell, where the gradient vanishes.
_LARGEST_MOVE = 10.0
# An estimation ends when the next step would decrease the loss by a smaller fraction.
_LEAST_PROGRESS = 1e-9


@dataclass(frozen=True, kw_only=True)
class NoisyMarginal:
    """A noisy marginal. Counts and variances have one axis per attribute."""

    attributes: AttributeNames
    counts: Floats
    variance: Floats


def fit_model(
    domain: Domain,
    observations: Sequence[NoisyMarginal],
    *,
    total: float,
    enough: float,
    calibrations: int,
    start: MarkovRandomField | None = None,
    cliques: Sequence[AttributeNames] = (),
) -> MarkovRandomField:
    """Fit the marginals of a model to the observations by least squares.

    The loss is the sum of (marginal - count)^2 / (2 variance). The fit stops when the loss per
    count is `enough`; noise alone gives 0.5. The fit also stops after about `calibrations`
    evaluations of the model. `start` provides the initial potentials. The model also contains
    `cliques`, of which nothing was observed.
    """
    model = MarkovRandomField(
        domain,
        [*(observation.attributes for observation in observations), *cliques],
        total=total,
        potentials=start.potentials if start else None,
    )
    damping = _STARTED_DAMPING if start else 1.0
    _LeastSquares(model, observations).solve(
        enough=enough, calibrations=calibrations, first_damping=damping
    )
    return model


@dataclass(frozen=True, kw_only=True)
class _Point:
    """A calibration with its clique marginals, and the loss and its gradient."""

    calibration: Calibration
    marginals: Floats
    loss: float
    gradient: Floats


@dataclass(frozen=True, kw_only=True)
class _Nested:
    """The observation of a clique inside a maximal clique."""

    clique: int
    subset: Subset
    target: Floats
    precision: Floats


class _LeastSquares:
    """Fits by the Levenberg-Marquardt method, in the metric of the Fisher information.

    F is the covariance of the marginals (the Fisher information). A change D of the potentials
    changes the marginals by about F D. A step minimises the loss of this linear model plus
    damping/2 * <D, F D>. With large damping, the step is mirror descent, D = -gradient/damping
    (Private-PGM, Algorithm 2). With small damping, the step is Gauss-Newton. At epsilon 10, this
    method needs 300 calibrations, and mirror descent needs 3,600.

    Conjugate gradients, preconditioned by F, find the step from products of F with a direction.
    Each product is a derivative of the calibration, which costs less than a calibration (Nocedal &
    Wright 2006, Algorithms 5.3 and 7.1).
    """

    def __init__(self, model: MarkovRandomField, observations: Sequence[NoisyMarginal]) -> None:
        self.model = model
        precisions: dict[AttributeNames, Floats] = {}
        weighted: dict[AttributeNames, Floats] = {}
        for observation in observations:  # averages observations of the same clique, by precision
            names = model.ordered(observation.attributes)
            axes = [observation.attributes.index(name) for name in names]
            precision = 1 / np.transpose(observation.variance, axes)
            weight = np.transpose(observation.counts, axes) * precision
            precisions[names] = precisions.get(names, 0.0) + precision
            weighted[names] = weighted.get(names, 0.0) + weight
        self.count = sum(precision.size for precision in precisions.values())
        self.first_damping = len(precisions) * max(float(p.max()) for p in precisions.values())
        self.precision = np.zeros(model.calibration.potentials.size)  # of maximal cliques
        self.target = np.zeros(model.calibration.potentials.size)
        self.nested: list[_Nested] = []
        for clique, precision in precisions.items():
            target = weighted[clique] / precision
            index = first_within(clique, model.cliques)
            if model.cliques[index] == clique:
                self.precision[model.slices[index]] = precision.ravel()
                self.target[model.slices[index]] = target.ravel()
            else:
                subset = model.subset(clique, model.cliques[index])
                self.nested.append(
                    _Nested(
                        clique=index,
                        subset=subset,
                        target=target.reshape(subset.spread),
                        precision=precision.reshape(subset.spread),
                    )
                )
        self.support = 1.0 if model.support is None else model.support.astype(np.float64)
        self.precision *= self.support  # a cell that no row may have has a count of noise alone
        self.left = 0  # remaining calibrations

    def solve(self, *, enough: float, calibrations: int, first_damping: float) -> None:
        """Fit until the loss reaches its target or no calibration is left.

        `first_damping` is relative to the damping in the first step of mirror descent.
        """
        self.left = calibrations
        goal = enough * self.count
        here = self._at(self.model.calibration.potentials)
        damping = first_damping * self.model.total * self.first_damping
        while self.left > 0 and here.loss > goal:
            step, promised = self._step(here, damping)
            if promised <= _LEAST_PROGRESS * here.loss:
                break
            if np.abs(step).max() > _LARGEST_MOVE:
                damping *= 4
                continue
            there = self._at(here.calibration.potentials + step)
            kept = (here.loss - there.loss) / promised
            if kept < 0.25:
                damping *= 4
            elif kept > 0.75:
                damping /= 4
            if kept > 0:
                here = there
            self.model.calibration = here.calibration

    def _step(self, here: _Point, damping: float) -> tuple[Floats, float]:
        """Compute the step, and the decrease of the loss that the linear model predicts."""
        step = moved = np.zeros_like(here.gradient)
        residual = -here.gradient
        direction = residual
        moves = response = self._response(residual)
        square = first = float(residual @ response)
        for _ in range(_CONJUGATE_STEPS):
            if square <= _TRUNCATION * first:
                break
            bent = self._curvature(moves) + damping * direction
            length = square / float(moves @ bent)
            step, moved = step + length * direction, moved + length * moves
            residual = residual - length * bent
            response = self._response(residual)
            square, before = float(residual @ response), square
            direction = residual + square / before * direction
            moves = response + square / before * moves
        promised = -float(here.gradient @ moved) - float(moved @ self._curvature(moved)) / 2
        return step, promised

    def _response(self, direction: Floats) -> Floats:
        """Compute F * `direction`, the change of the marginals."""
        self.left -= 1
        return self.model.derivative(direction)

    def _at(self, potentials: Floats) -> _Point:
        self.left -= 1
        self.model.calibrate(potentials)
        marginals = self.model.clique_marginals()
        residual = marginals - self.target
        gradient = self.precision * residual
        loss = 0.5 * float(gradient @ residual)
        blocks, slopes = self.model.blocks(marginals), self.model.blocks(gradient)
        for seen in self.nested:
            apart = seen.subset.sum(blocks[seen.clique]) - seen.target
            slope = seen.precision * apart
            loss += 0.5 * float(np.vdot(slope, apart))
            slopes[seen.clique] += slope
        gradient *= self.support
        return _Point(
            calibration=self.model.calibration, marginals=marginals, loss=loss, gradient=gradient
        )

    def _curvature(self, moves: Floats) -> Floats:
        """Compute the change of the gradient that a change of the marginals causes."""
        change = self.precision * moves
        blocks, slopes = self.model.blocks(moves), self.model.blocks(change)
        for seen in self.nested:
            slopes[seen.clique] += seen.precision * seen.subset.sum(blocks[seen.clique])
        change *= self.support
        return change
