"""The scorers: what one record gives to each candidate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.embedding.class_sums import (
    Classes,
    ClassSums,
    class_rows,
    class_scale,
    classes_of,
)
from sugarbush.embedding.nearest import nearest, nearest_few, within_label
from sugarbush.errors import InvariantError
from sugarbush.evolution.kernel_scores import RESOLUTION, KernelScores
from sugarbush.evolution.parts import Candidates, Records, Scorer, Scores
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.mechanisms import exact_histogram, noisy_histogram
from sugarbush.privacy.remarks import CLASS_SUMS, EMBEDDINGS
from sugarbush.privacy.session import PrivacySession
from sugarbush.threads import blocks

_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, kw_only=True)
class NearestVotes(Scorer):
    """A record votes for the `votes` candidates that are nearest to it.

    A vote for k candidates gives each of them floor(RESOLUTION / sqrt(k)) / RESOLUTION votes, so
    the L2 norm of what a record gives is at most one vote for every k. With fewer than k different
    candidates, a record votes for all of them. With `by_label`, a record votes among the candidates
    of its own label, or among all if there is none. Source: Xie et al. 2024, Algorithm 1; k nearest
    as in Lin et al. 2024, Algorithm 2.

    >>> NearestVotes().unit, NearestVotes(votes=5).unit
    (1, 4096)
    """

    votes: int = 1
    by_label: bool = False

    @property
    def unit(self) -> int:
        """The L2 sensitivity to one record: 1 for a whole vote, RESOLUTION for parts of votes."""
        return 1 if self.votes == 1 else RESOLUTION

    @property
    def reads_codes(self) -> bool:
        return self.by_label

    def points(
        self, embeddings: NDArray[np.float32], codes: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the points (n, k) float32 of records or candidates. Their distances decide the
        votes.

        Guarantee: point i depends on embedding i and codes i alone. The default is the embeddings.
        """
        return embeddings

    def scores(self, candidates: Candidates) -> Scores:
        fraction = 1 if self.votes == 1 else int(RESOLUTION / np.sqrt(self.votes))
        prepared = self._with_points(candidates)
        rows = max(1, _NUMBERS_AT_ONCE // len(candidates))

        def scores_of(records: Records) -> Iterable[NDArray[Any]]:
            for block in blocks(len(records), rows):
                batch = records[block]
                scores = np.zeros((len(batch), len(candidates)), dtype=np.int32)
                indices = self._nearest(batch, prepared)
                chosen = indices >= 0
                scores[np.nonzero(chosen)[0], indices[chosen]] = fraction
                yield scores

        return scores_of

    def total(
        self,
        records: Private[Records],
        candidates: Candidates,
        *,
        stddev: float | None,
        session: PrivacySession,
    ) -> Released[NDArray[np.int64]]:
        """Return the noisy votes. One vote per record is counted as a histogram, which is the same
        mechanism and much quicker."""
        if self.votes > 1:
            return super().total(records, candidates, stddev=stddev, session=session)
        prepared = self._with_points(candidates)

        def bins(batch: Records) -> NDArray[np.int64]:
            return self._nearest(batch, prepared)[:, 0]

        nearest_one: Private[int] = records.map_batch(bins)
        size = len(candidates)
        if stddev is None:
            return exact_histogram(nearest_one, size=size, session=session)
        return noisy_histogram(nearest_one, size=size, stddev=stddev, session=session)

    def _with_points(self, candidates: Candidates) -> Candidates:
        points = self.points(candidates.embeddings, candidates.codes)
        return replace(candidates, embeddings=points)

    def _nearest(self, records: Records, candidates: Candidates) -> NDArray[np.int64]:
        """Return the indices of the nearest candidates, `(n, k)`; -1 where there are fewer.

        `candidates` has points in place of embeddings.
        """

        def search(queries: NDArray[np.float32], among: NDArray[np.float32]) -> NDArray[np.int64]:
            if self.votes == 1:
                return nearest(queries, among)[:, None]
            return nearest_few(queries, among, count=self.votes)

        queries = self.points(records.embeddings, records.codes)
        if not self.by_label:
            return search(queries, candidates.embeddings)
        return within_label(
            queries,
            candidates.embeddings,
            query_labels=records.labels,
            candidate_labels=candidates.labels,
            search=search,
        )

    def __post_init__(self) -> None:
        if not 1 <= self.votes <= RESOLUTION:
            raise InvariantError(f"a record votes for 1 to {RESOLUTION} candidates")


@dataclass(frozen=True, kw_only=True)
class KernelScorer(Scorer):
    """A record gives a kernel score to every candidate (`sugarbush.evolution.kernel_scores`).

    `width` is the width of the kernel, as a cosine distance.
    """

    name: ClassVar[str] = "scores"
    width: float = 0.2

    @property
    def unit(self) -> int:
        """The L2 norm of all numbers of a record is at most RESOLUTION."""
        return RESOLUTION

    def scores(self, candidates: Candidates) -> Scores:
        kernel = KernelScores(candidates.embeddings, width=self.width)
        return lambda records: kernel.by_rows(records.embeddings)


@dataclass(frozen=True, kw_only=True)
class ScoresAndClassSums(KernelScorer):
    """A record gives kernel scores, and adds its embedding to the sums of its own attribute values.

    One row contains both, and one noisy sum releases them. The norm of the scores is at most
    `score_unit`, and the norm of the embeddings (`sugarbush.embedding.class_sums`) at most
    `class_unit`. Their squares add up to at most RESOLUTION^2, so the row has the sensitivity of
    kernel scores alone. `class_share` is the share of mu^2 that pays for the embeddings. `classes`
    are the attributes, which `for_schema` sets. Without attributes, a row contains scores alone.

    >>> ScoresAndClassSums(class_share=0.2, classes=((0, 7),)).score_unit
    3663
    """

    class_share: float
    classes: Classes = ()

    @property
    def score_unit(self) -> int:
        if not self.classes:
            return RESOLUTION
        return math.floor(RESOLUTION * math.sqrt(1 - self.class_share))

    @property
    def class_unit(self) -> int:
        """The largest L2 norm of what a record adds to the sums by class."""
        return math.isqrt(RESOLUTION**2 - self.score_unit**2)

    @property
    def reads_codes(self) -> bool:
        return bool(self.classes)

    @property
    def remarks(self) -> tuple[str, ...]:  # type: ignore[override]
        return (EMBEDDINGS, CLASS_SUMS) if self.classes else (EMBEDDINGS,)

    def for_schema(self, schema: Schema) -> ScoresAndClassSums:
        return replace(self, classes=classes_of(schema))

    @property
    def alone(self) -> ScoresAndClassSums:
        return replace(self, classes=())

    def size(self, candidates: Candidates) -> int:
        values = sum(size for _, size in self.classes)
        return len(candidates) + values * int(candidates.embeddings.shape[1])

    def scores(self, candidates: Candidates) -> Scores:
        kernel = KernelScores(candidates.embeddings, width=self.width)
        centre = _centre(candidates)

        def scores_of(records: Records) -> Iterable[NDArray[Any]]:
            start = 0
            for scores in kernel.by_rows(records.embeddings):
                batch = records[start : start + len(scores)]
                start += len(scores)
                if not self.classes:
                    yield scores
                    continue
                sums = class_rows(
                    batch.embeddings,
                    batch.codes,
                    classes=self.classes,
                    centre=centre,
                    norm=self.class_unit,
                )
                yield np.concatenate([scores * self.score_unit // RESOLUTION, sums], axis=1)

        return scores_of

    def class_sums(
        self, total: Released[NDArray[np.int64]], candidates: Candidates, *, stddev: float | None
    ) -> Released[ClassSums] | None:
        if not self.classes:
            return None
        scale = class_scale(self.classes, self.class_unit)
        size, dim = len(candidates), candidates.embeddings.shape[1]
        return total.map(
            lambda sums: ClassSums(
                sums=sums[size:].reshape(-1, dim) / scale,
                stddev=(stddev or 0.0) / scale,
                centre=_centre(candidates),
                classes=self.classes,
            )
        )


def _centre(candidates: Candidates) -> NDArray[np.float64]:
    """Return the mean embedding of the candidates, (dim,), which is public."""
    return np.asarray(candidates.embeddings.mean(axis=0, dtype=np.float64))
