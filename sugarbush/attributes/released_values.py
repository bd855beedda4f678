"""Decides the numbers and dates of released texts.

The number or date of a text comes from the first source that exists:

    0. the number of records of a history, which the text has
    1. the value that the prompt showed, if the text says it, and it is in the bin that was read
    2. the only value in the text that is in this bin
    3. the value that the prompt showed, if it is in this bin, and no earlier text was requested
       with the same values: texts that were varied from one text share its values
    4. a value that is drawn in this bin

Values of 3 and 4 are drawn again in rows that break a rule.

Guarantee: post-processing. The inputs are released texts and codes, the public schema, and public
randomness that depends on the number of the text; no private value is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.drawn_values import draw_values
from sugarbush.data.quantities import Quantity
from sugarbush.data.schema import Schema
from sugarbush.randomness import hash_share

Floats = NDArray[np.float64]

_EQUAL = 1e-9  # numbers are rounded to at most 9 decimals


def released_values(
    schema: Schema,
    texts: Sequence[str],
    codes: NDArray[np.int64],
    *,
    requested: Floats,
    ids: NDArray[np.int64],
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the values (n, d) of n texts, and which rows (n,) break a rule.

    `codes` (n, d) were read from the texts, `requested` (n, d) are the values that prompts showed
    (NaN without a value), and `ids` (n,) are the numbers of the texts. A value is NaN for an
    attribute without numbers or dates and without a bin. Equal arguments give equal values.
    """
    stated = np.full(codes.shape, np.nan)
    in_bin = np.full(codes.shape, np.nan)
    for place, attribute in enumerate(schema.attributes):
        if (quantity := attribute.quantity) is None:
            continue
        shape, column = schema.shape, attribute.column or ""
        if shape is not None and column in shape.computed_columns and shape.is_inside(column):
            known = (shape.value_in(text, column) for text in texts)
            stated[:, place] = np.fromiter(known, dtype=np.float64, count=len(texts))
            continue
        requested_values = requested[:, place]
        said = schema.texts_of(attribute.read_from, texts)
        inside = quantity.contains(codes[:, place], requested_values)
        in_bin[inside, place] = requested_values[inside]
        for row in np.flatnonzero(
            (codes[:, place] >= 0) & (codes[:, place] < len(quantity.ranges))
        ):
            numbers = np.array(quantity.numbers_in(said[int(row)]), dtype=np.float64)
            numbers = np.unique(quantity.on_grid(numbers))
            numbers = numbers[quantity.contains(codes[row, place], numbers)]
            if inside[row] and (np.abs(numbers - requested_values[row]) < _EQUAL).any():
                stated[row, place] = requested_values[row]
            elif len(numbers) == 1:
                stated[row, place] = numbers[0]
    in_bin[_repeated(requested)] = np.nan
    preferred = np.where(np.isnan(stated), in_bin, stated)

    def shares(attempt: int, rows: NDArray[np.intp]) -> Floats:
        drawn = [[_share(int(ids[row]), name, attempt) for name in schema.names] for row in rows]
        return np.array(drawn).reshape(len(rows), len(schema.names))

    values, broken = draw_values(schema, codes, shares=shares, fixed=preferred, tries=1)
    if broken.any():  # what a text says does not change, what a prompt showed may
        again = np.flatnonzero(broken)
        values[again], broken[again] = draw_values(
            schema,
            codes[again],
            shares=lambda attempt, rows: shares(attempt + 1, again[rows]),
            fixed=stated[again],
        )
    return values, broken


def states_value(quantity: Quantity, texts: Sequence[str], values: Floats) -> NDArray[np.bool_]:
    """Return whether each text (n) states its value in `values` (n,). NaN is never stated."""
    return np.array(
        [
            not np.isnan(value)
            and any(abs(number - value) < _EQUAL for number in quantity.numbers_in(text))
            for text, value in zip(texts, values.tolist(), strict=True)
        ],
        dtype=bool,
    )


def _repeated(rows: Floats) -> NDArray[np.bool_]:
    """Return whether each row (n, d) equals an earlier one, with NaN equal to NaN."""
    repeated = np.ones(len(rows), dtype=bool)
    comparable = np.where(np.isnan(rows), np.inf, rows)
    repeated[np.unique(comparable, axis=0, return_index=True)[1]] = False
    return repeated


def _share(number: int, name: str, attempt: int) -> float:
    return hash_share(f"value\x1f{number}\x1f{name}\x1f{attempt}")
