"""Sums of embeddings by class: what one record adds, and the released noisy sums.

A record adds its direction from a public centre to the sum of its value of each attribute. A reader
of labels learns from the noisy sums (`sugarbush.attributes.class_reader`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Attribute, Schema

_BELOW = 1 - 2.0**-40  # more than all roundings of a direction add to its length
_TINY = 1e-12

# More values with sums cost time and memory: each has a number per dimension of an embedding.
MOST_VALUES = 64

# An attribute with sums: its column in the codes, and its number of listed values.
Classes = tuple[tuple[int, int], ...]


def classes_of(schema: Schema) -> Classes:
    """Return the attributes with sums: those with `has_sums`, in the order of the schema.

    An attribute is left out if it would make more than MOST_VALUES values in total. The value
    `other` has no sum, because its records have nothing in common.
    """
    classes, values = list[tuple[int, int]](), 0
    for column, attribute in enumerate(schema.attributes):
        size = len(attribute.domain) - 1
        if has_sums(attribute, schema) and values + size <= MOST_VALUES:
            classes.append((column, size))
            values += size
    return tuple(classes)


def has_sums(attribute: Attribute, schema: Schema) -> bool:
    """Return whether the values come from a column of the file or an LLM, for the whole text.

    Values by keywords or descriptions, and values in JSON records, are read from a text without
    sums. Numbers and dates have no sums, because a text states them.
    """
    return (
        attribute.keywords is None
        and attribute.zero_shot is None
        and attribute.bins is None
        and attribute.read_from is None
        and not (
            schema.shape is not None
            and attribute.column is not None
            and schema.shape.is_computed(attribute.column)
        )
    )


def left_out(schema: Schema) -> tuple[str, ...]:
    """Return the names of attributes that have no sums only because of MOST_VALUES."""
    chosen = {column for column, _ in classes_of(schema)}
    return tuple(
        attribute.name
        for column, attribute in enumerate(schema.attributes)
        if has_sums(attribute, schema) and column not in chosen
    )


def directions(
    embeddings: NDArray[np.floating], centre: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the directions from `centre` (d,) to `embeddings` (n, d): rows of length 1 or 0.

    Guarantee: row i depends on `embeddings[i]` and `centre` alone, bit for bit, because numpy adds
    the squares of a row in an order that depends on d alone.
    """
    offsets = np.ascontiguousarray(embeddings, dtype=np.float64) - centre
    lengths = np.sqrt((offsets * offsets).sum(axis=1, keepdims=True))
    return np.asarray(offsets / np.maximum(lengths, _TINY))


def class_scale(classes: Classes, norm: int) -> float:
    """Return the length of a direction in a row of norm `norm`: norm / sqrt(A) for A attributes."""
    return norm / math.sqrt(len(classes))


def class_rows(
    embeddings: NDArray[np.floating],
    codes: NDArray[np.int64],
    *,
    classes: Classes,
    centre: NDArray[np.float64],
    norm: int,
) -> NDArray[np.int32]:
    """Return what each of n records adds to the sums of all values: `(n, k * d)` int32.

    Guarantee: row i depends on record i and `centre` alone, bit for bit, and its L2 norm is at most
    `norm`. *Proof.* A record has one value of each of the A attributes, so a row contains at most A
    copies of one vector v, each in the block of its own value. v is a direction times
    s = norm / sqrt(A), rounded towards 0, so |v| <= s times the computed length of the direction.
    This length is at most 1 + 2^-45, which the factor 1 - 2^-40 compensates. The squared norm of
    the row is at most A |v|^2 <= A s^2 = norm^2. QED

    `embeddings` (n, d) and `codes` (n, a) belong to the records. A code outside the listed values
    of its attribute, such as `other`, adds nothing.
    """
    dim = embeddings.shape[1]
    scale = class_scale(classes, norm) * _BELOW
    steps = np.trunc(directions(embeddings, centre) * scale).astype(np.int32)
    rows = np.zeros((len(steps), sum(size for _, size in classes), dim), dtype=np.int32)
    first = 0
    for column, size in classes:
        values = codes[:, column]
        listed = np.flatnonzero((values >= 0) & (values < size))
        rows[listed, first + values[listed]] = steps[listed]
        first += size
    return rows.reshape(len(steps), -1)


@dataclass(frozen=True, kw_only=True)
class ClassSums:
    """Released sums (k, d) of directions from `centre` (d,), in records.

    `stddev` is the noise of each number, 0 without noise. The rows are the listed values of the
    attributes `classes`, one attribute after the other.
    """

    sums: NDArray[np.float64]
    stddev: float
    centre: NDArray[np.float64]
    classes: Classes

    def of(self, column: int) -> NDArray[np.float64] | None:
        """Return the sums of the listed values of an attribute, or None without sums."""
        first = 0
        for each, size in self.classes:
            if each == column:
                return self.sums[first : first + size]
            first += size
        return None
