"""The interface of a method of synthesis: one class with settings, budget requests and stages.

`MethodInputs` provides everything that a method may use, so a method opens no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sugarbush.data.schema import Schema
from sugarbush.errors import InvariantError
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import PrivacySettings, Purpose
from sugarbush.privacy.unit import Unit
from sugarbush.report.remarks import EMBEDDINGS, INTEGER_NOISE, LABELS_BY_LLM
from sugarbush.settings import Section

if TYPE_CHECKING:
    from sugarbush.attributes.reader import LabelReader
    from sugarbush.data.private_store import PrivateCorpus
    from sugarbush.evolution.evolve import Encode, Evolution, Writer
    from sugarbush.evolution.initialisation import Donated
    from sugarbush.evolution.population import Population
    from sugarbush.evolution.settings import FirstLength
    from sugarbush.generators.interface import Request, Usage
    from sugarbush.privacy.ledger import Ledger
    from sugarbush.privacy.results import ResultStore
    from sugarbush.training.dpsgd.generate import Generation
    from sugarbush.training.dpsgd.settings import TrainingSettings

METADATA, LABELS, TRAINING = "metadata", "labels", "training"  # names of mechanisms in the plan
MOST_TEXTS = 5000  # the largest release if `release.texts` is null
_TEXTS = 1000  # the size of a release without `release.texts` and without a DP record count


class ReleaseSettings(Section):
    """The size of the release."""

    texts: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of texts of each method; null: about the DP record count, at most 5,000."""

    def size(self, record_count: float | None) -> int:
        """Return the number of texts to release. The default without a count is 1,000.

        `record_count` must be the DP count, never the exact count.

        >>> ReleaseSettings().size(812.3), ReleaseSettings().size(None)
        (812, 1000)
        """
        if self.texts is not None:
            return self.texts
        if record_count is None:
            return _TEXTS
        return round(min(max(record_count, 1.0), MOST_TEXTS))


@dataclass(frozen=True, kw_only=True)
class MethodContext:
    """The other settings of a project that a method may depend on.

    `is_example` states whether the private file is the embedded example. `table_attributes` are the
    attributes of the DP table, or None for all.
    """

    release: ReleaseSettings
    purpose: Purpose
    unit: Unit
    has_donated: bool
    is_example: bool
    table_attributes: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class ShareRequest:
    """A mechanism that a method needs. `share` is "metadata" or "synthesis".

    `count` is the number of discrete Gaussians. `record_l2_sensitivity` is the L2 sensitivity of
    each Gaussian to one record. With `count=0`, the mechanism divides its own mu (AIM, DP-SGD).
    Methods that request the same name use the mechanism together. Messages show `setting`, which
    decides the count. The card shows `remarks` (see `Method.card_remarks`).
    """

    name: str
    share: str
    count: int
    record_l2_sensitivity: int = 1
    setting: str | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MetadataRelease:
    """The results of stage synthesize_metadata: a DP table, DP counts of one label, or both.

    `rows` (n, d) are codes in schema order. `record_count` is the DP record count of the table.
    """

    rows: NDArray[np.int64] | None = None
    record_count: float | None = None
    labels: NDArray[np.int64] | None = None
    label: str | None = None
    ledger_ids: tuple[str, ...] = ()

    @property
    def count(self) -> float | None:
        """The DP record count: `record_count`, else the sum of the label counts."""
        if self.record_count is None and self.labels is not None:
            return float(self.labels.sum())
        return self.record_count

    def counts_of(self, schema: Schema) -> dict[str, NDArray[Any]]:
        """Return the DP counts `(values,)` of every attribute that the table or the label counts
        contain. A table may lack attributes; their codes are -1."""
        counts: dict[str, NDArray[Any]] = {}
        if self.rows is not None:
            for place, (name, size) in enumerate(schema.domain.items()):
                known = self.rows[self.rows[:, place] >= 0, place]
                if len(known):
                    counts[name] = np.bincount(known, minlength=size)
        if self.labels is not None and self.label is not None:
            counts.setdefault(self.label, self.labels)
        return counts


@dataclass(frozen=True, kw_only=True)
class Initial:
    """A method's first candidates, with their cost and the ids of their ledger entries."""

    population: Population
    usage: Usage
    ledger_ids: tuple[str, ...]
    run: str


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A trained model. `save` writes the model into a folder.

    `internal` maps file names to figures that are not DP.
    """

    save: Callable[[Path], None]
    ledger_ids: tuple[str, ...]
    run: str
    internal: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FinalSet:
    """A method's texts. After rounds, `evolution` also contains the lineage of the texts."""

    evolution: Evolution
    run: str

    @classmethod
    def without_rounds(
        cls, made: Released[Generation], *, codes: NDArray[np.int64], run: str
    ) -> FinalSet:
        """Return the texts of a trained model, with the codes (n, d) that were requested."""
        from sugarbush.evolution.evolve import Evolution
        from sugarbush.evolution.population import Population
        from sugarbush.generators.interface import Usage

        redrawn = made.value.redrawn
        final = Population.first(made.value.texts, codes=codes)
        usage = Usage(
            calls=len(final) + redrawn,
            completion_tokens=made.value.tokens,
            problems={"empty": redrawn} if redrawn else {},
        )
        evolution = Evolution(rounds=(), final=final, usage=usage, ledger_ids=made.ledger_ids)
        return cls(evolution=evolution, run=run)


class PromptParts(TypedDict):
    """The public values that decide how long a request can be."""

    schema: Schema
    donated: Sequence[str]
    length: FirstLength


@dataclass(frozen=True, kw_only=True)
class PlannedCalls:
    """A planned batch of a stage, with `calls` requests as long as `request`."""

    stage: str
    what: str
    calls: int
    request: Request


@dataclass(frozen=True, kw_only=True)
class MethodInputs:
    """Everything that a method may use.

    `writer(stage)` opens the generator. `encode` embeds public text, `encode_private` private text.
    `plan` computes the budget plan, which takes seconds. `open_store(stage, key)` opens the
    finished results of a stage. `scratch(name)` is a private folder. `pretrained` is a folder of
    small public models. `label_reader()` reads the labels of released texts, and `again` is the
    share of first requests for contradicted values. `find(name)` is a public file that the settings
    name. `restart` is the command of this stage, for torchrun. `digests` contains random names of
    the private data, for cache keys. `seed` is the public seed of all random choices without noise.
    """

    schema: Schema
    corpus: PrivateCorpus
    privacy: PrivacySettings
    plan: Callable[[], BudgetPlan]
    metadata: MetadataRelease
    donated: Donated | None
    label: str
    length: FirstLength
    seed: int
    training: TrainingSettings
    text_column: str
    generator_identity: Mapping[str, Any]
    embedding: Mapping[str, Any]
    digests: Mapping[str, str]
    writer: Callable[[str], Writer]
    encode: Encode
    encode_private: Encode
    ledger: Callable[[], Ledger]
    uncapped_ledger: Callable[[str], Ledger]
    open_store: Callable[..., AbstractContextManager[ResultStore]]
    scratch: Callable[[str], Path]
    find: Callable[[str], Path]
    pretrained: Path
    label_reader: Callable[[], LabelReader]
    again: float
    restart: tuple[str, ...] = ()
    release: ReleaseSettings = field(default_factory=ReleaseSettings)
    report: Callable[[str], None] = field(default=lambda line: None)

    @property
    def budget(self) -> BudgetPlan:
        """The budget of every mechanism in the run."""
        return self.plan()

    @property
    def texts(self) -> int:
        """The number of texts in the release."""
        return self.release.size(self.metadata.count)

    def cache_key_of_private_data(self) -> dict[str, str]:
        """Return random names of the texts and of their codes, which change with the data."""
        return {"texts": self.digests["texts"], "codes": self.digests["codes"]}

    def session(self, *, stage: str, run: str) -> PrivacySession:
        """Return the privacy session of a mechanism. `run` is the `run` of the result store."""
        return self.corpus.session(
            ledger=self.ledger(), stage=stage, run=run, plan=self.budget.planned
        )


class Method(Section):
    """A method and its settings.

    A subclass sets `name` and `stages`, and implements each of its stages. The pipeline, the card
    and the commands use only this interface.

    >>> class Counts(Method):
    ...     name = "counts"
    ...     stages = ("evolve",)
    ...     texts: int = 20
    ...     def share_requests(self):
    ...         return (ShareRequest(name="counts:counts", share="synthesis", count=1),)
    >>> [request.name for request in Counts(texts=5).share_requests()]
    ['counts:counts']
    """

    name: ClassVar[str]
    stages: ClassVar[tuple[str, ...]] = ("initialise", "evolve")
    stays_private: ClassVar[bool] = False  # whether results without DP stay in the private root
    is_measured: ClassVar[bool] = True  # whether metrics evaluate the texts
    asks_generator: ClassVar[bool] = False
    uses_encoder: ClassVar[bool] = False  # whether it embeds texts
    reads_codes: ClassVar[bool] = True  # whether it uses attribute values of the private texts

    def in_project(self, context: MethodContext) -> Self:
        """Return the method with the values that follow from the project's other settings."""
        return self

    def check(self, context: MethodContext) -> None:
        """Raise ValueError if the method cannot keep its guarantee with these settings."""

    def share_requests(self) -> tuple[ShareRequest, ...]:
        """Return the mechanisms that the method needs."""
        return ()

    @property
    def starts_from_pretrained(self) -> str | None:
        """The small public model of stage pretrain that the method fine-tunes, if any."""
        return None

    @property
    def vote_part(self) -> str:
        """The name of the method's votes in the budget plan."""
        return f"votes:{self.name}"

    @property
    def vote_unit(self) -> int:
        """The number that corresponds to one vote in the released counts."""
        return 1

    def public_files(self) -> Sequence[tuple[str, str]]:
        """Return the files and folders in the method's settings, with the names of the settings.

        A file may be private, such as your own labels.
        """
        return ()

    def preflight(self, schema: Schema, training: TrainingSettings) -> None:
        """Check before any charge that the method can run. Raises ParamsError."""

    def planned_calls(
        self, *, record_count: float | None, **prompt: Unpack[PromptParts]
    ) -> tuple[PlannedCalls, ...]:
        """Plan all requests to the generator before stage `enlarge`.

        Without a DP record count, the plan has the maximum number of requests.
        """
        return ()

    def planned_further_calls(
        self, *, record_count: float | None, texts: int, **prompt: Unpack[PromptParts]
    ) -> tuple[PlannedCalls, ...]:
        """Plan the requests of stage `enlarge` for `texts` texts, if all answers are usable."""
        return ()

    def card_settings(self) -> dict[str, Any]:
        """Return the method's settings for the release card."""
        return self.model_dump(mode="json")

    def card_remarks(self, schema: Schema) -> tuple[str, ...]:
        """Return sentences for the card about the exactness of the method's mechanisms.

        The default contains the remarks of `share_requests`, the remark on integer noise for
        discrete Gaussians, and the remarks on the attributes of the private texts. A method that
        embeds private texts adds `sugarbush.report.remarks.EMBEDDINGS`. A method with other
        mechanisms adds its own sentences.
        """
        requests = self.share_requests()
        remarks = [remark for request in requests for remark in request.remarks]
        if any(request.count for request in requests):
            remarks.insert(0, INTEGER_NOISE)
        if requests and self.reads_codes:
            if any(attribute.zero_shot is not None for attribute in schema.attributes):
                remarks.append(EMBEDDINGS)
            if schema.asked_of_llm:
                remarks.append(LABELS_BY_LLM)
        return tuple(dict.fromkeys(remarks))

    @property
    def starts_from(self) -> str | None:
        """The name of the model that the method fine-tunes, for the card."""
        return None

    def final_plan(self, plan: BudgetPlan, privacy: PrivacySettings) -> BudgetPlan:
        """Complete `plan` with the cost of training, from settings alone."""
        return plan

    def initialise(self, inputs: MethodInputs) -> Initial:
        """Request the first candidates."""
        raise InvariantError(f"method {self.name} has no stage initialise")

    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> FinalSet:
        """Return the final set. `first` is None for a method without first candidates."""
        raise InvariantError(f"method {self.name} has no stage evolve")

    def enlarge(self, inputs: MethodInputs, final: FinalSet) -> FinalSet:
        """Return the release of `inputs.texts` texts, given the final set of stage evolve."""
        raise InvariantError(f"method {self.name} has no stage enlarge")

    def finetune(self, inputs: MethodInputs, *, forced: bool) -> TrainedModel | None:
        """Train a model on the private texts. Processes other than the first return None."""
        raise InvariantError(f"method {self.name} has no stage finetune")

    def generate(self, inputs: MethodInputs, model: Released[Path]) -> FinalSet:
        """Generate texts with the trained model in the folder `model`."""
        raise InvariantError(f"method {self.name} has no stage generate")
