"""Combinations of values that no row may have, as zeros of the graphical model.

The schema declares them as public rules. No private value decides them, so a mechanism's
sensitivity and charge do not depend on them: the measurer counts and charges as without rules, also
the records that break a rule. Only the fit and the drawn rows, which are post-processing of noisy
counts, are restricted. No number of records that break a rule is computed.

A rule is a factor of the model: 0 for forbidden cells and 1 for the others. So the marginals that
are fitted, and all rows that are sampled, obey it. A rule is not in the model if its table of cells
is larger than a measured marginal may be, or if the junction tree of all rules would be too large.
Rows that break such a rule are drawn again (`rows_that_obey`), after other rare values of their
cells were tried (`synthesis.draw_rows`).

Source: Bishop, Fienberg, Holland 1975, "Discrete Multivariate Analysis", chapter 5 (quasi-
independence).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.category_rules import Implication, row_that_obeys
from sugarbush.tables.dp_table import AttributeNames

Codes = NDArray[np.int64]
Draw = Callable[[int], Codes]
Broken = Callable[[Codes], NDArray[np.bool_]]

_TRIES: Final = 20  # rows that break a rule are drawn again at most so many times


@dataclass(frozen=True, kw_only=True)
class Zeros:
    """The cells of a marginal that are 0: `forbidden`, with one axis per attribute."""

    attributes: AttributeNames
    forbidden: NDArray[np.bool_]

    @classmethod
    def of(cls, rule: Implication) -> Zeros:
        shape = tuple(rule.sizes.values())
        columns = dict(zip(rule.names, np.indices(shape).reshape(len(shape), -1), strict=True))
        return cls(attributes=rule.names, forbidden=rule.broken(columns).reshape(shape))

    def merged(self, cells: Mapping[str, Codes]) -> Zeros:
        """Return the zeros of merged values: a cell is 0 if all values in it are forbidden."""
        forbidden = self.forbidden
        for axis, name in enumerate(self.attributes):
            if name in cells:
                allowed = np.moveaxis(~forbidden, axis, 0)
                summed = np.zeros((int(cells[name].max()) + 1, *allowed.shape[1:]), dtype=bool)
                np.logical_or.at(summed, cells[name], allowed)
                forbidden = ~np.moveaxis(summed, 0, axis)
        return replace(self, forbidden=forbidden)


class TableDomain(dict[str, int]):
    """The number of cells of each attribute, and the zeros of the table."""

    def __init__(self, sizes: Mapping[str, int], zeros: Sequence[Zeros] = ()) -> None:
        super().__init__(sizes)
        self.zeros = tuple(zeros)

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> TableDomain:
        return cls(sizes, zeros_of(sizes))

    def merged(self, cells: Mapping[str, Codes]) -> TableDomain:
        """Return the domain of merged values. `cells` maps each code of an attribute to a cell."""
        sizes = {name: int(cells[name].max()) + 1 if name in cells else self[name] for name in self}
        return TableDomain(sizes, [zeros.merged(cells) for zeros in self.zeros])


def zeros_of(sizes: Mapping[str, int]) -> tuple[Zeros, ...]:
    """Return the zeros of a domain; () for a domain without rules."""
    return sizes.zeros if isinstance(sizes, TableDomain) else ()


def domain_with_rules(
    sizes: Mapping[str, int],
    rules: Sequence[Implication],
    *,
    max_cells: int,
    fits: Callable[[list[AttributeNames]], bool],
) -> TableDomain:
    """Return a domain with the zeros of the rules that the model can contain.

    `fits` says whether a model of some cliques is small enough. A rule about an attribute outside
    the table is left out, because its rows have no value of this attribute.
    """
    zeros: list[Zeros] = []
    for rule in rules_of_table(sizes, rules):
        cliques = [*(each.attributes for each in zeros), rule.names]
        if math.prod(rule.sizes.values()) <= max_cells and fits(cliques):
            zeros.append(Zeros.of(rule))
    return TableDomain(sizes, zeros)


def rules_of_table(
    sizes: Mapping[str, int], rules: Sequence[Implication]
) -> tuple[Implication, ...]:
    """Return the rules of which the table has all attributes."""
    return tuple(rule for rule in rules if all(name in sizes for name in rule.names))


def broken_rows(domain: Mapping[str, int], rules: Sequence[Implication]) -> Broken:
    """Return the function that says of each row (n, d) whether it breaks a rule, `(n,)`."""
    rules, names = rules_of_table(domain, rules), list(domain)

    def broken(codes: Codes) -> NDArray[np.bool_]:
        columns = dict(zip(names, codes.T, strict=True))
        found = np.zeros(len(codes), dtype=bool)
        for rule in rules:
            found |= rule.broken(columns)
        return found

    return broken


def rows_that_obey(
    rows: Codes, *, domain: Mapping[str, int], rules: Sequence[Implication], draw: Draw
) -> Codes:
    """Return `rows` (n, d), with another row in place of each one that breaks a rule.

    `draw(n)` draws n rows of the model. So the rows follow the model, given that they obey the
    rules. If 20 draws do not suffice, a row that obeys is repeated; without one, the attributes of
    the rules get values that obey. Guarantee: post-processing; every row obeys every rule.
    """
    broken = broken_rows(domain, rules)
    rows = rows.copy()
    again = np.flatnonzero(broken(rows))
    for _ in range(_TRIES):
        if not len(again):
            return rows
        drawn = draw(len(rows))
        drawn = drawn[~broken(drawn)][: len(again)]
        rows[again[: len(drawn)]] = drawn
        again = again[len(drawn) :]
    if not len(again):
        return rows
    obeying = np.delete(rows, again, axis=0)
    if len(obeying):
        rows[again] = obeying[np.arange(len(again)) % len(obeying)]
        return rows
    names = list(domain)
    for name, code in (row_that_obeys(rules_of_table(domain, rules)) or {}).items():
        rows[again, names.index(name)] = code
    return rows
