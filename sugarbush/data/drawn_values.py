"""Draws numbers and dates inside the bins of a released row, so that the rows obey the rules.

No draw repairs a row of which the values themselves break a rule.

Guarantee: post-processing. The inputs are released codes, the public schema and public randomness;
no private value is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema

Floats = NDArray[np.float64]
# Maps an attempt and rows (k,) to positions in the bins, (k, d) in [0, 1).
Shares = Callable[[int, NDArray[np.intp]], Floats]

TRIES = 200  # a row that breaks a rule is drawn again at most so many times


def draw_values(
    schema: Schema,
    codes: NDArray[np.int64],
    *,
    shares: Shares,
    fixed: Floats | None = None,
    tries: int = TRIES,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a value for each code (n, d), NaN for an attribute without numbers or dates and for a
    code that is no bin, and the rows (n,) that break a rule.

    A value is uniform in its bin. A row that breaks a rule is drawn again, and a column that a rule
    defines (`total == price * quantity`) is computed. Values of `fixed` (n, d) that are not NaN do
    not change.
    """
    kept = np.full(codes.shape, np.nan) if fixed is None else fixed
    values = _drawn(schema, codes, kept, shares(0, np.arange(len(codes))))
    broken = broken_rows(schema, codes, values)
    hopeless = _hopeless(schema, codes) if broken.any() else broken
    for attempt in range(1, tries):
        again = np.flatnonzero(broken & ~hopeless)
        if not len(again):
            break
        values[again] = _drawn(schema, codes[again], kept[again], shares(attempt, again))
        broken[again] = broken_rows(schema, codes[again], values[again])
    return values, broken


def broken_rows(schema: Schema, codes: NDArray[np.int64], values: Floats) -> NDArray[np.bool_]:
    """Return the rows (n,) that break a rule of the schema."""
    broken = np.zeros(len(codes), dtype=bool)
    if schema.rules and len(codes):
        columns = _columns(schema, codes, values)
        for rule in schema.checked_rules:
            broken |= rule.broken(columns)
    return broken | broken_categories(schema, codes)


def broken_categories(schema: Schema, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the rows (n,) of codes (n, d) that break a rule between values."""
    columns = dict(zip(schema.names, codes.T, strict=True))
    broken = np.zeros(len(codes), dtype=bool)
    for rule in schema.category_rules:
        broken |= rule.broken(columns)
    return broken


def possible_rows(schema: Schema, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the rows (n,) of codes (n, d) in which some numbers and dates may obey the rules."""
    return ~_hopeless(schema, codes) if schema.rules else np.ones(len(codes), dtype=bool)


def _drawn(schema: Schema, codes: NDArray[np.int64], kept: Floats, shares: Floats) -> Floats:
    values = kept.copy()
    for place, attribute in enumerate(schema.attributes):
        if attribute.quantity is not None:
            drawn = attribute.quantity.draw(codes[:, place], shares[:, place])
            values[:, place] = np.where(np.isnan(kept[:, place]), drawn, kept[:, place])
    for rule in schema.checked_rules:
        for name, expression in rule.definitions():
            place = schema.names.index(name)
            quantity = schema.attribute(name).quantity
            if quantity is not None:
                columns = _columns(schema, codes, values)
                defined = quantity.on_grid(expression(columns) + np.zeros(len(codes)))
                free = np.isnan(kept[:, place]) & quantity.contains(codes[:, place], defined)
                values[free, place] = defined[free]
    return values


def _hopeless(schema: Schema, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the rows (n,) in which no numbers and dates obey the rules."""
    different, of_row = np.unique(codes, axis=0, return_inverse=True)
    hopeless = np.array(
        [_is_hopeless(schema, tuple(row)) for row in different.tolist()], dtype=bool
    )
    return hopeless[np.ravel(of_row)] | broken_categories(schema, codes)


def _is_hopeless(schema: Schema, row: tuple[int, ...]) -> bool:
    spans: dict[str, tuple[float, float]] = {}
    for attribute, code in zip(schema.attributes, row, strict=True):
        if code < 0 or code >= len(attribute.domain) - 1:
            continue
        if (quantity := attribute.quantity) is not None:
            spans[attribute.name] = quantity.drawn(code, 0.0), quantity.drawn(code, 1 - 1e-12)
        elif (numbers := attribute.numbers) is not None:
            spans[attribute.name] = float(numbers[code]), float(numbers[code])
    return any(
        rule.names <= spans.keys() and rule.impossible_in(spans) for rule in schema.checked_rules
    )


def _columns(schema: Schema, codes: NDArray[np.int64], values: Floats) -> Mapping[str, Floats]:
    columns = {}
    for place, attribute in enumerate(schema.attributes):
        if attribute.quantity is not None:
            columns[attribute.name] = values[:, place]
        elif (numbers := attribute.numbers) is not None:
            listed = np.array([*numbers, np.nan, np.nan], dtype=np.float64)
            columns[attribute.name] = listed[codes[:, place]]  # -1 and the bucket are NaN
    return columns
