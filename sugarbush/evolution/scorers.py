"""The scorers: what one record gives to each candidate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution.kernel_scores import RESOLUTION, KernelScores
from sugarbush.evolution.nearest import nearest, nearest_few, within_label
from sugarbush.evolution.parts import Candidates, Records, Scorer, Scores
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.mechanisms import exact_histogram, noisy_histogram
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
        """Return the points (n, k) float32 whose distances decide, of records or of candidates.

        Guarantee: point i depends on embedding i and codes i alone. The default is the embeddings.
        """
        return embeddings

    def scores(self, candidates: Candidates) -> Scores:
        part = 1 if self.votes == 1 else int(RESOLUTION / np.sqrt(self.votes))
        prepared = self._with_points(candidates)
        rows = max(1, _NUMBERS_AT_ONCE // len(candidates))

        def scores_of(records: Records) -> Iterable[NDArray[Any]]:
            for block in blocks(len(records), rows):
                batch = records[block]
                scores = np.zeros((len(batch), len(candidates)), dtype=np.int32)
                indices = self._nearest(batch, prepared)
                chosen = indices >= 0
                scores[np.nonzero(chosen)[0], indices[chosen]] = part
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
        """The L2 norm of a record's scores is at most RESOLUTION."""
        return RESOLUTION

    def scores(self, candidates: Candidates) -> Scores:
        kernel = KernelScores(candidates.embeddings, width=self.width)
        return lambda records: kernel.by_rows(records.embeddings)
