"""The interface of a method of synthesis: a class with settings, budget requests and stages.

There are three kinds of methods. Most are a class that names its parts (`methods.of_parts`).

    PartsMethod      a generator writes texts, records score them: initialise, evolve, enlarge
    OneStageMethod   texts are written in any other way, in one stage: evolve
    TrainedMethod    a model is trained and writes texts: finetune, generate

`MethodInputs` contains everything that a method may use, so a method opens no file.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.data.shapes.interface import Shape, ShapeError
from sugarbush.errors import GeneratorError
from sugarbush.evolution.inputs import PublicInputs
from sugarbush.generators.interface import Usage
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.remarks import EMBEDDINGS, INTEGER_NOISE, LABELS_BY_LLM
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import PrivacySettings, Purpose
from sugarbush.privacy.unit import Unit
from sugarbush.settings import Section

if TYPE_CHECKING:
    from sugarbush.attributes.reader import LabelReader
    from sugarbush.data.private_store import PrivateCorpus
    from sugarbush.evolution.parts import Encode, Lineage, Scorer
    from sugarbush.evolution.population import Population
    from sugarbush.evolution.settings import FirstLength
    from sugarbush.evolution.writer import Writer
    from sugarbush.generators.interface import Request
    from sugarbush.privacy.ledger import Ledger
    from sugarbush.privacy.results import ResultStore
    from sugarbush.training.dpsgd.generate import Generation
    from sugarbush.training.dpsgd.settings import TrainingSettings

TRAINING = "training"  # the name of a mechanism in the plan


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
    """A method's texts with their lineage. `run` names the run that wrote them."""

    lineage: Lineage
    run: str

    @classmethod
    def without_rounds(
        cls,
        made: Released[Generation],
        *,
        codes: NDArray[np.int64],
        run: str,
        shape: Shape | None,
    ) -> FinalSet:
        """Return the texts of a trained model, with the codes (n, d) that were requested.

        Texts without `shape` are left out. Raises GeneratorError if no text has it.
        """
        from sugarbush.evolution.parts import Lineage
        from sugarbush.evolution.population import Population

        redrawn = made.value.redrawn
        texts = [_canonical(text, shape) for text in made.value.texts]
        usable = [index for index, text in enumerate(texts) if text is not None]
        if texts and not usable:
            raise GeneratorError(
                "no text of the trained model has the shape of a record (key `text` of the "
                "schema). Train with more epochs or a larger model, or use method mosaic"
            )
        final = Population.first([str(texts[index]) for index in usable], codes=codes[usable])
        problems = {"empty": redrawn, "wrong_form": len(texts) - len(usable)}
        usage = Usage(
            calls=len(texts) + redrawn,
            completion_tokens=made.value.tokens,
            problems={name: count for name, count in problems.items() if count},
        )
        lineage = Lineage(final=final, usage=usage, ledger_ids=made.ledger_ids)
        return cls(lineage=lineage, run=run)


def _canonical(text: str, shape: Shape | None) -> str | None:
    try:
        return text if shape is None else shape.canonical(text)
    except ShapeError:
        return None


@dataclass(frozen=True, kw_only=True)
class Planning:
    """The public values that decide how many requests a run sends, and how long they are.

    Without a DP record count, the number of requests is the largest possible one. `texts` is the
    number of texts in the release, and `texts_setting` is `release.texts`.
    """

    schema: Schema
    donated: Sequence[str]
    length: FirstLength
    texts: int
    record_count: float | None = None
    texts_setting: int | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedCalls:
    """A planned batch of a stage, with `calls` requests as long as `request`."""

    stage: str
    what: str
    calls: int
    request: Request


@dataclass(frozen=True, kw_only=True)
class PrivateInputs:
    """The private records, the budget, and the store of finished results.

    `encode` embeds private texts. `digests` contains random names of the private data, for cache
    keys. `charged` collects the ids of this stage's charges. `plan` computes the budget plan, which
    takes seconds. `scratch(name)` is a private folder.
    """

    corpus: PrivateCorpus
    privacy: PrivacySettings
    plan: Callable[[], BudgetPlan]
    digests: Mapping[str, str]
    encode: Encode
    ledger: Callable[[], Ledger]
    uncapped_ledger: Callable[[str], Ledger]
    open_store: Callable[..., AbstractContextManager[ResultStore]]
    scratch: Callable[[str], Path]
    charged: list[str] = field(default_factory=list, repr=False)

    @property
    def budget(self) -> BudgetPlan:
        """The budget of every mechanism in the run."""
        return self.plan()

    @property
    def embeddings(self) -> Private[NDArray[np.float32]]:
        """The embeddings of the records, unit vectors (n, dim)."""
        return self.corpus.embeddings(self.encode)

    def codes(self, names: Sequence[str]) -> Private[tuple[int, ...]]:
        """Return the attribute values of the records as codes (n, d) int64, in the order of
        `names`. -1 means no value."""
        return self.corpus.codes(names).map_batch(lambda codes: codes.astype(np.int64))

    def cache_key(self) -> dict[str, str]:
        """Return random names of the texts and of their codes, which change with the data."""
        return {"texts": self.digests["texts"], "codes": self.digests["codes"]}

    def session(self, *, stage: str, run: str) -> PrivacySession:
        """Return the privacy session of a mechanism. `run` is the `run` of the result store."""
        session = self.corpus.session(
            ledger=self.ledger(), stage=stage, run=run, plan=self.budget.planned
        )
        return replace(session, record=self.charged.append)


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The generator, the public encoder, and the public files of a run.

    `writer(stage)` opens the generator. `encode` embeds public texts. `label_reader()` reads the
    labels of released texts. `find(name)` is a file that the settings name. `report` shows a public
    line. `training` are the settings of the computation. `restart` is the command of this stage,
    for torchrun.
    """

    writer: Callable[[str], Writer]
    encode: Encode
    label_reader: Callable[[], LabelReader]
    find: Callable[[str], Path]
    training: TrainingSettings
    report: Callable[[str], None] = field(default=lambda line: None)
    restart: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MethodInputs:
    """Everything that a method may use: private data, public data and tools."""

    private: PrivateInputs
    public: PublicInputs
    tools: Tools


@dataclass(frozen=True, kw_only=True)
class MethodContext:
    """The other settings of a project that a method may depend on.

    `is_example` states whether the private file is the embedded example. `table_attributes` are the
    attributes of the DP table, or None for all. `texts` is `release.texts`. `follows_requests`
    states whether the generator writes what a prompt requests (`GeneratorSettings`).
    """

    texts: int | None
    purpose: Purpose
    unit: Unit
    has_donated: bool
    is_example: bool
    table_attributes: tuple[str, ...] | None
    follows_requests: bool


@dataclass(frozen=True, kw_only=True)
class MethodFacts:
    """What the pipeline and the card must know about a method before it runs.

    `reads_codes`: it uses attribute values of the private texts. `is_measured`: metrics evaluate
    its texts. `starts_from` is the model that it fine-tunes, for the card, and `pretrained` the
    model of stage pretrain that it needs. `files` are the files in its settings, with the names of
    the settings; a file may be private. `extras` are the extras of optional packages that it needs,
    each followed by its packages if not all of them are needed. `remarks` are sentences for the
    card, besides those of its mechanisms. `confidential_epsilon` is the epsilon of a method without
    DP that keeps secrets confidential. `packages` are names and versions of other authors' packages
    that read the private texts for it.
    """

    asks_generator: bool = False
    uses_encoder: bool = False
    reads_codes: bool = True
    is_measured: bool = True
    starts_from: str | None = None
    pretrained: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    extras: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = ()
    confidential_epsilon: float | None = None
    packages: tuple[str, ...] = ()
    card_settings: Mapping[str, Any] = field(default_factory=dict)


class Method(Section):
    """A method and its settings: the fields of the class.

    The pipeline, the card and the commands use only this interface.

    >>> class Counts(OneStageMethod):
    ...     name = "counts"
    ...     texts: int = 20
    ...     def budget_requests(self):
    ...         return (BudgetRequest(name="counts:counts", count=1),)
    ...     def evolve(self, inputs, first, *, forced):
    ...         ...
    >>> Counts(texts=5).facts.card_settings
    {'texts': 5}
    """

    name: ClassVar[str]
    stages: ClassVar[tuple[str, ...]]
    stays_private: ClassVar[bool] = False  # whether results without DP stay in the private root

    @property
    def facts(self) -> MethodFacts:
        """What the pipeline and the card must know before the run."""
        return MethodFacts(card_settings=self.model_dump(mode="json"))

    def in_project(self, context: MethodContext) -> Self:
        """Return the method with the values that follow from the project's other settings."""
        return self

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        """Return the mechanisms that the method needs. They fix all draws and their noise."""
        return ()

    def check(self, context: MethodContext) -> None:
        """Raise ValueError if these settings do not allow the method to run or be private."""

    def preflight(self, schema: Schema, training: TrainingSettings) -> None:
        """Check before any charge that the method can run. Raises ParamsError."""

    def planned_calls(self, planning: Planning) -> tuple[PlannedCalls, ...]:
        """Plan all requests to the generator, for estimates and limits of cost."""
        return ()

    def final_plan(
        self, plan: BudgetPlan, privacy: PrivacySettings, *, beside_profile: bool
    ) -> BudgetPlan:
        """Complete `plan` with the cost of training, from settings alone. With `beside_profile`,
        the settings may depend on a profile of the records."""
        return plan


class OneStageMethod(Method):
    """A method that writes its texts in one stage."""

    stages: ClassVar[tuple[str, ...]] = ("evolve",)

    @abstractmethod
    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> FinalSet:
        """Return the texts. With `forced`, draw again; otherwise restore finished results.

        `first` are the first candidates, for a method with stage initialise.
        """


class TrainedMethod(Method):
    """A method that trains a model, which writes the texts."""

    stages: ClassVar[tuple[str, ...]] = ("finetune", "generate")

    @property
    def record_scorer(self) -> Scorer | None:
        """How each record scores texts, or None if the records score none."""
        return None

    @property
    def scores_name(self) -> str:
        """The name of the noisy sums of scores in the budget plan."""
        return f"votes:{self.name}"

    @abstractmethod
    def finetune(self, inputs: MethodInputs, *, forced: bool) -> TrainedModel | None:
        """Train a model on the private texts. Processes other than the first return None."""

    @abstractmethod
    def generate(self, inputs: MethodInputs, model: Released[Path], *, forced: bool) -> FinalSet:
        """Generate texts with the trained model in the folder `model`.

        With `forced`, draw scores again; otherwise restore finished scores.
        """


def card_remarks(method: Method, schema: Schema) -> tuple[str, ...]:
    """Return sentences for the card about the exactness of a method's mechanisms."""
    requests, facts = method.budget_requests(), method.facts
    remarks = [remark for request in requests for remark in request.remarks]
    scorer: Scorer | None = getattr(method, "record_scorer", None)
    if scorer is not None and set(scorer.remarks) <= set(remarks):  # the records score texts
        remarks.extend(scorer.for_schema(schema).remarks)
    if any(request.count for request in requests):
        remarks.insert(0, INTEGER_NOISE)
    if requests and facts.reads_codes:
        if any(attribute.zero_shot is not None for attribute in schema.attributes):
            remarks.append(EMBEDDINGS)
        if schema.asked_of_llm:
            remarks.append(LABELS_BY_LLM)
    return tuple(dict.fromkeys((*remarks, *facts.remarks)))
