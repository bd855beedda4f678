"""Shares of values that the publisher chooses for a release, in place of those of the data.

    release:
      mix:
        product: {editor: 0.5, server: 0.5}    # balanced; no other product
        year: {2026: 1}                        # a condition: only texts of 2026
        outcome: {refused: 0.3}                # a rare value; the rest as in the DP table

The shares of an attribute that the mix does not name follow from those that it names. A release
with a mix is post-processing: the inputs are the public setting and DP counts. `weights` undo the
choice, so that weighted counts follow the DP counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.category_rules import row_that_obeys
from sugarbush.data.cells import Listing
from sugarbush.data.drawn_values import possible_rows
from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Shares = Mapping[str, Mapping[str, float]]

_MOST_CELLS: Final = 10_000
_ROUNDS: Final = 500
_CLOSE: Final = 1e-9
_LEAST: Final = 1e-6  # a smaller joint share is 0
_NOT_SEEN: Final = 1e-3  # records in all cells that the DP table lacks, as a share of its records


@dataclass(frozen=True, kw_only=True)
class Classes:
    """The classes of one attribute: one for each value that the mix names, and one for the rest.

    `of_code` (values + 1,) is the class of each code, or -1 for a value that the mix leaves out and
    for an open value (the last entry). `goals` are the shares of the classes, with the sum 1.
    `fallback` are codes of the classes.
    """

    column: int
    of_code: Codes
    goals: Floats
    fallback: Codes

    def in_shares(self, counts: NDArray[Any], shares: Floats) -> Floats:
        """Return the shares (values,) of all values, if the classes have `shares`. The values of a
        class are in proportion to `counts` (values,)."""
        positive = np.maximum(counts.astype(np.float64), 0.0)
        found = np.zeros(len(positive))
        for number, share in enumerate(shares.tolist()):
            is_in = self.of_code[:-1] == number
            own = np.where(is_in, positive, 0.0)
            if not own.any():
                own[self.fallback[number]] = 1.0
            found += share * own / own.sum()
        return found


@dataclass(frozen=True, kw_only=True)
class Mix:
    """The chosen shares (k,) of k cells (k, m), and their DP shares (k,).

    A cell is a combination of classes of m attributes. `shares` has the sum 1; the sum of
    `dp_shares` is at most 1.
    """

    attributes: tuple[Classes, ...]
    cells: Codes
    shares: Floats
    dp_shares: Floats

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the attributes in the codes."""
        return tuple(each.column for each in self.attributes)

    def cell_of(self, codes: Codes) -> Codes:
        """Return the number of the cell of each row (n, d), or -1 if its share is 0."""
        numbers = {tuple(cell): number for number, cell in enumerate(self.cells.tolist())}
        classes = np.stack([each.of_code[codes[:, each.column]] for each in self.attributes], 1)
        return np.array([numbers.get(tuple(row), -1) for row in classes.tolist()], dtype=np.int64)

    def with_shares(self, shares: Floats) -> Mix:
        """Return the mix with other shares of the same cells, in proportion to `shares`."""
        return replace(self, shares=np.asarray(shares / shares.sum()))

    def reachable(self, counts: Codes) -> Mix:
        """Return the mix with the joint shares that the most of `counts` (k,) texts can have.

        The shares of each attribute are the same. With one attribute, nothing changes. If no text
        can be released, the mix is returned as it is.
        """
        from scipy.optimize import linprog  # slow

        rows = [
            np.append(self.cells[:, place] == number, -share)
            for place, each in enumerate(self.attributes)
            for number, share in enumerate(each.goals.tolist())
        ]
        found = linprog(
            np.append(np.zeros(len(self.cells)), -1.0),
            A_eq=np.array(rows, dtype=np.float64),
            b_eq=np.zeros(len(rows)),
            bounds=[*((0, count) for count in counts.tolist()), (0, None)],
        )
        if not found.success or found.x[-1] < 1:
            return self
        return self.with_shares(np.maximum(found.x[:-1], 0.0))

    def weights(self, codes: Codes) -> Floats:
        """Return weights (n,) of mean 1, with which the cells have their DP shares.

        A cell without a text cannot come back. The weight outside all cells is 0.
        """
        cells = self.cell_of(codes)
        counts = counts_of_cells(cells, len(self.cells))
        per_text = self.dp_shares / np.maximum(counts, 1)
        weights = np.where(cells >= 0, per_text[cells], 0.0)
        total = weights.sum()
        return np.asarray(weights * (len(weights) / total) if total > 0 else np.ones(len(weights)))

    def row_weights(self, rows: Codes) -> Floats:
        """Return weights (n,) of rows of the DP table, with which the cells have their shares."""
        cells = self.cell_of(rows)
        ratio = self.shares / np.maximum(self.dp_shares, 1 / max(len(rows), 1))
        return np.where(cells >= 0, ratio[cells], 0.0)

    def spread(self, counts: Codes) -> Codes:
        """Return the number of a cell for each of sum(counts) texts, spread evenly, so that the
        first texts have nearly the same shares as all."""
        cells = np.repeat(np.arange(len(counts)), counts)
        turns = np.concatenate([(np.arange(count) + 0.5) / count for count in counts if count])
        return np.asarray(cells[np.argsort(turns, kind="stable")])

    def rows_of(self, cell: int, rows: Codes, schema: Schema) -> Codes:
        """Return the DP rows of a cell. If the table has none, other rows get the cell's values.

        All rows obey the rules of the schema.
        """
        own: Codes = rows[self.cell_of(rows) == cell]
        own = own[possible_rows(schema, own)]
        if len(own):
            return own
        changed, fixed = rows.copy(), dict[str, int]()
        for each, number in zip(self.attributes, self.cells[cell].tolist(), strict=True):
            is_in = each.of_code[changed[:, each.column]] == number
            changed[~is_in, each.column] = fixed[schema.names[each.column]] = each.fallback[number]
        if len(kept := changed[possible_rows(schema, changed)]):
            return kept
        for name, code in (row_that_obeys(schema.category_rules, row=fixed) or {}).items():
            changed[:, schema.names.index(name)] = code
        return changed


def counts_of_cells(cells: Codes, size: int) -> Codes:
    """Return how many of the texts (n,) are in each of `size` cells; -1 is outside all cells."""
    return np.asarray(np.bincount(cells[cells >= 0], minlength=size), dtype=np.int64)


def mix_of(shares: Shares, schema: Schema, *, counts: Codes) -> Mix:
    """Return the mix with the chosen shares that is nearest to DP counts.

    `counts` has one axis per attribute of `shares`. Joint shares have the dependences of the
    counts (iterative proportional fitting; Deming and Stephan 1940).
    """
    positive = np.maximum(counts.astype(np.float64), 0.0)
    attributes = tuple(
        _classes(name, of_values, schema, counts=_sum_to(positive, axis))
        for axis, (name, of_values) in enumerate(shares.items())
    )
    in_classes, allowed = positive, _allowed(tuple(shares), schema)
    for axis, each in enumerate(attributes):
        in_classes = _merged(in_classes, each, axis)
        allowed = _merged(allowed.astype(np.float64), each, axis) > 0
    dp_shares = in_classes / max(positive.sum(), 1.0)
    joint = np.where(allowed, dp_shares + _NOT_SEEN / allowed.sum(), 0.0)
    for _ in range(_ROUNDS if len(attributes) > 1 else 1):
        for axis, each in enumerate(attributes):
            factors = each.goals / np.maximum(_sum_to(joint, axis), 1e-300)
            joint *= factors.reshape([-1 if a == axis else 1 for a in range(joint.ndim)])
    joint[joint < _LEAST] = 0.0
    chosen = joint > 0
    return Mix(
        attributes=attributes,
        cells=np.argwhere(chosen).astype(np.int64),
        shares=joint[chosen] / joint.sum(),
        dp_shares=dp_shares[chosen],
    )


def _classes(
    name: str, of_values: Mapping[str, float], schema: Schema, *, counts: Floats
) -> Classes:
    listed, rest = _goals(name, of_values, schema)
    size = len(schema.attribute(name).domain)
    of_code = np.full(size + 1, len(listed) if rest else -1, dtype=np.int64)
    of_code[list(listed)], of_code[-1] = np.arange(len(listed)), -1
    others = np.flatnonzero(of_code[:-1] == len(listed))
    most = [int(others[np.argmax(counts[others])])] if rest else []
    return Classes(
        column=schema.names.index(name),
        of_code=of_code,
        goals=np.array([*listed.values(), *([rest] if rest else [])]),
        fallback=np.array([*listed, *most], dtype=np.int64),
    )


def _merged(values: Floats, classes: Classes, axis: int) -> Floats:
    """Add up the values of each class along an axis. Values that are left out are dropped."""
    moved = np.moveaxis(values, axis, 0)
    summed = np.zeros((len(classes.goals), *moved.shape[1:]))
    is_in = classes.of_code[:-1] >= 0
    np.add.at(summed, classes.of_code[:-1][is_in], moved[is_in])
    return np.moveaxis(summed, 0, axis)


def _sum_to(values: Floats, axis: int) -> Floats:
    return np.asarray(values.sum(axis=tuple(a for a in range(values.ndim) if a != axis)))


def require_mix(shares: Shares, schema: Schema) -> None:
    """Raise ParamsError for an unknown value, and for shares that the rules do not allow."""
    if not shares:
        return
    goals = []
    for name, of_values in shares.items():
        if name not in schema.names:
            known = ", ".join(schema.names)
            raise ParamsError(f"release.mix.{name}: is no attribute of the schema: {known}")
        goals.append(_goals(name, of_values, schema))
    size = math.prod(schema.domain[name] for name in shares)
    if size > _MOST_CELLS:
        raise ParamsError(
            f"release.mix: its attributes have {size:,} combinations of values. At most "
            f"{_MOST_CELLS:,} are possible. Remove an attribute"
        )
    if not _is_feasible(goals, _allowed(tuple(shares), schema)):
        rules = "; ".join(rule.text for rule in schema.category_rules)
        where = f" The rules are: {rules}" if rules else ""
        raise ParamsError(f"release.mix: no rows can have all of these shares.{where}")


def _goals(name: str, of_values: Mapping[str, float], schema: Schema) -> tuple[dict[int, float],
                                                                               float]:  # fmt: skip
    """Return the shares of the listed codes, and the share of all other codes together."""
    domain = schema.attribute(name).domain
    listing, listed = Listing(domain), dict[int, float]()
    for value, share in of_values.items():
        if (code := listing.place(value)) is None or code in listed:
            raise ParamsError(
                f"release.mix.{name}: '{value}' is no value, or is there twice. The values are: "
                f"{', '.join(domain)}"
            )
        listed[code] = share
    total = sum(listed.values())
    if total > 1 + _CLOSE:
        raise ParamsError(f"release.mix.{name}: the shares have the sum {total:g}, above 1")
    rest = 1 - total if total < 1 - _CLOSE else 0.0
    if rest and len(listed) == len(domain):
        raise ParamsError(f"release.mix.{name}: the shares have the sum {total:g}, below 1")
    if not rest:
        listed = {code: share / total for code, share in listed.items()}
    return listed, rest


def _allowed(names: Sequence[str], schema: Schema) -> NDArray[np.bool_]:
    """Return which combinations of values the rules allow, with one axis per attribute."""
    shape = tuple(schema.domain[name] for name in names)
    allowed = np.ones(shape, dtype=bool)
    if not schema.category_rules:
        return allowed
    for cell in itertools.product(*map(range, shape)):
        row = dict(zip(names, cell, strict=True))
        try:
            allowed[cell] = row_that_obeys(schema.category_rules, row=row) is not None
        except TimeoutError:
            continue
    return allowed


def _is_feasible(goals: Sequence[tuple[dict[int, float], float]], allowed: Any) -> bool:
    """Return whether shares of the allowed cells have the chosen margins (a linear program)."""
    from scipy.optimize import linprog  # slow

    places = np.argwhere(allowed)
    if not len(places):
        return False
    rows, sums = [], []
    for axis, (listed, rest) in enumerate(goals):
        for code, share in listed.items():
            rows.append(places[:, axis] == code)
            sums.append(share)
        rows.append(~np.isin(places[:, axis], list(listed)))
        sums.append(rest)
    found = linprog(np.zeros(len(places)), A_eq=np.array(rows, dtype=float), b_eq=sums)
    return bool(found.success)


def mix_sentence(shares: Shares) -> str:
    """Say on pages that shares are chosen; '' without a mix."""
    said = []
    for name, of_values in shares.items():
        listed = ", ".join(f"{value} {share:.4g}" for value, share in of_values.items())
        rest = "" if sum(of_values.values()) >= 1 - _CLOSE else ", others as in the DP table"
        said.append(f"{name} ({listed}{rest})")
    if not said:
        return ""
    return (
        f"The publisher chose the shares of {' and of '.join(said)}. They are not the shares of "
        "the data. Counts of these attributes with the column weight follow the noisy shares of "
        "the data, except for values that were left out. Counts of other attributes may not."
    )
