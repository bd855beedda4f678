"""A graphical model of a table. All code here is post-processing.

The model is a Markov random field with one log-potential per measured clique, on a junction tree.
`sugarbush.tables.model_fit` fits it to noisy marginals. Calibration passes logarithms of messages
up the tree, and then probabilities down the tree. This order prevents underflow and overflow of
beliefs.

Source: Koller & Friedman 2009, chapter 10.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sugarbush.randomness import Rng
from sugarbush.tables.dp_table import AttributeNames
from sugarbush.tables.structural_zeros import Zeros, zeros_of

Domain = Mapping[str, int]
Floats = NDArray[np.float64]

_GOLDEN = (math.sqrt(5) - 1) / 2
_LARGEST_STRATUM = 2**62
_FORBIDDEN = -1e6  # a log-potential that gives the probability 0, and no NaN in a sum of messages


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


@dataclass(frozen=True, kw_only=True)
class Subset:
    """An array inside a larger array: a clique inside a node, or a separator inside a node."""

    axes: tuple[int, ...]  # axes of the larger array that the smaller array lacks
    spread: tuple[int, ...]  # shape of the smaller array with length 1 at these axes

    def sum(self, whole: Floats) -> Floats:
        return _sum_axes(whole, self.axes)


@dataclass(frozen=True, kw_only=True)
class _Member:
    """A clique in its node, as one step of sums to all cliques of the node.

    An array over this clique and the members before it has length 1 along the other axes. A sum
    over `left`, the axes that this clique alone has, is an array over the members before it.
    """

    clique: int
    subset: Subset
    left: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The potentials, and the probabilities that follow from them, one array per node.

    `conditionals` has P(node | separator), and `separators` has P(separator). `messages` caches the
    messages of `MarkovRandomField.marginal`.
    """

    potentials: Floats
    conditionals: list[Floats]
    separators: list[Floats]
    beliefs: list[Floats]
    messages: dict[tuple[int, frozenset[str]], tuple[AttributeNames, Floats]]


def elimination_cliques(domain: Domain, cliques: Iterable[AttributeNames]) -> list[frozenset[str]]:
    """Triangulate by greedy elimination of the lightest attribute, and return the maximal cliques.

    Eliminating an attribute creates a clique. The weight of the attribute is the number of cells of
    this clique (min-weight heuristic; Koller & Friedman 2009, section 9.4.3.2).
    """
    names = list(domain)
    bit = {name: 1 << i for i, name in enumerate(names)}
    neighbours = dict.fromkeys(bit.values(), 0)
    for clique in cliques:
        mask = sum(map(bit.__getitem__, set(clique)))
        for name in clique:
            neighbours[bit[name]] |= mask
    sizes = tuple(domain.values())
    weight = {b: _cells_of(sizes, near | b) for b, near in neighbours.items()}
    nodes: list[int] = []
    while neighbours:
        lightest = min(weight, key=weight.__getitem__)
        joined = neighbours.pop(lightest) | lightest
        del weight[lightest]
        if not any(joined & node == joined for node in nodes):
            nodes.append(joined)
        for other in [b for b in neighbours if b & joined]:
            neighbours[other] = (neighbours[other] | joined) & ~lightest
            weight[other] = _cells_of(sizes, neighbours[other] | other)
    return [frozenset(name for name in names if bit[name] & node) for node in nodes]


def model_megabytes(domain: Domain, cliques: Iterable[AttributeNames]) -> float:
    """Compute the size of a model's beliefs: 8 bytes for each cell of the junction tree's nodes."""
    return _model_cells(tuple(domain.items()), tuple(cliques)) * 8 / 2**20


@lru_cache(maxsize=1_000)
def _model_cells(domain: tuple[tuple[str, int], ...], cliques: tuple[AttributeNames, ...]) -> int:
    sizes = dict(domain)
    return sum(_cells(sizes, clique) for clique in elimination_cliques(sizes, cliques))


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
    potentials, the distribution is uniform. The zeros of a `TableDomain` have probability 0.
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
        zeros = zeros_of(domain)
        every = [*cliques, *(zero.attributes for zero in zeros)]
        self.cliques = _maximal({self.ordered(clique) for clique in every})
        self.tree = junction_tree(self.domain, self.cliques)
        nodes, parents = self.tree.nodes, self.tree.parents
        self._separators = tuple(map(self.tree.separator, range(len(nodes))))
        self._children = [
            [child for child, parent in enumerate(parents) if parent == node]
            for node in range(len(nodes))
        ]
        self._below = _subtree_attributes(self.tree)
        self._node_shapes = [self._shape(node) for node in nodes]
        self._clique_shapes = [self._shape(clique) for clique in self.cliques]
        self._in_node = [
            self.subset(separator, node)
            for separator, node in zip(self._separators, nodes, strict=True)
        ]
        self._in_parent = [
            None if parent is None else (parent, self.subset(separator, nodes[parent]))
            for separator, parent in zip(self._separators, parents, strict=True)
        ]
        homes = [first_within(clique, nodes) for clique in self.cliques]
        self._members = [
            self._order_members(node, [i for i, home in enumerate(homes) if home == node])
            for node in range(len(nodes))
        ]
        sizes = [_cells(self.domain, clique) for clique in self.cliques]
        ends = list(itertools.accumulate(sizes))
        self.slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        vector = np.zeros(sum(sizes))
        self._forbidden = self._forbidden_cells(zeros)
        self.support = self._support(vector)
        blocks = self.blocks(vector)
        for clique, potential in (potentials or {}).items():
            names = self.ordered(clique)
            whole = first_within(clique, self.cliques)
            values = np.transpose(potential, [clique.index(name) for name in names])
            blocks[whole] += values.reshape(self.subset(names, self.cliques[whole]).spread)
        self.calibrate(vector)

    @property
    def potentials(self) -> dict[AttributeNames, Floats]:
        blocks = self.blocks(self.calibration.potentials)
        return dict(zip(self.cliques, blocks, strict=True))

    def blocks(self, vector: Floats) -> list[Floats]:
        """Return a view of the vector for each maximal clique, with one axis per attribute."""
        return [
            vector[piece].reshape(shape)
            for piece, shape in zip(self.slices, self._clique_shapes, strict=True)
        ]

    def calibrate(self, potentials: Floats) -> None:
        """Compute the beliefs from the potentials of all maximal cliques, one after the other."""
        conditionals = self._to_nodes(potentials)
        for node, cells in self._forbidden:
            conditionals[node][cells] = _FORBIDDEN
        self._collect(conditionals)
        beliefs, separators = self._distribute(conditionals)
        self.calibration = Calibration(
            potentials=potentials,
            conditionals=conditionals,
            separators=separators,
            beliefs=beliefs,
            messages={},
        )

    def _forbidden_cells(self, zeros: Sequence[Zeros]) -> list[tuple[int, NDArray[np.bool_]]]:
        """Return the cells of nodes that have probability 0, with the index of the node."""
        found = []
        for zero in zeros:
            names = self.ordered(zero.attributes)
            node = first_within(names, self.tree.nodes)
            cells = np.transpose(zero.forbidden, [zero.attributes.index(name) for name in names])
            spread = cells.reshape(self.subset(names, self.tree.nodes[node]).spread)
            found.append((node, np.broadcast_to(spread, self._node_shapes[node])))
        return found

    def _support(self, potentials: Floats) -> NDArray[np.bool_] | None:
        """Return the cells of all maximal cliques that some row may have; None for all cells."""
        if not self._forbidden:
            return None
        self.calibrate(potentials)
        return np.asarray(self.clique_marginals() > 0)

    def subset(self, names: AttributeNames, whole: AttributeNames) -> Subset:
        return Subset(
            axes=tuple(axis for axis, name in enumerate(whole) if name not in names),
            spread=tuple(self.domain[name] if name in names else 1 for name in whole),
        )

    def _order_members(self, node: int, cliques: list[int]) -> list[_Member]:
        """Order the cliques of a node so that few sums and products are over large arrays."""
        members: list[_Member] = []
        left, whole = list(cliques), self.tree.nodes[node]
        while left:
            rest = {
                last: {name for i in left if i != last for name in self.cliques[i]} for last in left
            }
            last = min(left, key=lambda i: _cells(self.domain, rest[i]))
            alone = set(self.cliques[last]) - rest[last]
            members.append(
                _Member(
                    clique=last,
                    subset=self.subset(self.cliques[last], whole),
                    left=tuple(axis for axis, name in enumerate(whole) if name in alone),
                )
            )
            left.remove(last)
        return members[::-1]

    def _to_nodes(self, vector: Floats) -> list[Floats]:
        """Add the blocks of a vector for each node."""
        arrays = []
        for members, shape in zip(self._members, self._node_shapes, strict=True):
            added = np.zeros([1] * len(shape))
            for member in members:
                added = added + vector[self.slices[member.clique]].reshape(member.subset.spread)
            arrays.append(added if added.shape == shape else added + np.zeros(shape))
        return arrays

    def _to_cliques(self, arrays: Sequence[Floats]) -> Floats:
        """Sum arrays, one per node, to the maximal cliques, and multiply by the total."""
        vector = np.zeros(self.slices[-1].stop if self.slices else 0)
        for members, array in zip(self._members, arrays, strict=True):
            summed = array
            for member in reversed(members):
                block = _sum_axes(summed, member.subset.axes)
                vector[self.slices[member.clique]] = block.ravel()
                summed = _sum_axes(summed, member.left)
        vector *= self.total
        return vector

    def _collect(self, factors: list[Floats]) -> None:
        """Change factors into P(node | separator) in place, from the leaves to the roots.

        Messages are logarithms.
        """
        for node in reversed(range(len(factors))):
            factor, axes = factors[node], self._in_node[node].axes
            peak = np.maximum.reduce(factor, axis=axes, keepdims=True)
            factor -= peak
            np.exp(factor, out=factor)
            mass = self._in_node[node].sum(factor)
            factor /= mass
            if in_parent := self._in_parent[node]:
                parent, separator = in_parent
                factors[parent] += (peak + np.log(mass)).reshape(separator.spread)

    def _distribute(self, conditionals: list[Floats]) -> tuple[list[Floats], list[Floats]]:
        """Compute P(node) and P(separator) of every node, from the roots to the leaves."""
        beliefs: list[Floats] = []
        separators: list[Floats] = []
        for node, conditional in enumerate(conditionals):
            separators.append(self._separator_sum(node, beliefs))
            beliefs.append(conditional * separators[node])
        return beliefs, separators

    def _separator_sum(self, node: int, arrays: Sequence[Floats]) -> Floats:
        """Sum the parent's array to the separator. A root has the probability 1."""
        spread = self._in_node[node].spread
        if not (in_parent := self._in_parent[node]):
            return np.ones(spread)
        parent, separator = in_parent
        return separator.sum(arrays[parent]).reshape(spread)

    def derivative(self, direction: Floats) -> Floats:
        """Return the derivative of `clique_marginals` if the potentials move in a direction.

        The derivative of log P(node | separator) is the change of the node's factor minus its
        conditional mean, and this mean is the message to the parent. Then P(node) = P(node |
        separator) P(separator) is differentiated, from the roots to the leaves.
        """
        now, changes = self.calibration, self._to_nodes(direction)
        for node in reversed(range(len(changes))):
            mean = self._in_node[node].sum(now.conditionals[node] * changes[node])
            changes[node] -= mean
            if in_parent := self._in_parent[node]:
                parent, separator = in_parent
                changes[parent] += mean.reshape(separator.spread)
        for node in range(len(changes)):
            changes[node] *= now.separators[node]
            if self.tree.parents[node] is not None:
                changes[node] += self._separator_sum(node, changes)
            changes[node] *= now.conditionals[node]
        return self._to_cliques(changes)

    def ordered(self, attributes: Iterable[str]) -> AttributeNames:
        return tuple(sorted(set(attributes), key=self._order.__getitem__))

    def clique_marginals(self) -> Floats:
        """Return the expected counts of all maximal cliques, one after the other."""
        return self._to_cliques(self.calibration.beliefs)

    def marginal(self, attributes: AttributeNames) -> Floats:
        """Return the expected counts of `attributes`, with one axis per attribute."""
        names = self.ordered(attributes)
        axes = tuple(names.index(name) for name in attributes)
        return np.transpose(self.total * self._probabilities(names), axes)

    def _probabilities(self, attributes: AttributeNames) -> Floats:
        for names, belief in zip(self.tree.nodes, self.calibration.beliefs, strict=True):
            if all(name in names for name in attributes):
                return _sum_to(belief, names, attributes)
        requested = frozenset(attributes)
        trees = []
        for node, parent in enumerate(self.tree.parents):
            if parent is None and (of_tree := self._below[node] & requested):
                lowest, result = self._lowest(node, of_tree), self.ordered(of_tree)
                belief = self.calibration.beliefs[lowest]
                trees.append((result, self._eliminate(lowest, belief, of_tree, result)))
        return self._product(trees, attributes)

    def _lowest(self, node: int, requested: frozenset[str]) -> int:
        """Return the lowest node with all requested attributes in its subtree.

        P(node) contains all that the rest of the tree says about this subtree.
        """
        for child in self._children[node]:
            if requested <= self._below[child].union(self._separators[child]):
                return self._lowest(child, requested)
        return node

    def _message(self, node: int, requested: frozenset[str]) -> tuple[AttributeNames, Floats]:
        """Compute P(below | separator) by variable elimination.

        `below` contains the requested attributes that the node's subtree adds to the node's
        separator. The array has one axis per attribute of `below` and of the separator.
        """
        below = requested & self._below[node]
        key, messages = (node, below), self.calibration.messages
        if key not in messages:
            result = self.ordered((*below, *self._separators[node]))
            conditional = self.calibration.conditionals[node]
            messages[key] = (result, self._eliminate(node, conditional, below, result))
        return messages[key]

    def _eliminate(
        self, node: int, factor: Floats, requested: frozenset[str], result: AttributeNames
    ) -> Floats:
        """Multiply a factor of the node with its children's messages, and sum to `result`."""
        factors = [
            self._message(child, requested)
            for child in self._children[node]
            if requested & self._below[child]
        ]
        needed = {*result, *(name for names, _ in factors for name in names)}
        scope = tuple(name for name in self.tree.nodes[node] if name in needed)
        summed = _sum_to(factor, self.tree.nodes[node], scope)
        return self._product([(scope, summed), *factors], result)

    def _product(
        self, factors: Sequence[tuple[AttributeNames, Floats]], result: AttributeNames
    ) -> Floats:
        """Multiply factors, one after the other, and sum over attributes that are not needed."""
        names, product = factors[0]
        for i, (others, factor) in enumerate(factors[1:], start=2):
            needed = {*result, *(name for later, _ in factors[i:] for name in later)}
            names, product = _contract(names, product, others, factor, needed)
        kept = tuple(name for name in names if name in result)
        return np.transpose(_sum_to(product, names, kept), [kept.index(name) for name in result])

    def sample(self, rows: int, rng: Rng) -> NDArray[np.int64]:
        """Sample `(rows, d)` codes along the junction tree, with columns in the domain's order.

        Among rows with equal separator values, the count of each code is the expected count, up to
        rounding. Among those that are also equal in earlier columns, it is nearly the expected
        count. Independent draws would add their sampling noise to every marginal. The order of the
        rows is random.
        """
        columns: dict[str, NDArray[np.int64]] = {}
        for node, attributes in enumerate(self.tree.nodes):
            separator = self._separators[node]
            fresh = tuple(name for name in attributes if name not in separator)
            axes = [attributes.index(name) for name in (*separator, *fresh)]
            conditional = np.transpose(self.calibration.conditionals[node], axes)
            table = conditional.reshape(_cells(self.domain, separator), -1)
            group = _flat([columns[n] for n in separator], self._shape(separator), rows)
            drawn = _systematic(table, group, self._strata(group, columns, separator), rng)
            for name, codes in zip(fresh, np.unravel_index(drawn, self._shape(fresh)), strict=True):
                columns[name] = codes.astype(np.int64)
        return np.stack([columns[name] for name in self.domain], axis=1)

    def _strata(
        self,
        group: NDArray[np.int64],
        columns: Mapping[str, NDArray[np.int64]],
        separator: AttributeNames,
    ) -> NDArray[np.int64]:
        """Return a number for each row that sorts rows by group, and then by the other columns.

        Columns with many values are first. Columns beyond the range of an integer are left out.
        """
        strata, largest = group, _cells(self.domain, separator)
        for name in sorted(columns.keys() - set(separator), key=self._order.__getitem__)[::-1]:
            largest *= self.domain[name]
            if largest > _LARGEST_STRATUM:
                break
            strata = strata * self.domain[name] + columns[name]
        return strata

    def _shape(self, attributes: AttributeNames) -> tuple[int, ...]:
        return tuple(self.domain[name] for name in attributes)


def _contract(
    names: AttributeNames, one: Floats, others: AttributeNames, two: Floats, needed: Set[str]
) -> tuple[AttributeNames, Floats]:
    """Multiply two factors, and sum over shared attributes that are not needed: a matrix product.

    Source: einsum. Its search for a path takes longer than the product itself.
    """
    shared = [name for name in names if name in others]
    batch, summed = [n for n in shared if n in needed], [n for n in shared if n not in needed]
    left, right = [n for n in names if n not in shared], [n for n in others if n not in shared]
    sizes = dict(zip((*names, *others), (*one.shape, *two.shape), strict=True))

    def matrix(
        factor: Floats, order: AttributeNames, rows: Sequence[str], columns: Sequence[str]
    ) -> Floats:
        axes = [order.index(name) for name in (*batch, *rows, *columns)]
        shape = [math.prod(sizes[n] for n in group) for group in (batch, rows, columns)]
        return factor.transpose(axes).reshape(shape)

    product = matrix(one, names, left, summed) @ matrix(two, others, summed, right)
    result = (*batch, *left, *right)
    return result, product.reshape([sizes[name] for name in result])


@lru_cache(maxsize=100_000)
def _cells_of(sizes: tuple[int, ...], mask: int) -> int:
    """Return the number of cells of the attributes in a bit mask."""
    return math.prod(size for i, size in enumerate(sizes) if mask >> i & 1)


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


def first_within(clique: AttributeNames, nodes: Sequence[AttributeNames]) -> int:
    """Return the index of the first node that has all attributes of the clique."""
    return next(i for i, node in enumerate(nodes) if set(clique) <= set(node))


def _sum_to(factor: Floats, attributes: AttributeNames, kept: AttributeNames) -> Floats:
    """Sum a factor over every attribute outside `kept`. Attributes keep their order."""
    if len(attributes) == len(kept):
        return factor
    axes = tuple(axis for axis, name in enumerate(attributes) if name not in kept)
    return np.asarray(np.add.reduce(factor, axis=axes))


def _sum_axes(factor: Floats, axes: tuple[int, ...]) -> Floats:
    """Sum over axes, which stay with length 1."""
    return np.asarray(np.add.reduce(factor, axis=axes, keepdims=True)) if axes else factor


def _flat(
    columns: Sequence[NDArray[np.int64]], shape: tuple[int, ...], rows: int
) -> NDArray[np.int64]:
    if not columns:
        return np.zeros(rows, dtype=np.int64)
    return np.asarray(np.ravel_multi_index(tuple(columns), shape), dtype=np.int64)


def _systematic(
    table: Floats, group: NDArray[np.int64], strata: NDArray[np.int64], rng: Rng
) -> NDArray[np.int64]:
    """For each entry g of `group`, sample a column from the distribution in row g of `table`.

    The members of a group use the quantiles (i + u_i) / size, so the count of each column is nearly
    the expected count. Members are sorted by `strata`, where group is the first criterion. Member r
    has i = step * r + offset, modulo size. With step / size near the golden ratio, the quantiles of
    successive members are spread evenly, so the same is nearly true in each stratum. u_i and the
    offset are random, and so is the order within a stratum. Source: rank-1 lattice rules, Dick,
    Kuo, Sloan 2013, section 5.
    """
    groups, columns = table.shape
    sizes = np.bincount(group, minlength=groups)
    shuffled = rng.permutation(len(group))
    order = shuffled[np.argsort(strata[shuffled], kind="stable")]
    ordered = group[order]
    rank = np.arange(len(group)) - (np.cumsum(sizes) - sizes)[ordered]
    offset = np.floor(rng.random(groups) * sizes).astype(np.int64)
    size = sizes[ordered]
    index = (rank * _lattice_steps(sizes)[ordered] + offset[ordered]) % size
    quantile = (index + rng.random(len(group))) / size
    cumulative = np.cumsum(table, axis=1)
    cumulative /= cumulative[:, -1:]
    ascending = (cumulative + np.arange(groups)[:, None]).ravel()
    indices = np.searchsorted(ascending, ordered + quantile, side="right")
    drawn = np.empty(len(group), dtype=np.int64)
    drawn[order] = np.minimum(indices - ordered * columns, columns - 1)
    return drawn


def _lattice_steps(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a step for each size: the first number coprime to it from size / golden ratio on."""
    steps = np.maximum(np.rint(sizes * _GOLDEN), 1).astype(np.int64)
    while (shared := np.gcd(steps, sizes) > 1).any():
        steps += shared
    return np.asarray(steps)
