"""Measures whether records find similar texts: one histogram over public cells.

Each record falls into one of two cells: its nearest text is near, or not. A text is near if it is
nearer than most of the texts' own nearest neighbours. So the cells follow from the texts alone and
are public. If the records had the same distribution as the texts, about `NEAR` of them were near.

A record's cell depends on this record and the public texts alone, bit for bit: the nearest text
comes from an exact search (`evolution.nearest`), and its distance is compared in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution.nearest import nearest, nearest_few

NEAR: Final = 0.75  # share of the texts with another text within the distance
CELLS: Final = 2  # far, near
Z95: Final = 1.96
_MOST_TEXTS: Final = 5000


@dataclass(frozen=True)
class NearTexts:
    """The cells of records beside public texts with unit vectors `embeddings` (m, d) float32."""

    embeddings: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.embeddings.ndim != 2 or len(self.embeddings) < 2:
            raise InvariantError("a fit needs at least two texts")

    @cached_property
    def distance(self) -> float:
        """The squared distance within which a share of NEAR of the texts have another text.

        Copies of a text are one text.
        """
        queries = self.embeddings
        if len(queries) > _MOST_TEXTS:
            chosen = np.linspace(0, len(queries) - 1, _MOST_TEXTS).astype(np.int64)
            queries = queries[chosen]
        others = nearest_few(queries, self.embeddings, count=2)[:, 1]
        found = others >= 0
        apart = _squared(queries[found], self.embeddings[others[found]])
        return float(np.quantile(apart, NEAR)) if len(apart) else 0.0

    def cells(self, embeddings: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return 1 for each record (n, d) whose nearest text is near, and 0 for others: (n,)."""
        places = nearest(np.ascontiguousarray(embeddings), self.embeddings)
        return (_squared(embeddings, self.embeddings[places]) <= self.distance).astype(np.int32)

    def cells_by_value(
        self, near: NDArray[np.int32], codes: NDArray[np.int64], sizes: Sequence[int]
    ) -> NDArray[np.int32]:
        """Return a record's cell for each attribute: its value, and whether it is near, (n, d).

        `codes` are those of the records, and `sizes` the numbers of values. -1 is no cell.
        """
        starts = CELLS * np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        cells = starts + CELLS * codes + near[:, None]
        return np.where(codes >= 0, cells, -1).astype(np.int32)


def _squared(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the squared distance of each row. A sum over a row does not depend on other rows."""
    difference = one.astype(np.float64) - other.astype(np.float64)
    return np.asarray((difference * difference).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of the records, with the ends of its 95% interval, which contains the noise."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, far: float, near: float, *, stddev: float) -> Share | None:
        """Return near / (far + near) from noisy counts, or None if the noise is too large.

        The interval is that of Fieller 1954: the ratios r for which near - r (far + near) is within
        1.96 stddevs of its noise.

        >>> share = Share.of(400, 600, stddev=10)
        >>> round(share.low, 2), share.value, round(share.high, 2)
        (0.59, 0.6, 0.61)
        """
        total = far + near
        if total <= 3 * stddev * math.sqrt(2):
            return None
        ratios = np.linspace(0, 1, 2001)
        noise = stddev * np.hypot(1 - ratios, ratios)
        accepted = ratios[np.abs(near - ratios * total) <= Z95 * noise]
        value = min(max(near / total, 0.0), 1.0)
        low, high = (accepted.min(), accepted.max()) if len(accepted) else (value, value)
        return cls(value=value, low=min(float(low), value), high=max(float(high), value))
