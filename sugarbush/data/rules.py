"""Rules between the numbers and dates of a release, such as `end >= start`.

A rule compares expressions of columns, numbers and dates:

    end >= start
    start <= end <= '2024-12-31'
    total == price * quantity
    end - start <= 30               # days between two dates, or seconds between two datetimes

Allowed are names of attributes with a type or with listed numbers, constants, + - *, and the
comparisons == != < <= > >=. The text is parsed as Python, and only these forms are accepted; it is
never evaluated by Python. A rule holds for a row without a value of one of its columns.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.quantities import Edge, Kind, as_edge, kind_of, number_of_edge

Floats = NDArray[np.float64]
Interval = tuple[float, float]

_MOST_CHARACTERS: Final = 200
_CLOSE: Final = 1e-9  # relative error of sums and products of floats
_COMPARISONS: Final[dict[type, tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_OPERATIONS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_ALLOWED: Final = "Allowed are columns, numbers, dates in quotation marks, + - *, and comparisons"


@dataclass(frozen=True, kw_only=True)
class RuleColumn:
    """A column that a rule may name: its kind, its smallest and largest value, and the largest
    rounding error of its values."""

    kind: Kind
    low: float
    high: float
    rounding: float = 0.0


@dataclass(frozen=True)
class Rule:
    """A checked rule. `columns` are all columns that it may name.

    >>> days = Column(kind=Kind.DATE, low=1, high=9)
    >>> rule = Rule("end >= start", {"start": days, "end": days})
    >>> rule.broken({"start": np.array([3.0, 3.0]), "end": np.array([2.0, 4.0])}).tolist()
    [True, False]
    """

    text: str
    columns: Mapping[str, RuleColumn]

    def __post_init__(self) -> None:
        for left, _, right in self._comparisons:
            kinds = self._kind(left), self._kind(right)
            if kinds[0] != kinds[1]:
                raise ValueError(
                    f"rule '{self.text}' compares {_named(kinds[0])} with {_named(kinds[1])}"
                )
        if not self.names:
            raise ValueError(f"rule '{self.text}' names no column")

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns that the rule names."""
        sides = [side for left, _, right in self._comparisons for side in (left, right)]
        return frozenset(
            node.id for side in sides for node in ast.walk(side) if isinstance(node, ast.Name)
        )

    @cached_property
    def _comparisons(self) -> tuple[tuple[ast.expr, type, ast.expr], ...]:
        if len(self.text) > _MOST_CHARACTERS:
            raise ValueError(f"a rule is longer than {_MOST_CHARACTERS} characters")
        try:
            tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"rule '{self.text}' is no comparison. {_ALLOWED}") from None
        if not isinstance(tree, ast.Compare) or any(type(o) not in _COMPARISONS for o in tree.ops):
            raise ValueError(f"rule '{self.text}' is no comparison. {_ALLOWED}")
        sides = [tree.left, *tree.comparators]
        for side in sides:
            self._check(side)
        return tuple(
            (a, type(o), b) for a, o, b in zip(sides[:-1], tree.ops, sides[1:], strict=True)
        )

    def _check(self, node: ast.expr) -> None:
        """Raise ValueError for an expression that the grammar does not have."""
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            self._check(node.left)
            self._check(node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self._check(node.operand)
        elif isinstance(node, ast.Name):
            if node.id not in self.columns:
                raise ValueError(
                    f"rule '{self.text}' names '{node.id}', which is no attribute with numbers or "
                    "dates. Give the attribute bins, type and span"
                )
        elif not isinstance(node, ast.Constant) or _constant(node) is None:
            raise ValueError(f"rule '{self.text}' has a part that is not allowed. {_ALLOWED}")

    def _kind(self, node: ast.expr) -> Kind:
        """Return NUMBER, DATE or DATETIME. Raises ValueError for a sum that means nothing."""
        if isinstance(node, ast.Name):
            kind = self.columns[node.id].kind
            return kind if kind.is_time else Kind.NUMBER
        if isinstance(node, ast.Constant):
            constant = _constant(node)
            assert constant is not None
            return kind_of((constant,)) or Kind.NUMBER
        if isinstance(node, ast.UnaryOp):
            kind = self._kind(node.operand)
        else:
            assert isinstance(node, ast.BinOp)
            left, right = self._kind(node.left), self._kind(node.right)
            if left is right and (left is Kind.NUMBER or isinstance(node.op, ast.Sub)):
                return Kind.NUMBER
            if right is Kind.NUMBER and not isinstance(node.op, ast.Mult):
                return left  # a date plus days
            kind = Kind.DATE
        if kind is not Kind.NUMBER:
            raise ValueError(f"rule '{self.text}' adds or multiplies dates")
        return kind

    def broken(self, values: Mapping[str, Floats]) -> NDArray[np.bool_]:
        """Return which rows break the rule, (n,). `values` maps each name to its column (n,)."""
        known = np.ones(len(next(iter(values.values()))), dtype=bool)
        for name in self.names:
            known &= ~np.isnan(values[name])
        broken = np.zeros(len(known), dtype=bool)
        for left, comparison, right in self._comparisons:
            a, b = (
                np.broadcast_to(np.asarray(_value(side, values), dtype=np.float64), (len(known),))
                for side in (left, right)
            )
            broken |= ~self._holds(comparison, a, b, rounding=self._rounding(left, right))
        return broken & known

    def _holds(
        self, comparison: type, a: Floats, b: Floats, *, rounding: float
    ) -> NDArray[np.bool_]:
        margin = _CLOSE * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
        if comparison in {ast.Eq, ast.NotEq}:
            equal = np.abs(a - b) <= margin + rounding
            return np.asarray(equal if comparison is ast.Eq else ~equal)
        if comparison in {ast.LtE, ast.GtE}:
            a = np.where(np.abs(a - b) <= margin, b, a)
        return np.asarray(_COMPARISONS[comparison][1](a, b))

    def _rounding(self, left: ast.expr, right: ast.expr) -> float:
        """Return the rounding error of a column that equals an expression."""
        sides = [self.columns[side.id] for side in (left, right) if isinstance(side, ast.Name)]
        return max((column.rounding for column in sides), default=0.0)

    def definitions(self) -> tuple[tuple[str, Callable[[Mapping[str, Floats]], Floats]], ...]:
        """Return the columns that the rule defines by an equality, with the function of a row."""
        defined = []
        for left, comparison, right in self._comparisons:
            for side, other in ((left, right), (right, left)):
                if comparison is ast.Eq and isinstance(side, ast.Name):
                    defined.append((side.id, _Expression(other)))
        return tuple(defined)

    @property
    def is_possible(self) -> bool:
        """Whether the spans of the columns allow a row that obeys the rule. The result True is not
        certain, because a column that occurs twice counts as two columns.
        """
        return not self.impossible_in({n: (c.low, c.high) for n, c in self.columns.items()})

    def impossible_in(self, spans: Mapping[str, Interval]) -> bool:
        """Whether no values in the spans (low, high) of the columns obey the rule."""
        for left, comparison, right in self._comparisons:
            (a, b), (c, d) = self._interval(left, spans), self._interval(right, spans)
            slack = self._rounding(left, right) + _CLOSE * max(1.0, *map(abs, (a, b, c, d)))
            if (
                (comparison is ast.Eq and (b + slack < c or d + slack < a))
                or (comparison in {ast.Lt, ast.LtE} and a > d + slack)
                or (comparison in {ast.Gt, ast.GtE} and b + slack < c)
            ):
                return True
        return False

    def _interval(self, node: ast.expr, spans: Mapping[str, Interval]) -> Interval:
        if isinstance(node, ast.Name):
            return spans[node.id]
        if isinstance(node, ast.Constant):
            value = float(_value(node, {}))
            return value, value
        if isinstance(node, ast.UnaryOp):
            low, high = self._interval(node.operand, spans)
            return -high, -low
        assert isinstance(node, ast.BinOp)
        operation = _OPERATIONS[type(node.op)]
        left, right = self._interval(node.left, spans), self._interval(node.right, spans)
        ends = [operation(a, b) for a in left for b in right]
        return min(ends), max(ends)


@dataclass(frozen=True)
class _Expression:
    """The value of one side of a rule."""

    node: ast.expr

    def __call__(self, values: Mapping[str, Floats]) -> Floats:
        return np.asarray(_value(self.node, values), dtype=np.float64)


def _value(node: ast.expr, values: Mapping[str, Floats]) -> Any:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant):
        constant = _constant(node)
        assert constant is not None
        return number_of_edge(constant, kind_of((constant,)))
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, values)
    assert isinstance(node, ast.BinOp)
    operation = _OPERATIONS[type(node.op)]
    return operation(_value(node.left, values), _value(node.right, values))


def _constant(node: ast.Constant) -> Edge | None:
    """Return a number or a date, or None for another constant."""
    value = node.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**53 else None
    if isinstance(value, str):
        edge = as_edge(value)
        return edge if kind_of((edge,)) is not None else None  # type: ignore[arg-type, return-value]
    return None


def _named(kind: Kind) -> str:
    return f"a {kind}"
