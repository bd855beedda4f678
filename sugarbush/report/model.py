"""What the card and the pages are made from.

Two types that never mix: `PublicData` holds public values and `Released` ones, each paid for by a
ledger entry that the card lists; `InternalData` holds what was computed on real texts. The public
page is rendered by a function that takes no `InternalData`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.errors import InvariantError
from sugarbush.generators.interface import GeneratorFacts, Usage
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.ledger import Entry
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import Unit

FINAL = -1  # the round of the final set
Pair = tuple[str, str]  # of attributes, in the schema's order
REAL = "real"  # the "method" whose texts are real: what nothing can be expected to pass


@dataclass(frozen=True, kw_only=True)
class Release:
    """What is promised, what it rests on, and how it was made.

    `entries` paid for this release; `dataset_epsilon` is the total of every charge on the dataset
    so far, this release's included, under `cap`. `donated` is the number of donated examples,
    which are public; `labels_endpoint` was sent every private text to read attributes off it, None
    where there was none; `generator` is None where no method asked one, `starts_from` the model
    that was fine-tuned, if one was; `settings` are settings, never results; `created` is a date.
    """

    title: str
    dataset: str
    purpose: Purpose
    unit: Unit
    delta: float
    entries: tuple[Entry, ...]
    dataset_epsilon: float
    cap: float
    plan: BudgetPlan
    schema: Schema
    donated: int
    generator: GeneratorFacts | None
    encoder: str
    methods: tuple[str, ...]
    software: Mapping[str, str]
    created: str
    starts_from: str | None = None
    records_per_unit: int = 1
    engine: str | None = None
    labels_endpoint: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DpCounts:
    """DP counts of attributes: `(values,)` each, in the order of the attribute's domain.

    `stddev` is the noise of one count where it is known (a directly measured histogram); `source`
    says who estimated them.
    """

    source: str
    counts: Released[Mapping[str, NDArray[Any]]]
    stddev: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MeasuredMarginal:
    """A noisy marginal of the DP table: `cells` counts with noise of `stddev` on each.

    `round` is 0 for what was measured before anything was chosen. `choosing` and `measuring` are
    what each cost, as parts of the table's mu^2.
    """

    attributes: tuple[str, ...]
    cells: int
    stddev: float
    round: int
    choosing: float
    measuring: float


@dataclass(frozen=True, kw_only=True)
class DpTableFacts:
    """How the DP table was made and what it holds.

    `record_count` is the DP estimate, `merged` the number of rare values that were modelled as one
    by attribute, `dependence` how far each pair of attributes is from independence in the table,
    `rows` (k, d) its first rows in codes.
    """

    record_count: float
    measured: tuple[MeasuredMarginal, ...]
    merged: Mapping[str, int]
    dependence: Mapping[Pair, float]
    rows: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How often an attribute was read off donated texts as their own labels say.

    `source` is how it is read, `share` of `texts` agree (95% interval `low` to `high`);
    `commonest` is the share of the most frequent label. Public, like the examples.
    """

    attribute: str
    source: str
    texts: int
    share: float
    low: float
    high: float
    commonest: float


@dataclass(frozen=True, kw_only=True)
class RoundData:
    """One round: noisy `votes` (m,) of its candidates, the round that each was `written` for (m,),
    and the `survivors`' places (k,) among them."""

    number: int
    votes: Released[NDArray[Any]]
    stddev: float
    written: NDArray[Any]
    survivors: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class SyntheticText:
    """A candidate with its metadata codes (-1: none was asked for), noisy votes and lineage.

    `final` tells the texts of the released corpus from the ancestors that are shown with them.
    """

    id: int
    text: str
    codes: tuple[int, ...]
    round: int
    parent: int | None = None
    votes: int | None = None
    final: bool = True


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What one step of a method cost. `cost` is None where the generator has no price."""

    step: str
    usage: Usage
    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class EmbeddingMap:
    """Synthetic texts in two dimensions: `points` (n, 2), the round each was `written` for (n,)."""

    points: NDArray[Any]
    written: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class MethodData:
    """A method's released results.

    `asked` counts the attribute values that the whole final set was asked to have (empty where
    none were); `texts` are those to browse, `final_texts` the size of the released corpus.
    `scored`: what its rounds hold as votes are sums of scores, in the unit of one vote.
    """

    name: str
    final_texts: int
    asked: Released[Mapping[str, NDArray[Any]]]
    texts: Released[tuple[SyntheticText, ...]]
    rounds: tuple[RoundData, ...] = ()
    scored: bool = False
    spends: tuple[Spend, ...] = ()
    map: Released[EmbeddingMap] | None = None


@dataclass(frozen=True, kw_only=True)
class PublicData:
    """Everything that the public page may show.

    Raises InvariantError when it holds a released value whose payment the card does not list:
    what cannot be accounted for is not shown.
    """

    release: Release
    methods: tuple[MethodData, ...]
    metadata: DpCounts | None = None
    table: Released[DpTableFacts] | None = None
    agreements: tuple[Agreement, ...] = ()

    def __post_init__(self) -> None:
        listed = {entry.id for entry in self.release.entries}
        for what, released in self._released():
            if missing := set(released.ledger_ids) - listed:
                raise InvariantError(
                    f"{what} was paid for by ledger entries that the card does not list: "
                    + ", ".join(sorted(missing))
                )

    def _released(self) -> Iterator[tuple[str, Released[Any]]]:
        if self.metadata is not None:
            yield "DP metadata", self.metadata.counts
        if self.table is not None:
            yield "the DP table", self.table
        for method in self.methods:
            yield f"{method.name}'s metadata", method.asked
            yield f"{method.name}'s texts", method.texts
            if method.map is not None:
                yield f"{method.name}'s map", method.map
            for round_ in method.rounds:
                yield f"{method.name}'s votes of round {round_.number}", round_.votes


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A metric of a method's texts after a round (FINAL: the final set; REAL: real texts).

    `space` is a feature space, or "attribute" with the attribute's name (or "mean") as `metric`.
    """

    method: str
    round: int
    space: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None


def figures_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Figure, ...]:
    """Figures from rows of a table with these column names; a missing bound may be None or NaN.

    Raises InvariantError when a value is not a finite number: empty is not zero.
    """
    return tuple(
        Figure(
            method=str(row["method"]),
            round=int(row["round"]),
            space=str(row["space"]),
            metric=str(row["metric"]),
            value=_finite(row),
            low=_bound(row.get("low")),
            high=_bound(row.get("high")),
        )
        for row in rows
    )


def _finite(row: Mapping[str, Any]) -> float:
    value = float(row["value"])
    if not np.isfinite(value):
        raise InvariantError(f"{row['metric']} of {row['method']} is not a number; leave it out")
    return value


def _bound(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


@dataclass(frozen=True, kw_only=True)
class InternalData:
    """What was computed on real texts. Not DP; never shown on the public page.

    `heldout` and `train` count attribute values of the real parts, `dependence` tells how far each
    pair of attributes is from independence in the train part; `read` counts the values of each
    method's final texts by the same reader; `heldout_map` (n, 2) are real texts on each method's
    map.
    """

    figures: tuple[Figure, ...] = ()
    heldout: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    train: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    dependence: Mapping[Pair, float] = field(default_factory=dict)
    read: Mapping[str, Mapping[str, NDArray[Any]]] = field(default_factory=dict)
    heldout_map: Mapping[str, NDArray[Any]] = field(default_factory=dict)
