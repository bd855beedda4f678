"""Builds the instruments that measure the records of a release, and what one record adds to them.

The instruments are post-processing of released texts, so they are public. What a record adds
depends on this record and the instruments alone, bit for bit: distances come from an exact search,
and classifiers compute in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.embedding.nearest import nearest
from sugarbush.errors import InvariantError
from sugarbush.evaluation.downstream import train_classifier
from sugarbush.evaluation.fit import NearTexts
from sugarbush.evaluation.public_figures import CELLS_OF_ATTRIBUTE, CELLS_OF_COVERAGE
from sugarbush.generators.interface import Embed
from sugarbush.release.figures import public_weights

_MOST_TOPICS, _TEXTS_OF_A_TOPIC = 10, 20
_MOST_TEXTS = 5000  # that decide the distance, or teach a classifier
_GRID, _BITS = 4000, 20  # of embeddings, and of the weights of a classifier
_EXACT = 2**52


@dataclass(frozen=True, kw_only=True)
class Instruments:
    """The instruments of one release with `texts` (n,) and their `labels`.

    `embed` returns the embeddings of the texts from a public cache. `random` is the similarity of
    two random records, if the first look measured it.
    """

    texts: Sequence[str]
    labels: Labels
    schema: Schema
    embed: Embed
    seed: int
    random: float | None = None

    @cached_property
    def embeddings(self) -> NDArray[np.float32]:
        return np.asarray(self.embed(tuple(self.texts)), dtype=np.float32)

    @property
    def measured(self) -> tuple[bool, ...]:
        """Whether the release has a label of each attribute for at least one text."""
        return tuple(bool((codes >= 0).any()) for codes in self.labels.codes.T)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of attributes that both have labels, in at least one text."""
        codes = self.labels.codes >= 0
        return tuple(
            (one, other)
            for one, other in combinations(range(codes.shape[1]), 2)
            if (codes[:, one] & codes[:, other]).any()
        )

    @cached_property
    def near(self) -> NearTexts | None:
        """What a near text is; None without texts."""
        if not len(self.embeddings):
            return None
        return NearTexts(embeddings=self.embeddings, random=self.random)

    def queries(self) -> list[list[NDArray[np.int64]]]:
        """Return the histograms of `noisy_histogram_distances`: one query for each attribute, then
        one for all pairs. An attribute without labels has a histogram that no record is in."""
        weights = public_weights(self.labels)
        sizes, codes = list(self.schema.domain.values()), self.labels.codes
        queries = [[_histogram(codes[:, j], weights, size)] for j, size in enumerate(sizes)]
        if len(sizes) > 1:
            pairs = [
                _histogram(_joint(codes, pair, sizes), weights, sizes[pair[0]] * sizes[pair[1]])
                for pair in self.pairs
            ]
            queries.append(pairs or [np.ones(1, dtype=np.int64)])
        return queries

    def cells_of_records(self, codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return a record's cell in each histogram of `queries`, from its codes (n, d)."""
        codes = codes.astype(np.int64)  # cells of pairs would overflow int8
        sizes, known = list(self.schema.domain.values()), self.measured
        columns = [np.where(known[j], codes[:, j], -1) for j in range(len(sizes))]
        if len(sizes) > 1:
            joint = [_joint(codes, pair, sizes) for pair in self.pairs]
            columns += joint or [np.full(len(codes), -1)]
        return np.stack(columns, axis=1).astype(np.int32)

    @cached_property
    def _classifiers(self) -> tuple[IntegerClassifier | None, ...]:
        codes, found = self.labels.codes, []
        for j, is_measured in enumerate(self.measured):
            rows = _thinned(np.flatnonzero(codes[:, j] >= 0))
            found.append(
                IntegerClassifier.trained(self.embeddings[rows], codes[rows, j], seed=self.seed)
                if is_measured
                else None
            )
        return tuple(found)

    @cached_property
    def _common(self) -> tuple[int, ...]:
        """The most common value of each attribute in the release, by weight."""
        return tuple(int(query[0].argmax()) for query in self.queries()[: len(self.measured)])

    @property
    def quality_size(self) -> int:
        """The number of cells in which a record may be."""
        return CELLS_OF_COVERAGE + CELLS_OF_ATTRIBUTE * len(self.measured)

    @property
    def quality_cells(self) -> int:
        """The number of cells in which one record is, at most."""
        return 1 + len(self.measured)

    def prepare(self) -> None:
        """Compute all instruments. This happens before the first charge."""
        _ = self.near, self._classifiers, self._common, self.topics

    def cells_of_quality(
        self, embeddings: NDArray[np.float32], codes: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return a record's cells: covered or not, and for each attribute whether the most
        common value and the classifier are right. A record without a value has no cell there."""
        cells = np.full((len(codes), self.quality_cells), -1, dtype=np.int32)
        cells[:, 0] = 0 if self.near is None else self.near.cells(embeddings)
        for j, classifier in enumerate(self._classifiers):
            if classifier is not None:
                right = classifier.predict(embeddings) == codes[:, j]
                common = codes[:, j] == self._common[j]
                start = CELLS_OF_COVERAGE + CELLS_OF_ATTRIBUTE * j
                cells[:, 1 + j] = np.where(codes[:, j] >= 0, start + 2 * right + common, -1)
        return cells

    @cached_property
    def number_of_topics(self) -> int:
        """One topic for 20 texts with different embeddings, at most 10."""
        different = len(np.unique(self.embeddings, axis=0))
        return max(1, min(_MOST_TOPICS, different // _TEXTS_OF_A_TOPIC))

    @cached_property
    def topics(self) -> Topics:
        """The topics of the release: its texts in clusters, and the number of texts in each."""
        from sklearn.cluster import KMeans  # slow to import

        number = self.number_of_topics
        clusters = KMeans(number, n_init=1, random_state=self.seed % 2**32).fit(self.embeddings)
        centres = np.asarray(clusters.cluster_centers_, dtype=np.float32)
        sizes = np.bincount(nearest(self.embeddings, centres), minlength=number)
        return Topics(centres=centres, texts=sizes.astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class Topics:
    """The centres (k, d) of the topics of a release, and the number of `texts` (k,) in each."""

    centres: NDArray[np.float32]
    texts: NDArray[np.int64]

    def cells(self, embeddings: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the nearest topic of each record, `(n, 1)`."""
        return nearest(embeddings, self.centres)[:, None].astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class IntegerClassifier:
    """A linear classifier in integers, so that a prediction depends on its own record alone.

    A product of floats in a matrix library may depend on the other rows of the batch in its last
    bits. Here every product and every sum is an integer below 2^53, which float64 represents
    exactly, in any order. `weights` is (d, values), `offsets` and `codes` are (values,).
    """

    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    codes: NDArray[np.int64]

    @classmethod
    def trained(
        cls, embeddings: NDArray[np.float32], codes: NDArray[np.int64], *, seed: int
    ) -> IntegerClassifier:
        """Train on `embeddings` (n, d) with `codes` (n,). Raises InvariantError without rows."""
        model, values = train_classifier(embeddings, codes, seed=seed), np.unique(codes)
        weights, offsets = np.zeros((len(values), embeddings.shape[1])), np.zeros(len(values))
        if len(values) == 2:
            weights[1], offsets[1] = model.coef_[0], model.intercept_[0]
        elif len(values) > 2:
            weights, offsets = model.coef_, model.intercept_
        return cls.of(np.asarray(weights), np.asarray(offsets), values)

    @classmethod
    def of(
        cls, weights: NDArray[Any], offsets: NDArray[Any], codes: NDArray[np.int64]
    ) -> IntegerClassifier:
        """Round weights (values, d) and offsets (values,) to integers."""
        largest = np.abs(weights).max(initial=0.0) * np.sqrt(weights.shape[1])
        largest = max(float(largest), float(np.abs(offsets).max(initial=0.0)), 1.0)
        bits = min(_BITS, int(np.floor(np.log2(_EXACT / (2 * _GRID * largest))) - 1))
        return cls(
            weights=np.rint(weights.T * 2.0**bits),
            offsets=np.rint(offsets * _GRID * 2.0**bits),
            codes=np.asarray(codes, dtype=np.int64),
        )

    def predict(self, embeddings: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the code of each unit vector (n, d). Equal scores go to the smallest code.

        Raises InvariantError for a vector that is not finite or longer than 1.
        """
        whole = np.rint(embeddings.astype(np.float64) * _GRID)
        if not (np.einsum("ij,ij->i", whole, whole) <= (1.04 * _GRID) ** 2).all():
            raise InvariantError("an embedding is not a unit vector")
        return np.asarray(self.codes[(whole @ self.weights + self.offsets).argmax(axis=1)])


def _thinned(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `_MOST_TEXTS` of the rows, evenly spaced."""
    if len(rows) <= _MOST_TEXTS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, _MOST_TEXTS).astype(np.int64)]


def _histogram(
    codes: NDArray[np.int64], weights: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    known = codes >= 0
    counts = np.bincount(codes[known], weights=weights[known], minlength=size).astype(np.int64)
    return counts if counts.sum() > 0 else np.ones(size, dtype=np.int64)


def _joint(
    codes: NDArray[np.int64], pair: tuple[int, int], sizes: Sequence[int]
) -> NDArray[np.int64]:
    one, other = (codes[:, j] for j in pair)
    return np.where((one >= 0) & (other >= 0), one * sizes[pair[1]] + other, -1)
