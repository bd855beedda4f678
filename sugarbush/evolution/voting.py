"""Private records vote for the nearest candidate, or give kernel scores to all candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.evolution.kernel_scores import RESOLUTION, KernelScores
from sugarbush.evolution.nearest import nearest, nearest_within_label
from sugarbush.evolution.population import Population
from sugarbush.evolution.settings import EvolutionSettings, Selection
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import DiscreteGaussian, Event, NonPrivate
from sugarbush.privacy.mechanisms import exact_histogram, exact_sum, noisy_histogram, noisy_sum
from sugarbush.privacy.session import PrivacySession


@dataclass(frozen=True)
class PrivateEmbeddings:
    """Unit vectors `embeddings` (n, dim) float32 and `labels` (n,) int64 of n records."""

    embeddings: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class VotingSession:
    """The records, the noise and the privacy session for the votes of a run.

    `stddev` is in votes, or in units of kernel scores. With `stddev=None`, there is no noise and no
    guarantee, and the charge is a NonPrivate event.
    """

    embeddings: Private[PrivateEmbeddings]
    stddev: float | None
    session: PrivacySession

    def cost(self, params: EvolutionSettings, *, rounds: int) -> Event:
        """Return one event for all `rounds` rounds."""
        if self.stddev is None:
            return NonPrivate()
        sensitivity = params.selection.record_l2_sensitivity * self.session.records_per_unit
        return DiscreteGaussian(stddev=self.stddev, sensitivity=sensitivity, count=rounds)

    def ask(
        self, population: Population, embeddings: NDArray[np.float32], params: EvolutionSettings
    ) -> Released[NDArray[np.int64]]:
        """Return noisy votes or noisy sums of kernel scores for all candidates, `(m,)` int64."""
        if params.selection is Selection.KERNEL_HERDING:
            return sum_scores(self, embeddings, width=params.score_width)
        return count_votes(self, embeddings, population.labels, by_label=params.by_label)


def count_votes(
    voting: VotingSession,
    embeddings: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    by_label: bool,
) -> Released[NDArray[np.int64]]:
    """Return noisy counts of the records nearest to each candidate, `(m,)` int64.

    With `by_label`, a record votes among the candidates of its own label. Each record has one vote,
    which depends on this record alone. `noisy_histogram` states the guarantee.
    """

    def bins(records: PrivateEmbeddings) -> NDArray[np.int64]:
        if not by_label:
            return nearest(records.embeddings, embeddings)
        return nearest_within_label(
            records.embeddings, embeddings, query_labels=records.labels, candidate_labels=labels
        )

    chosen: Private[int] = voting.embeddings.map_batch(bins)
    size = len(embeddings)
    if voting.stddev is None:
        return exact_histogram(chosen, size=size, session=voting.session)
    return noisy_histogram(chosen, size=size, stddev=voting.stddev, session=voting.session)


def sum_scores(
    voting: VotingSession, embeddings: NDArray[np.float32], *, width: float
) -> Released[NDArray[np.int64]]:
    """Return the noisy sum of all records' kernel scores for each candidate, `(m,)` int64.

    The unit is 1/RESOLUTION. A record's scores depend on this record alone, and their L2 norm is at
    most RESOLUTION. `noisy_sum` states the guarantee.
    """
    vectors: Private[Any] = voting.embeddings.map_batch(lambda records: records.embeddings)
    scores, size = KernelScores(embeddings, width=width).by_rows, len(embeddings)
    if voting.stddev is None:
        return exact_sum(
            vectors,
            scores=scores,
            size=size,
            record_l2_sensitivity=RESOLUTION,
            session=voting.session,
        )
    return noisy_sum(
        vectors,
        scores=scores,
        size=size,
        record_l2_sensitivity=RESOLUTION,
        stddev=voting.stddev,
        session=voting.session,
    )
