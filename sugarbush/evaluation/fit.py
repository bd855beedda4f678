"""Measures whether records find similar texts: one histogram over public cells.

Each record falls into one of two cells: its nearest text is near, or not. A text is near if its
distance to the record is at most the 95% quantile of a set of distances: those of the text and its
neighbours to their own nearest texts. On a scale from the similarity of two random records (0) to
equality (1), it is not near below 0.2, and always near above 0.5. The scale comes from a released
mean of the records' embeddings, and everything else comes from the texts. So the cells are public.
If the records had the same distribution as the texts, more than half of them would be near
(docs/log/first_look.md).

A record's cell depends on this record and public values alone, bit for bit: the nearest text comes
from an exact search (`embedding.nearest`), and its distance is compared in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sugarbush.embedding.nearest import nearest, nearest_few
from sugarbush.errors import InvariantError

CELLS: Final = 2  # far, near
Z95: Final = 1.96
UNIT: Final = 1024  # the length of an embedding in a sum
_OF_EMBEDDING, _OF_COUNT = 0.8, 0.6
_BELOW: Final = 1 - 2.0**-20  # more than all roundings of a length add to it
_NEIGHBOURS: Final = 15  # texts that say how near texts are to each other in one place
_NEAR: Final = 0.95  # share of these texts with another text within the distance
_MOST_ERROR: Final = 0.15  # of the similarity of two random records
# Similarities between that of random records (0) and equality (1): below the first no text is near,
# above the second every text is.
_ABOVE_RANDOM, _SURELY_NEAR = 0.2, 0.5


@dataclass(frozen=True, kw_only=True)
class ShareInterval:
    """A share, with the ends of its 95% interval, which contains the noise."""

    value: float
    low: float
    high: float

    def in_percent(self) -> str:
        """Return the share in words, such as '60% (58% to 62%)'."""
        return f"{self.value:.0%} ({self.low:.0%} to {self.high:.0%})"

    @classmethod
    def of(cls, far: float, near: float, *, stddev: float) -> ShareInterval | None:
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


def steps_of(embeddings: NDArray[np.floating]) -> NDArray[np.int32]:
    """Return what each record adds to a sum: its embedding, and a count of one, (n, d + 1) int32.

    Guarantee: row i depends on `embeddings[i]` alone, bit for bit, and its L2 norm is at most UNIT.
    *Proof.* With c = 0.8 (1 - 2^-20), a vector v of length l becomes v c UNIT / max(l, 1), rounded
    towards 0, so its length is at most 0.8 UNIT. The last number is at most 0.6 UNIT. The squared
    norm is at most (0.64 + 0.36) UNIT^2. QED

    >>> steps_of(np.array([[0.6, -0.8]])).tolist()
    [[491, -655, 614]]
    """
    rows = np.ascontiguousarray(embeddings, dtype=np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    scaled = rows * (_OF_EMBEDDING * _BELOW * UNIT) / np.maximum(lengths, 1.0)
    count = np.full((len(rows), 1), _OF_COUNT * UNIT)
    return np.asarray(np.trunc(np.concatenate([scaled, count], axis=1)).astype(np.int32))


@dataclass(frozen=True, kw_only=True)
class Centre:
    """The mean (d,) of the records' embeddings, from a released noisy sum.

    `stddev` is the noise of each of its numbers, `relative_error` that of the number of records.
    """

    mean: NDArray[np.float64]
    stddev: float
    relative_error: float

    @classmethod
    def of(cls, sums: NDArray[np.integer], *, stddev: float) -> Centre | None:
        """Read a noisy sum of `steps_of`. None: its noise is too large for a scale."""
        records = float(sums[-1]) / int(_OF_COUNT * UNIT)
        error = stddev / int(_OF_COUNT * UNIT)
        if records <= 3 * error:
            return None
        scale = _OF_EMBEDDING * UNIT * records
        mean = np.asarray(sums[:-1], dtype=np.float64) / scale
        found = cls(mean=mean, stddev=stddev / scale, relative_error=error / records)
        return found if found.similarity_error <= _MOST_ERROR else None

    @property
    def similarity(self) -> float:
        """The mean similarity of two random records: the squared length without its noise."""
        return float(self.mean @ self.mean) - len(self.mean) * self.stddev**2

    @property
    def least_similarity(self) -> float:
        """The similarity minus its standard error, from 0 to 0.95.

        At 1, only equal texts would be near, and the noise could leave none.
        """
        return min(max(self.similarity - self.similarity_error, 0.0), 0.95)

    @property
    def similarity_error(self) -> float:
        """The standard error of `similarity`."""
        noise = math.sqrt(2 * len(self.mean)) * self.stddev**2
        length = math.sqrt(max(self.similarity, 0.0))
        return math.hypot(noise, 2 * length * self.stddev, 2 * length**2 * self.relative_error)


@dataclass(frozen=True, kw_only=True)
class NearTexts:
    """The cells of records beside public texts with unit vectors `embeddings` (m, d) float32.

    `random` is at most the similarity of two random records. If it is None, the texts alone decide
    what is near.
    """

    embeddings: NDArray[np.float32]
    random: float | None = None

    def __post_init__(self) -> None:
        if self.embeddings.ndim != 2 or not len(self.embeddings):
            raise InvariantError("a fit needs texts")

    @cached_property
    def distances(self) -> NDArray[np.float64]:
        """The squared distance within which each text (m,) is near.

        Most of the texts around it have another text within this distance. Copies are one text.
        """
        count = min(_NEIGHBOURS + 1, max(len(self.embeddings), 2))
        around = nearest_few(self.embeddings, self.embeddings, count=count)
        first = around[:, 0]  # a text itself, or the text that it copies
        found = around >= 0
        apart = np.full(len(first), np.nan)
        two = found[:, 1]
        apart[two] = _squared(self.embeddings[two], self.embeddings[around[two, 1]])
        if not two.any():
            return np.full(len(first), self._apart(_SURELY_NEAR, default=0.0))
        local = np.nanquantile(np.where(found, apart[around], np.nan), _NEAR, axis=1)
        surely, random = (
            self._apart(_SURELY_NEAR, default=0.0),
            self._apart(_ABOVE_RANDOM, default=4.0),
        )
        return np.asarray(np.clip(local, surely, random))

    def _apart(self, fraction: float, *, default: float) -> float:
        """The squared distance at a fraction of the way from random records to equality."""
        return default if self.random is None else 2 * (1 - self.random) * (1 - fraction)

    def cells(self, embeddings: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return 1 for each record (n, d) whose nearest text is near, and 0 for others: (n,)."""
        places = nearest(np.ascontiguousarray(embeddings), self.embeddings)
        apart = _squared(embeddings, self.embeddings[places])
        return (apart <= self.distances[places]).astype(np.int32)

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
