"""The parts of a method that writes texts with a generator. Each part decides one thing.

    Start       attribute values and examples of the first texts
    Scorer      what one record gives to each candidate
    Selector    which candidates survive a round, from noisy scores
    Varier      the requests for variations of the survivors
    Enlarger    the texts of the release, from released values

A method names its parts (`Parts`). The budget, the plan of requests, the card and the audit are
derived from them. Only a Scorer sees private records. It says what one record may add, the
mechanism adds the noise, and all other parts are post-processing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.embedding.class_sums import ClassSums
from sugarbush.errors import InvariantError
from sugarbush.evolution.inputs import MetadataRelease, PublicInputs
from sugarbush.evolution.population import Population
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.targets import Targets
from sugarbush.generators.interface import Request, Usage
from sugarbush.privacy.budget import BudgetRequest
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import DiscreteGaussian, Event, NonPrivate
from sugarbush.privacy.mechanisms import exact_sum, noisy_sum
from sugarbush.privacy.remarks import EMBEDDINGS
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import Rng

Encode = Callable[[tuple[str, ...]], NDArray[np.float32]]


@dataclass(frozen=True)
class Records:
    """A batch of n private records: unit vectors `embeddings` (n, dim) float32, and attribute
    values `codes` (n, d) int64 in schema order.

    `labels` (n,) are the codes of the label. If the scorer does not read codes, `codes` has no
    column and all labels are 0.
    """

    embeddings: NDArray[np.float32]
    codes: NDArray[np.int64]
    labels: NDArray[np.int64]

    @classmethod
    def without_codes(cls, embeddings: NDArray[np.float32]) -> Records:
        n = len(embeddings)
        return cls(embeddings, np.empty((n, 0), dtype=np.int64), np.zeros(n, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Records:
        return Records(self.embeddings[rows], self.codes[rows], self.labels[rows])


@dataclass(frozen=True)
class Candidates:
    """The public texts that records score: `embeddings` (m, dim), `codes` (m, d), `labels` (m,).

    A code is NO_CODE (-1) where the prompt requested no value.
    """

    embeddings: NDArray[np.float32]
    codes: NDArray[np.int64]
    labels: NDArray[np.int64]

    @classmethod
    def of(cls, population: Population, encode: Encode) -> Candidates:
        return cls(encode(population.texts), population.codes, population.labels)

    def __len__(self) -> int:
        return len(self.embeddings)


Scores = Callable[[Records], Iterable[NDArray[Any]]]


class Start(ABC):
    """Decides the attribute values and the examples of the first texts."""

    prompts: Prompts
    """What a first prompt shows, and how many first texts are written."""

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        """Return the mechanisms of stage synthesize_metadata that this start needs."""
        return ()

    def record_count(self, metadata: MetadataRelease) -> float | None:
        """Return the DP record count that decides the number of candidates, if there is one."""
        return None

    @abstractmethod
    def targets(self, public: PublicInputs, *, count: int, seed: int) -> Released[Targets]:
        """Return the attribute values of `count` texts, with the ids of the charges behind them.

        Equal arguments give equal targets.
        """


class Scorer(ABC):
    """What one record gives to each candidate, with its sensitivity, its event and its remark."""

    name: ClassVar[str] = "votes"
    """The name of the scores on pages: votes, or scores."""
    remarks: ClassVar[tuple[str, ...]] = (EMBEDDINGS,)
    """Sentences for the card about the exactness of the scores."""

    @property
    def unit(self) -> int:
        """The L2 sensitivity of the sum of scores to one record. It corresponds to one vote."""
        return 1

    @property
    def score_unit(self) -> int:
        """The L2 sensitivity of the scores alone, if a record also adds other numbers."""
        return self.unit

    @property
    def reads_codes(self) -> bool:
        """Whether the scores depend on the attribute values of the records."""
        return False

    def for_schema(self, schema: Schema) -> Scorer:
        """Return the scorer of records with the attributes of `schema`."""
        return self

    @property
    def alone(self) -> Scorer:
        """The scorer without sums by class."""
        return self

    def size(self, candidates: Candidates) -> int:
        """Return how many numbers a record adds: one for each candidate, and perhaps others."""
        return len(candidates)

    def class_sums(
        self, total: Released[NDArray[np.int64]], candidates: Candidates, *, stddev: float | None
    ) -> Released[ClassSums] | None:
        """Return the sums of embeddings by class that a noisy `total` contains, if any."""
        return None

    @abstractmethod
    def scores(self, candidates: Candidates) -> Scores:
        """Return a function that yields the integer scores of a batch of n records for the m
        candidates, `(n, size)` in arrays of some rows. Several threads call the function.

        Guarantee: row i depends on record i and the candidates alone, bit for bit. Its L2 norm is
        at most `unit`. `noisy_sum` checks the norm; nothing can check the dependence.
        """

    def event(self, *, stddev: float | None, draws: int, records_per_unit: int) -> Event:
        """Return the event of `draws` sums. `stddev` is the noise of a sum; None: no noise."""
        if stddev is None:
            return NonPrivate()
        sensitivity = self.unit * records_per_unit
        return DiscreteGaussian(stddev=stddev, sensitivity=sensitivity, count=draws)

    def total(
        self,
        records: Private[Records],
        candidates: Candidates,
        *,
        stddev: float | None,
        session: PrivacySession,
    ) -> Released[NDArray[np.int64]]:
        """Return the noisy sum of all records' scores, `(size,)` int64, candidates first.

        `noisy_sum` states the guarantee. With `stddev=None`, the sum is exact and has no guarantee.
        """
        scores, size, unit = self.scores(candidates), self.size(candidates), self.unit
        if stddev is None:
            return exact_sum(
                records, scores=scores, size=size, record_l2_sensitivity=unit, session=session
            )
        return noisy_sum(
            records,
            scores=scores,
            size=size,
            record_l2_sensitivity=unit,
            stddev=stddev,
            session=session,
        )


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Candidates with their noisy scores (m,), in units of 1/`unit` of a vote.

    `stddev` is the noise of a score, or None without noise. `name` says what the scores are.
    `class_sums` were released by the same noisy sum.
    """

    population: Population
    scores: Released[NDArray[np.int64]]
    unit: int
    stddev: float | None
    name: str
    class_sums: Released[ClassSums] | None = None


@dataclass(frozen=True, kw_only=True)
class Round(Scored):
    """A finished round: scored candidates, and the indices of the survivors (k,)."""

    number: int
    survivors: NDArray[np.int64]
    usage: Usage


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """How a method's texts came about: its rounds, or candidates that were scored once.

    `final` contains the texts after the latest stage. `usage` is the cost of the further texts.
    """

    final: Population
    usage: Usage
    ledger_ids: tuple[str, ...]
    rounds: tuple[Round, ...] = ()
    scored: Scored | None = None

    @property
    def last(self) -> Scored | None:
        """The last scores, or None for a method without scores."""
        return self.rounds[-1] if self.rounds else self.scored


class Selector(ABC):
    """Decides which candidates survive a round. Selection is post-processing."""

    @abstractmethod
    def select(
        self, scored: Scored, *, counts: Mapping[int, int], encode: Encode, rng: Rng
    ) -> NDArray[np.int64]:
        """Return the indices of the survivors. `counts` is the number of them per label."""


class Varier(ABC):
    """Makes the requests for variations of the survivors, from public texts alone."""

    copies: int
    """Number of variations of a survivor."""

    @abstractmethod
    def requests(
        self, parents: Population, *, schema: Schema, encode: Encode, number: int, seed: int
    ) -> tuple[Request, ...]:
        """Return `copies` requests for each parent, in order. `number` is the round.

        `encode` embeds public texts, such as the parents.
        """

    @abstractmethod
    def longest_request(self, first: Request) -> Request:
        """Return the longest request, for cost estimates. `first` is the longest first request."""


class Enlarger(ABC):
    """Chooses the texts of the release. Further texts are written until there are enough.

    Guarantee: post-processing of released values.
    """

    ratio: ClassVar[int] = 1
    """Number of texts to choose from, for each text of the release."""
    uses_scores: ClassVar[bool] = False
    """Whether predicted scores of all texts choose the release."""

    @abstractmethod
    def kept(self, lineage: Lineage, *, count: int, rng: Rng) -> Population:
        """Return the texts that exist already and may be released."""

    @abstractmethod
    def choose(
        self, lineage: Lineage, texts: Population, *, count: int, encode: Encode
    ) -> NDArray[np.int64]:
        """Return at most `count` indices into `texts`, which are the kept and further texts."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a method.

    With a selector, a varier and `rounds`, candidates are varied, scored and selected in each
    round. With `scores_first`, round 1 scores the first texts, which are as many as the candidates
    of a round, without variations. With a scorer alone, the first texts are scored once. Without a
    scorer, no record is read.
    """

    start: Start
    enlarger: Enlarger
    scorer: Scorer | None = None
    selector: Selector | None = None
    varier: Varier | None = None
    rounds: int = 0
    scores_first: bool = False

    def __post_init__(self) -> None:
        in_rounds = [part is not None for part in (self.selector, self.varier)]
        if any(in_rounds) != all(in_rounds):
            raise InvariantError("rounds need a selector and a varier")
        if self.rounds and not (self.scorer and self.selector):
            raise InvariantError("rounds need a scorer, a selector and a varier")

    @property
    def scores_once(self) -> bool:
        """Whether the first texts are scored once, without rounds."""
        return self.scorer is not None and self.selector is None

    @property
    def draws(self) -> int:
        """The number of noisy sums."""
        return 1 if self.scores_once else 0 if self.scorer is None else self.rounds

    @property
    def candidates_per_text(self) -> int:
        """The number of candidates from a survivor: the survivor itself and its variations."""
        return 1 if self.varier is None else 1 + self.varier.copies

    def survivor_count(self, candidates: int) -> int:
        """Return the number of survivors of a round with `candidates` candidates."""
        return max(1, candidates // self.candidates_per_text)

    def first_count(self, candidates: int) -> int:
        """Return the number of first texts for a round with `candidates` candidates."""
        return candidates if self.scores_first else self.survivor_count(candidates)
