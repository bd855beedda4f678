"""Private-PGM: fits a graphical model to noisy marginals. All code here is post-processing.

The model is a Markov random field with one log-potential per measured clique, on a junction tree.
Calibration passes logarithms of messages up the tree, and then probabilities down the tree. This
order prevents underflow and overflow of beliefs.

Sources: McKenna, Sheldon, Miklau 2019 (Private-PGM); Koller & Friedman 2009, chapter 10.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.randomness import Rng
from sugarbush.tables.dp_table import AttributeNames

Domain = Mapping[str, int]
Floats = NDArray[np.float64]
_Blocks = dict[AttributeNames, Floats]  # one array per clique

_CONJUGATE_STEPS = 8  # maximum number of conjugate-gradient steps in a Levenberg-Marquardt step
_TRUNCATION = 1e-2  # conjugate gradients stop at this fraction of the first squared residual
_DIFFERENCE = 1e-5  # largest change of a potential in a forward difference
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


@dataclass(frozen=True, kw_only=True)
class JunctionTree:
    """Nodes in order, each after its parent. The parent of a root is None.

    Every clique is a subset of a node. The nodes that contain an attribute form a subtree.
    """

    nodes: tuple[AttributeNames, ...]
    parents: tuple[int | None, ...]

    def separator(self, node: int) -> AttributeNames:
        parent = self.parents[node]
        shared = () if parent is None else self.nodes[parent]
        return tuple(name for name in self.nodes[node] if name in shared)


def elimination_cliques(domain: Domain, cliques: Iterable[AttributeNames]) -> list[frozenset[str]]:
    """Triangulate by greedy elimination of the lightest attribute, and return the maximal cliques.

    Eliminating an attribute creates a clique. The weight of the attribute is the number of cells of
    this clique (min-weight heuristic; Koller & Friedman 2009, section 9.4.3.2).
    """
    neighbours: dict[str, set[str]] = {name: set() for name in domain}
    for clique in cliques:
        for name in clique:
            neighbours[name].update(clique)
    for name, near in neighbours.items():
        near.discard(name)
    weight = {name: _cells(domain, (name, *near)) for name, near in neighbours.items()}
    nodes: list[frozenset[str]] = []
    while neighbours:
        lightest = min(weight, key=weight.__getitem__)
        near = neighbours.pop(lightest)
        del weight[lightest]
        joined = frozenset((lightest, *near))
        if not any(joined <= node for node in nodes):
            nodes.append(joined)
        for name in near:
            neighbours[name] |= near
            neighbours[name] -= {name, lightest}
        for name in near:
            weight[name] = _cells(domain, (name, *neighbours[name]))
    return nodes


def model_megabytes(domain: Domain, cliques: Iterable[AttributeNames]) -> float:
    """Compute the size of a model's beliefs: 8 bytes for each cell of the junction tree's nodes."""
    return sum(_cells(domain, c) for c in elimination_cliques(domain, cliques)) * 8 / 2**20


def axis_order(domain: Domain) -> dict[str, int]:
    """Return the axis of each attribute in every array. The attribute with the most values is last.

    Sums along long rows of memory are up to 60 times faster than along short rows.
    """
    ascending = sorted(domain, key=domain.__getitem__)
    return {name: axis for axis, name in enumerate(ascending)}


def junction_tree(domain: Domain, cliques: Iterable[AttributeNames]) -> JunctionTree:
    """Connect the elimination cliques by a maximum spanning forest, weighted by shared attributes.

    Each node lists its attributes in axis order.
    """
    order = axis_order(domain)
    clique_sets = elimination_cliques(domain, cliques)
    nodes = [tuple(sorted(node, key=order.__getitem__)) for node in clique_sets]
    outside = set(range(1, len(nodes)))
    listed: list[int] = [0]
    parents: list[int | None] = [None]
    nearest = {i: (len(clique_sets[i] & clique_sets[0]), 0) for i in outside}  # Prim's algorithm
    while outside:
        chosen = max(outside, key=lambda i: (nearest[i][0], -i))
        shared, parent = nearest[chosen]
        outside.remove(chosen)
        parents.append(listed.index(parent) if shared else None)
        listed.append(chosen)
        for i in outside:
            nearest[i] = max(nearest[i], (len(clique_sets[i] & clique_sets[chosen]), chosen))
    return JunctionTree(nodes=tuple(nodes[i] for i in listed), parents=tuple(parents))


class MarkovRandomField:
    """A distribution proportional to exp(sum of potentials), times `total` records.

    Each array of the argument `potentials` has one axis per attribute of its key, in the order of
    the key. The attribute `potentials` has one array per maximal clique, in axis order. Without
    potentials, the distribution is uniform. Call `calibrate` after a change of potentials.
    """

    def __init__(
        self,
        domain: Domain,
        cliques: Iterable[AttributeNames],
        *,
        total: float,
        potentials: Mapping[AttributeNames, Floats] | None = None,
    ) -> None:
        self.domain: Domain = dict(domain)
        self.total = float(total)
        self._order = axis_order(self.domain)
        given = {self.ordered(clique) for clique in cliques}
        self.cliques = _maximal(given)
        self.tree = junction_tree(self.domain, self.cliques)
        self._separators = tuple(map(self.tree.separator, range(len(self.tree.nodes))))
        self._below = _subtree_attributes(self.tree)
        self._home = {c: _first_within(c, self.tree.nodes) for c in self.cliques}
        self.potentials = {c: np.zeros(self._shape(c)) for c in self.cliques}
        for clique, potential in (potentials or {}).items():
            names = self.ordered(clique)
            whole = self.cliques[_first_within(clique, self.cliques)]
            values = np.transpose(potential, [clique.index(name) for name in names])
            self.potentials[whole] += _spread(values, names, whole)
        self.calibrate()

    def calibrate(self, potentials: Mapping[AttributeNames, Floats] | None = None) -> None:
        """Recompute the beliefs from the potentials."""
        if potentials is not None:
            self.potentials = dict(potentials)
        factors = [np.zeros(self._shape(node)) for node in self.tree.nodes]
        for clique, potential in self.potentials.items():
            home = self._home[clique]
            factors[home] += _spread(potential, clique, self.tree.nodes[home])
        self._conditionals = self._collect(factors)
        self._beliefs = self._distribute(self._conditionals)
        self._messages: dict[tuple[int, frozenset[str]], tuple[AttributeNames, Floats]] = {}

    def _collect(self, factors: list[Floats]) -> list[Floats]:
        """Compute P(node | separator) of every node, from the leaves to the roots.

        Messages are logarithms. The method overwrites `factors`.
        """
        conditionals: list[Floats] = [np.zeros(())] * len(factors)
        for node in reversed(range(len(factors))):
            attributes, separator = self.tree.nodes[node], self._separators[node]
            axes = _axes(attributes, set(attributes) - set(separator))
            factor = factors[node]
            peak = factor.max(axis=axes, keepdims=True)
            factor -= peak
            np.exp(factor, out=factor)
            mass = factor.sum(axis=axes, keepdims=True)
            factor /= mass
            conditionals[node] = factor
            parent = self.tree.parents[node]
            if parent is not None:
                message = (peak + np.log(mass)).reshape(self._shape(separator))
                factors[parent] += _spread(message, separator, self.tree.nodes[parent])
        return conditionals

    def _distribute(self, conditionals: list[Floats]) -> list[Floats]:
        """Compute P(node) of every node, from the roots to the leaves."""
        beliefs: list[Floats] = []
        for node, conditional in enumerate(conditionals):
            parent, separator = self.tree.parents[node], self._separators[node]
            if parent is None:
                beliefs.append(conditional)
            else:
                separator_belief = _sum_to(beliefs[parent], self.tree.nodes[parent], separator)
                beliefs.append(
                    conditional * _spread(separator_belief, separator, self.tree.nodes[node])
                )
        return beliefs

    def ordered(self, attributes: Iterable[str]) -> AttributeNames:
        return tuple(sorted(set(attributes), key=self._order.__getitem__))

    def clique_marginals(self) -> dict[AttributeNames, Floats]:
        """Return the expected counts of each clique that has a potential."""
        return {
            clique: self.total * _sum_to(self._beliefs[home], self.tree.nodes[home], clique)
            for clique, home in self._home.items()
        }

    def marginal(self, attributes: AttributeNames) -> Floats:
        """Return the expected counts of `attributes`, with one axis per attribute."""
        names = self.ordered(attributes)
        axes = tuple(names.index(name) for name in attributes)
        return np.transpose(self.total * self._probabilities(names), axes)

    def _probabilities(self, attributes: AttributeNames) -> Floats:
        for node, belief in zip(self.tree.nodes, self._beliefs, strict=True):
            if set(attributes) <= set(node):
                return _sum_to(belief, node, attributes)
        trees = [
            self._message(node, frozenset(attributes))
            for node, parent in enumerate(self.tree.parents)
            if parent is None and self._below[node] & set(attributes)
        ]
        return self._product(trees, attributes)

    def _message(self, node: int, requested: frozenset[str]) -> tuple[AttributeNames, Floats]:
        """Compute P(below | separator) by variable elimination.

        `below` contains the requested attributes that the node's subtree adds to the node's
        separator. The array has one axis per attribute of `below` and of the separator.
        """
        below = requested & self._below[node]
        key = (node, below)
        if key not in self._messages:
            attributes, separator = self.tree.nodes[node], self._separators[node]
            parts = [
                self._message(child, below)
                for child, parent in enumerate(self.tree.parents)
                if parent == node and below & self._below[child]
            ]
            needed = below | set(separator) | {name for names, _ in parts for name in names}
            scope = tuple(name for name in attributes if name in needed)
            parts.append((scope, _sum_to(self._conditionals[node], attributes, scope)))
            result = self.ordered((*below, *separator))
            self._messages[key] = (result, self._product(parts, result))
        return self._messages[key]

    def _product(
        self, parts: Sequence[tuple[AttributeNames, Floats]], result: AttributeNames
    ) -> Floats:
        """Multiply factors, and sum over every attribute that is not in `result`."""
        operands: list[Any] = []
        for names, factor in parts:
            operands += [factor, [self._order[name] for name in names]]
        out = [self._order[name] for name in result]
        return np.asarray(np.einsum(*operands, out, optimize="greedy"))

    def sample(self, rows: int, rng: Rng) -> NDArray[np.int64]:
        """Sample `(rows, d)` codes along the junction tree, with columns in the domain's order.

        Among rows with equal separator values, the count of each code is the expected count, up to
        rounding. The order of the rows is random.
        """
        columns: dict[str, NDArray[np.int64]] = {}
        for node, attributes in enumerate(self.tree.nodes):
            separator = self._separators[node]
            fresh = tuple(name for name in attributes if name not in separator)
            table = np.transpose(
                self._conditionals[node], [attributes.index(n) for n in (*separator, *fresh)]
            ).reshape(_cells(self.domain, separator), -1)
            group = _flat([columns[n] for n in separator], self._shape(separator), rows)
            drawn = _systematic(table, group, rng)
            for name, codes in zip(fresh, np.unravel_index(drawn, self._shape(fresh)), strict=True):
                columns[name] = codes.astype(np.int64)
        return np.stack([columns[name] for name in self.domain], axis=1)

    def _shape(self, attributes: AttributeNames) -> tuple[int, ...]:
        return tuple(self.domain[name] for name in attributes)


def fit_model(
    domain: Domain,
    observations: Sequence[NoisyMarginal],
    *,
    total: float,
    enough: float,
    calibrations: int,
    start: MarkovRandomField | None = None,
) -> MarkovRandomField:
    """Fit the marginals of a model to the observations by least squares.

    The loss is the sum of (marginal - count)^2 / (2 variance). The fit stops when the loss per
    count is `enough`; noise alone gives 0.5. The fit also stops after about `calibrations`
    evaluations of the model. `start` provides the initial potentials.
    """
    model = MarkovRandomField(
        domain,
        [observation.attributes for observation in observations],
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
    """The potentials of an estimation with their marginals, loss and gradient."""

    potentials: _Blocks
    marginals: _Blocks
    loss: float
    gradient: _Blocks


class _LeastSquares:
    """Fits by the Levenberg-Marquardt method, in the metric of the Fisher information.

    F is the covariance of the marginals (the Fisher information). A change D of the potentials
    changes the marginals by about F D. A step minimises the loss of this linear model plus
    damping/2 * <D, F D>. With large damping, the step is mirror descent, D = -gradient/damping
    (Private-PGM, Algorithm 2). With small damping, the step is Gauss-Newton. At epsilon 10, this
    method needs 300 calibrations, and mirror descent needs 3,600.

    Conjugate gradients, preconditioned by F, find the step from products of F with a direction.
    Each product costs one calibration at slightly changed potentials (Nocedal & Wright 2006,
    Algorithms 5.3 and 7.1).
    """

    def __init__(self, model: MarkovRandomField, observations: Sequence[NoisyMarginal]) -> None:
        self.model = model
        self.precision: dict[AttributeNames, Floats] = {}
        weighted: dict[AttributeNames, Floats] = {}
        for observation in observations:  # averages observations of the same clique, by precision
            names = model.ordered(observation.attributes)
            axes = [observation.attributes.index(name) for name in names]
            precision = 1 / np.transpose(observation.variance, axes)
            weight = np.transpose(observation.counts, axes) * precision
            self.precision[names] = self.precision.get(names, 0.0) + precision
            weighted[names] = weighted.get(names, 0.0) + weight
        self.targets = {c: weighted[c] / p for c, p in self.precision.items()}
        self.holder = {c: model.cliques[_first_within(c, model.cliques)] for c in self.targets}
        self.left = 0  # remaining calibrations

    def solve(self, *, enough: float, calibrations: int, first_damping: float) -> None:
        """Fit until the loss reaches its target or no calibration is left.

        `first_damping` is relative to the damping in the first step of mirror descent.
        """
        self.left = calibrations
        goal = enough * sum(target.size for target in self.targets.values())
        here = self._at(self.model.potentials)
        largest = max(float(precision.max()) for precision in self.precision.values())
        damping = first_damping * self.model.total * largest * len(self.precision)
        while self.left > 0 and here.loss > goal:
            step, promised = self._step(here, damping)
            if promised <= _LEAST_PROGRESS * here.loss:
                break
            if _largest(step) > _LARGEST_MOVE:
                damping *= 4
                continue
            there = self._at(_plus(here.potentials, 1.0, step))
            kept = (here.loss - there.loss) / promised
            if kept < 0.25:
                damping *= 4
            elif kept > 0.75:
                damping /= 4
            if kept > 0:
                here = there
        self.model.calibrate(here.potentials)

    def _step(self, here: _Point, damping: float) -> tuple[_Blocks, float]:
        """Compute the step, and the decrease of the loss that the linear model predicts."""
        step = moved = {clique: np.zeros_like(v) for clique, v in here.gradient.items()}
        residual = {clique: -slope for clique, slope in here.gradient.items()}
        direction = residual
        moves = response = self._response(here, residual)
        square = first = _dot(residual, response)
        for _ in range(_CONJUGATE_STEPS):
            if square <= _TRUNCATION * first:
                break
            bent = _plus(self._curvature(moves), damping, direction)
            length = square / _dot(moves, bent)
            step, moved = _plus(step, length, direction), _plus(moved, length, moves)
            residual = _plus(residual, -length, bent)
            response = self._response(here, residual)
            square, before = _dot(residual, response), square
            direction = _plus(residual, square / before, direction)
            moves = _plus(response, square / before, moves)
        promised = -_dot(here.gradient, moved) - _dot(moved, self._curvature(moved)) / 2
        return step, promised

    def _response(self, here: _Point, direction: _Blocks) -> _Blocks:
        """Compute F * `direction`, the change of the marginals, by a forward difference."""
        largest = _largest(direction)
        if largest == 0:
            return {clique: np.zeros_like(block) for clique, block in direction.items()}
        small = _DIFFERENCE / largest
        self.left -= 1
        self.model.calibrate(_plus(here.potentials, small, direction))
        return {
            clique: (counts - here.marginals[clique]) / small
            for clique, counts in self.model.clique_marginals().items()
        }

    def _at(self, potentials: _Blocks) -> _Point:
        self.left -= 1
        self.model.calibrate(potentials)
        marginals = self.model.clique_marginals()
        loss, gradient = 0.0, {clique: np.zeros_like(v) for clique, v in marginals.items()}
        for clique, target in self.targets.items():
            holder = self.holder[clique]
            residual = _sum_to(marginals[holder], holder, clique) - target
            slope = self.precision[clique] * residual
            loss += 0.5 * float(np.vdot(slope, residual))
            gradient[holder] += _spread(slope, clique, holder)
        return _Point(potentials=potentials, marginals=marginals, loss=loss, gradient=gradient)

    def _curvature(self, moves: _Blocks) -> _Blocks:
        """Compute the change of the gradient that a change of the marginals causes."""
        change = {clique: np.zeros_like(block) for clique, block in moves.items()}
        for clique, precision in self.precision.items():
            holder = self.holder[clique]
            slope = precision * _sum_to(moves[holder], holder, clique)
            change[holder] += _spread(slope, clique, holder)
        return change


def _plus(blocks: _Blocks, factor: float, more: _Blocks) -> _Blocks:
    return {clique: block + factor * more[clique] for clique, block in blocks.items()}


def _dot(blocks: _Blocks, other: _Blocks) -> float:
    return math.fsum(float(np.vdot(block, other[clique])) for clique, block in blocks.items())


def _largest(blocks: _Blocks) -> float:
    return max(float(np.abs(block).max()) for block in blocks.values())


def _cells(domain: Domain, attributes: Iterable[str]) -> int:
    return math.prod(domain[name] for name in attributes)


def _maximal(cliques: Iterable[AttributeNames]) -> tuple[AttributeNames, ...]:
    kept: list[AttributeNames] = []
    for clique in sorted(cliques, key=lambda c: (-len(c), c)):
        if not any(set(clique) <= set(other) for other in kept):
            kept.append(clique)
    return tuple(kept)


def _subtree_attributes(tree: JunctionTree) -> tuple[frozenset[str], ...]:
    """Return the attributes that each node and its descendants add to the node's separator."""
    added = [set(n) - set(tree.separator(i)) for i, n in enumerate(tree.nodes)]
    for node, parent in reversed(list(enumerate(tree.parents))):
        if parent is not None:
            added[parent] |= added[node]
    return tuple(map(frozenset, added))


def _first_within(clique: AttributeNames, nodes: Sequence[AttributeNames]) -> int:
    return next(i for i, node in enumerate(nodes) if set(clique) <= set(node))


def _axes(attributes: AttributeNames, dropped: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted(attributes.index(name) for name in dropped))


def _sum_to(factor: Floats, attributes: AttributeNames, kept: AttributeNames) -> Floats:
    """Sum a factor over every attribute outside `kept`. Attributes are in axis order."""
    if attributes == kept:
        return factor
    return np.asarray(factor.sum(axis=_axes(attributes, set(attributes) - set(kept))))


def _spread(factor: Floats, attributes: AttributeNames, onto: AttributeNames) -> Floats:
    """Return a view that broadcasts over the attributes of `onto`. Attributes are in axis order."""
    sizes = dict(zip(attributes, factor.shape, strict=True))
    return factor.reshape([sizes.get(name, 1) for name in onto])


def _flat(
    columns: Sequence[NDArray[np.int64]], shape: tuple[int, ...], rows: int
) -> NDArray[np.int64]:
    if not columns:
        return np.zeros(rows, dtype=np.int64)
    return np.asarray(np.ravel_multi_index(tuple(columns), shape), dtype=np.int64)


def _systematic(table: Floats, group: NDArray[np.int64], rng: Rng) -> NDArray[np.int64]:
    """For each entry g of `group`, sample a column from the distribution in row g of `table`.

    The members of a group use the quantiles (i + u_i) / size in random order. The count of each
    column is therefore nearly the expected count.
    """
    groups, columns = table.shape
    sizes = np.bincount(group, minlength=groups)
    shuffled = rng.permutation(len(group))
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    rank = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    quantile = (rank + rng.random(len(group))) / np.repeat(sizes, sizes)
    cumulative = np.cumsum(table, axis=1)
    cumulative /= cumulative[:, -1:]
    ascending = (cumulative + np.arange(groups)[:, None]).ravel()
    indices = np.searchsorted(ascending, group[order] + quantile, side="right")
    drawn = np.empty(len(group), dtype=np.int64)
    drawn[order] = np.minimum(indices - group[order] * columns, columns - 1)
    return drawn
