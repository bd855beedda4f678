"""Defines the data of the card and the pages.

`PublicData` contains public values and `Released` values. The card lists the ledger entries of each
released value. `InternalData` contains values that were computed from real texts without DP. The
function that renders the public page has no argument of type `InternalData`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from sugarbush.attributes.agreement import Agreement
from sugarbush.attributes.reader import ReadAttribute
from sugarbush.data.schema import Schema
from sugarbush.errors import InvariantError
from sugarbush.evaluation.interface import MetricValue
from sugarbush.evaluation.public_figures import PublicFigure
from sugarbush.generators.interface import GeneratorFacts, Usage
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.entries import CapRaise, Entry
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.spending import Spending
from sugarbush.privacy.unit import Unit
from sugarbush.report.card import CardRenewal
from sugarbush.report.settings import PublicationSettings
from sugarbush.report.verdict import Verdict
from sugarbush.tables.dp_table import DpTable

Pair = tuple[str, str]  # names of two attributes, in the schema's order


@dataclass(frozen=True, kw_only=True)
class PublicQuality:
    """Figures of quality inside the guarantee, and the decision of the rule.

    `figures` maps each method to its figures, and `facts` to how they were measured. `missing` maps
    each method to the listed values that no text has, by attribute, with the DP share of the
    records that have the value (None if it was not measured). `left_out` maps each method to the
    attributes whose labels are wrong and are no columns of its texts. `rules` are the conditions of
    `release.accept_if`, and `unmet` maps each method to those that its figures do not meet.
    """

    figures: Released[Mapping[str, tuple[PublicFigure, ...]]]
    facts: Mapping[str, Mapping[str, float]]
    missing: Mapping[str, Mapping[str, Mapping[str, float | None]]] = field(default_factory=dict)
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    unmet: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Whether the figures of every method meet all rules."""
        return not any(self.unmet.values())


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """The guarantee, its assumptions, and how the release was made.

    `spending` contains the ledger entries of this release, and all others of the dataset, when the
    facts were collected. `ledger_head` names the state of the ledger with these charges
    (`Ledger.head`). `cap` limits the total. `cap_raises` says when somebody raised the cap.
    `donated` is the number of donated examples.
    `labels_endpoint` is the endpoint that received every private text, or None. `generator` is None
    if no method used a generator. `starts_from` is the model that was fine-tuned. `other_packages`
    names other authors' packages that read the private texts. `different_from` names datasets that
    share no person with this dataset, according to the settings. `accepted_charges` counts charges
    of the dataset that a repair added without a valid seal, and `cancelled_charges` those that the
    user cancelled afterwards. `texts` maps each method to three numbers: all texts, texts that
    records voted on, and further texts. `settings` contains no results. `remarks`
    contains the sentences that methods and mechanisms declare. `created` is a date.
    `shown` says how often exact figures on real texts were shown (`Ledger.shown`).
    `publication` contains what the user states about a publication. `quality` contains the public
    figures, or None if they were not measured. `renewal` says what is new since an earlier release.
    """

    title: str
    dataset: str
    purpose: Purpose
    unit: Unit
    delta: float
    spending: Spending
    ledger_head: str
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
    other_packages: tuple[str, ...] = ()
    different_from: tuple[str, ...] = ()
    accepted_charges: int = 0
    cancelled_charges: int = 0
    texts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    shown: Mapping[str, int] = field(default_factory=dict)
    cap_raises: tuple[CapRaise, ...] = ()
    publication: PublicationSettings = field(default_factory=PublicationSettings)
    quality: PublicQuality | None = None
    renewal: CardRenewal | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The ledger entries of this release."""
        return self.spending.own


@dataclass(frozen=True, kw_only=True)
class DpCounts:
    """DP counts of attributes. The counts of an attribute are `(values,)`, in the order of its
    domain.

    `stddev` maps an attribute to the noise of one count. An attribute is missing if no mechanism
    measured it directly. `source` names the mechanism.
    """

    source: str
    counts: Released[Mapping[str, NDArray[Any]]]
    stddev: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ScoredData:
    """Candidates that the records scored. `votes` (m,) contains their noisy scores, in votes.

    `name` is votes or scores. `written` (m,) contains the rounds for which the candidates were
    written.
    """

    name: str
    votes: Released[NDArray[Any]]
    stddev: float
    written: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class RoundData(ScoredData):
    """One round. `survivors` (k,) contains indices of its candidates."""

    number: int
    survivors: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class SyntheticText:
    """A candidate with its codes (-1 means none), noisy votes and parent. The codes of a final text
    were read from the text; the codes of an ancestor were requested.

    `examples` contains the indices of the donated examples in the prompt, if the release lists
    them. `final` is False for an ancestor that is not in the released corpus.
    """

    id: int
    text: str
    codes: tuple[int, ...]
    round: int
    parent: int | None = None
    votes: int | None = None
    examples: tuple[int, ...] = ()
    final: bool = True


@dataclass(frozen=True, kw_only=True)
class Spend:
    """The cost of one step of a method. `cost` is None if the price is unknown."""

    step: str
    usage: Usage
    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class EmbeddingMap:
    """Positions `points` (n, 2) of synthetic texts, and the rounds `written` (n,) of the texts."""

    points: NDArray[Any]
    written: NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class MethodData:
    """A method's released results.

    `asked` counts the attribute values in the requests for the final texts. `labels` tells how the
    values of the final texts were read, and how many texts have the requested value. `verdict` is
    None if nobody judged. `texts` contains the texts that the page shows. `final_texts` is the size
    of the released corpus. `written_afterwards` is the number of further texts. `scored` are
    the first texts of a method that scores them once, without rounds.
    """

    name: str
    final_texts: int
    written_afterwards: int = 0
    asked: Released[Mapping[str, NDArray[Any]]]
    texts: Released[tuple[SyntheticText, ...]]
    labels: Released[tuple[ReadAttribute, ...]] = field(default_factory=lambda: Released(()))
    verdict: Released[Verdict] | None = None
    rounds: tuple[RoundData, ...] = ()
    scored: ScoredData | None = None
    spends: tuple[Spend, ...] = ()
    map: Released[EmbeddingMap] | None = None

    @property
    def all_scores(self) -> tuple[ScoredData, ...]:
        """The scores of each round, or the only scores."""
        return self.rounds or ((self.scored,) if self.scored else ())

    @property
    def uses_scores(self) -> bool:
        """Whether records give scores to all candidates, and not votes to the nearest."""
        return any(each.name == "scores" for each in self.all_scores)


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file of the release, for a button of the page.

    `address` is the file's path relative to the page, or a data URL that contains the whole file.
    The file with `texts` is the one that a reader opens in Python.
    """

    label: str
    name: str
    address: str
    texts: bool = False


@dataclass(frozen=True, kw_only=True)
class PublicData:
    """Everything that the public page may show.

    `donated` contains the donated examples. `downloads` contains the files that the page links to.
    Raises InvariantError if the card lacks a ledger entry of a released value.
    """

    release: ReleaseFacts
    methods: tuple[MethodData, ...]
    metadata: DpCounts | None = None
    table: DpTable | None = None
    agreements: tuple[Agreement, ...] = ()
    donated: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()

    def __post_init__(self) -> None:
        listed = {entry.id for entry in self.release.entries}
        for what, released in self._released():
            if missing := set(released.ledger_ids) - listed:
                raise InvariantError(
                    f"the card does not list all ledger entries of {what}: "
                    + ", ".join(sorted(missing))
                )

    def _released(self) -> Iterator[tuple[str, Released[Any]]]:
        if self.metadata is not None:
            yield "DP metadata", self.metadata.counts
        if self.table is not None:
            yield "the DP table", self.table.rows
        if self.release.quality is not None:
            yield "the public figures", self.release.quality.figures
        for method in self.methods:
            yield f"{method.name}'s metadata", method.asked
            yield f"{method.name}'s texts", method.texts
            yield f"{method.name}'s labels", method.labels
            if method.verdict is not None:
                yield f"{method.name}'s verdict", method.verdict
            if method.map is not None:
                yield f"{method.name}'s map", method.map
            for each in method.all_scores:
                yield f"{method.name}'s {each.name}", each.votes


@dataclass(frozen=True, kw_only=True)
class InternalData:
    """Values that were computed from real texts. These values are not DP and never on the public
    page.

    `values` contains the metrics. `by_texts` contains metrics of final texts, by number of texts.
    `heldout` and `train` count the attribute values of the real texts. `dependence` is the result
    of `dp_table.dependence` for the training texts. `read` counts the attribute values that are
    read from each method's final texts. `heldout_map` contains the positions (n, 2) of real texts
    on each method's map. `audits` contains the results of stage audit for each method. `removed` is
    the number of records that prepare removed because they equal a public text.
    """

    values: tuple[MetricValue, ...] = ()
    by_texts: Mapping[int, Sequence[MetricValue]] = field(default_factory=dict)
    heldout: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    train: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    dependence: Mapping[Pair, float] = field(default_factory=dict)
    read: Mapping[str, Mapping[str, NDArray[Any]]] = field(default_factory=dict)
    heldout_map: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    audits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    removed: int = 0
