"""What a method of synthesis is: settings, budget requests and stages, in one class.

A method is a section of settings. Its class also states its budget requests and the work of its
stages. `MethodInputs` provides everything that it may use: from files in a project, from memory in
`sugarbush.synthesize`. A method opens no file and knows no path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sugarbush.data.private_store import PrivateCorpus
from sugarbush.data.schema import Schema
from sugarbush.errors import InvariantError
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.settings import Section

if TYPE_CHECKING:
    from sugarbush.evolution.evolve import Encode, Evolution, Writer
    from sugarbush.evolution.initialisation import Donated
    from sugarbush.evolution.population import Population
    from sugarbush.evolution.settings import FirstLength
    from sugarbush.generators.interface import Request, Usage
    from sugarbush.privacy.ledger import Ledger
    from sugarbush.privacy.results import ResultStore
    from sugarbush.training.dpsgd.generate import Generation

METADATA, LABELS = "metadata", "labels"  # parts of the budget plan that methods share
TRAINING = "training"
MOST_TEXTS = 5000  # of a release whose size is not set
_TEXTS = 1000  # the same, without a DP record count


class ReleaseSettings(Section):
    """The size of the release."""

    texts: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Texts of each method; null: about the DP record count, at most 5,000."""

    def size(self, record_count: float | None) -> int:
        """Texts to release. The count is never the exact one; without one, a release has 1,000.

        >>> ReleaseSettings().size(812.3), ReleaseSettings().size(None)
        (812, 1000)
        """
        if self.texts is not None:
            return self.texts
        if record_count is None:
            return _TEXTS
        return round(min(max(record_count, 1.0), MOST_TEXTS))


@dataclass(frozen=True, kw_only=True)
class ShareRequest:
    """A mechanism that a method needs; its budget comes from the `metadata` or the `synthesis`
    share.

    `count` is the number of discrete Gaussians, each with sensitivity `record_l2_sensitivity` to
    one record; 0 means one mechanism that divides its own mu (AIM, DP-SGD). Methods that request
    the same name share the mechanism. `setting` is the setting that decides the count, for
    messages.
    """

    name: str
    share: str
    count: int
    record_l2_sensitivity: int = 1
    setting: str | None = None


@dataclass(frozen=True, kw_only=True)
class MetadataRelease:
    """What stage synthesize_metadata released: the DP table, DP counts of one label, or both.

    `rows` (n, d) are codes in schema order; `record_count` is the DP estimate.
    """

    rows: NDArray[np.int64] | None = None
    record_count: float | None = None
    labels: NDArray[np.int64] | None = None
    label: str | None = None
    ledger_ids: tuple[str, ...] = ()

    @property
    def count(self) -> float | None:
        """The DP record count: the table's, or the sum of the labels' counts."""
        if self.record_count is None and self.labels is not None:
            return float(self.labels.sum())
        return self.record_count


@dataclass(frozen=True, kw_only=True)
class Initial:
    """A method's first candidates, what they cost, and the ids of their ledger entries."""

    population: Population
    usage: Usage
    ledger_ids: tuple[str, ...]
    run: str


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A trained model: `save` writes it into a folder, then `clean_up` removes its checkpoints.

    `internal` holds figures that are not DP, by file name.
    """

    save: Callable[[Path], None]
    ledger_ids: tuple[str, ...]
    run: str
    internal: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    clean_up: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class FinalSet:
    """A method's texts, with their lineage if it has rounds."""

    evolution: Evolution
    run: str

    @classmethod
    def without_rounds(
        cls, made: Released[Generation], *, codes: NDArray[np.int64], run: str
    ) -> FinalSet:
        """The texts of a trained model, with the codes (n, d) that it was asked for."""
        from sugarbush.evolution.evolve import Evolution
        from sugarbush.evolution.population import NO_PARENT, Population
        from sugarbush.generators.interface import Usage

        count, redrawn = len(made.value.texts), made.value.redrawn
        final = Population(
            ids=np.arange(count, dtype=np.int64),
            texts=made.value.texts,
            codes=codes,
            labels=np.zeros(count, dtype=np.int64),
            parents=np.full(count, NO_PARENT, dtype=np.int64),
            rounds=np.zeros(count, dtype=np.int64),
        )
        usage = Usage(
            calls=count + redrawn,
            completion_tokens=made.value.tokens,
            problems={"empty": redrawn} if redrawn else {},
        )
        evolution = Evolution(rounds=(), final=final, usage=usage, ledger_ids=made.ledger_ids)
        return cls(evolution=evolution, run=run)


@dataclass(frozen=True, kw_only=True)
class PlannedCalls:
    """The cost of `calls` requests like `request`, in one batch of a stage."""

    stage: str
    what: str
    calls: int
    request: Request


@dataclass(frozen=True, kw_only=True)
class MethodInputs:
    """Everything that a method may use.

    `writer(stage)` opens the generator; `encode` embeds public text and `encode_private` private
    text. `plan` computes the budget plan, which `budget` returns; that takes seconds, so a method
    that draws nothing does not ask. `open_store(stage, key, dataset)` opens the finished results of
    a stage, and `scratch(name)` is a private folder. `pretrained` is a folder of small public
    models; `find(name)` is a public file that the settings name; `restart` is the command of this
    stage, for torchrun. `digests` are random names of the private data, for cache keys.
    """

    schema: Schema
    corpus: PrivateCorpus
    privacy: PrivacySettings
    plan: Callable[[], BudgetPlan]
    metadata: MetadataRelease
    donated: Donated | None
    label: str
    length: FirstLength
    first_seed: int
    evolve_seed: int
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
    restart: tuple[str, ...] = ()
    release: ReleaseSettings = field(default_factory=ReleaseSettings)
    report: Callable[[str], None] = field(default=lambda line: None)

    @property
    def budget(self) -> BudgetPlan:
        """Every mechanism of the run with its share."""
        return self.plan()

    @property
    def texts(self) -> int:
        """How many texts the release should have."""
        return self.release.size(self.metadata.count)

    def cache_key_of_private_data(self) -> dict[str, str]:
        """The names of the texts and of their codes, which last until they change."""
        return {"texts": self.digests["texts"], "codes": self.digests["codes"]}

    def session(self, *, stage: str, run: str) -> PrivacySession:
        """What a mechanism needs to charge the ledger of this run.

        `run` is the run of its store.
        """
        return PrivacySession(
            ledger=self.ledger(),
            stage=stage,
            run=run,
            dataset_fingerprint=self.corpus.dataset_fingerprint(),
            records_per_unit=self.privacy.records_per_user,
        )


class Method(Section):
    """A method and its settings.

    A subclass sets `name` and `stages`, and implements the stages that it has. The pipeline, the
    card and the commands use only what is declared here; nothing else depends on the method.

    >>> class Counts(Method):
    ...     name = "counts"
    ...     stages = ("evolve",)
    ...     texts: int = 20
    ...     def share_requests(self):
    ...         return (ShareRequest(name="counts:counts", share="synthesis", count=1),)
    >>> Counts(texts=5).as_sections()
    {'evolve': {'counts': {'texts': 5}}}
    """

    name: ClassVar[str]
    stages: ClassVar[tuple[str, ...]] = ("initialise", "evolve")
    stays_private: ClassVar[bool] = False  # no DP guarantee: its results stay in the private root
    is_measured: ClassVar[bool] = True  # whether metrics evaluate its texts
    asks_generator: ClassVar[bool] = False

    @classmethod
    def from_project(cls, settings: Any) -> Method:
        """The method with its settings in a project: `evolve.<name>` unless overridden."""
        section: Method = settings.evolve.of(cls.name)
        return section

    def as_sections(self) -> dict[str, Any]:
        """The sections of a params.yaml that configure this method."""
        return {"evolve": {self.name: self.model_dump(mode="json")}}

    def check(self, settings: Any) -> None:
        """Refuse settings under which the method cannot keep its guarantee. Raises ValueError."""

    def share_requests(self) -> tuple[ShareRequest, ...]:
        """The mechanisms that the method needs."""
        return ()

    @property
    def starts_from_pretrained(self) -> str | None:
        """The name of the small public model of stage pretrain that it starts from, if any."""
        return None

    @property
    def vote_part(self) -> str:
        """The name of its votes in the budget plan."""
        return f"votes:{self.name}"

    @property
    def vote_unit(self) -> int:
        """The weight of one vote of one record in the counts that it releases."""
        return 1

    def public_files(self) -> Sequence[tuple[str, str]]:
        """Files and folders besides the corpus that its settings name, each with the setting that
        names it. Some may be private, such as your own labels."""
        return ()

    def preflight(self, schema: Schema) -> None:
        """Check before any charge that the method can run. Raises ParamsError."""

    def planned_calls(
        self,
        *,
        schema: Schema,
        donated: Sequence[str],
        length: FirstLength,
        record_count: float | None,
    ) -> tuple[PlannedCalls, ...]:
        """Every batch of requests that it sends to the generator, except those of `enlarge`."""
        return ()

    def planned_further_calls(
        self,
        *,
        schema: Schema,
        donated: Sequence[str],
        length: FirstLength,
        record_count: float | None,
        texts: int,
    ) -> tuple[PlannedCalls, ...]:
        """The requests of stage `enlarge` for a release of `texts`, if no answer is dropped."""
        return ()

    def card_settings(self) -> dict[str, Any]:
        """Its settings as the release card shows them, by section."""
        return {} if self.stays_private else self.as_sections()

    @property
    def starts_from(self) -> str | None:
        """The model that it fine-tunes, as the card names it."""
        return None

    def final_plan(
        self, plan: BudgetPlan, metadata: MetadataRelease, privacy: PrivacySettings
    ) -> BudgetPlan:
        """`plan` with the noise that is known only after the metadata are released."""
        return plan

    def initialise(self, inputs: MethodInputs) -> Initial:
        """The first candidates."""
        raise InvariantError(f"method {self.name} has no stage initialise")

    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> FinalSet:
        """The final set, from the first candidates if the method has any."""
        raise InvariantError(f"method {self.name} has no stage evolve")

    def enlarge(self, inputs: MethodInputs, final: FinalSet) -> FinalSet:
        """The release of `inputs.texts` texts, from the final set of stage evolve."""
        raise InvariantError(f"method {self.name} has no stage enlarge")

    def finetune(self, inputs: MethodInputs, *, forced: bool) -> TrainedModel | None:
        """A model trained on the private texts; None in a process that only takes part in the
        training."""
        raise InvariantError(f"method {self.name} has no stage finetune")

    def generate(self, inputs: MethodInputs, model: Released[Path]) -> FinalSet:
        """Texts from the trained model in the folder `model`."""
        raise InvariantError(f"method {self.name} has no stage generate")
