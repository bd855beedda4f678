"""Settings of `sugarbush.generators`."""

from __future__ import annotations

import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from sugarbush.settings import Section


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


class PoolSettings(Section):
    """A public corpus as generator."""

    sources: tuple[PoolSource, ...] = ()
    """Public files to draw texts from, such as [{file: reviews.csv, text_column: text}]."""
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """Randomness of the choice among similar texts."""
    neighbours: Annotated[int, Field(ge=1)] = 200
    """Most similar texts that a choice is made among."""


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


class OpenAiSettings(Section):
    """Any OpenAI-compatible endpoint.

    `key_variable` names the environment variable of the key; None: the endpoint asks for none.
    `temperature`, `top_p` and `reasoning_effort` are not sent when None; `token_limit` is the
    field that carries `max_tokens`. `timeout_s` bounds one attempt, `deadline_s` a request with
    its retries (waiting for the rate limits apart). `max_calls` and `max_cost` bound what all runs
    on one `privacy.dataset` pay for together; a model without a price has tokens and no cost.
    """

    setting: ClassVar[str] = "generator.openai"  # the section, as messages name it

    base_url: str = "http://localhost:8000/v1"
    """Address of the endpoint."""
    model: Annotated[str, Field(min_length=1)] = "my-model"
    """Name of the model at the endpoint."""
    key_variable: str | None = "OPENAI_API_KEY"
    """Environment variable with the API key; null: no key."""
    mode: CallMode = CallMode.DIRECT
    """direct: one request for each text; batch: files of requests, cheaper and slower."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 1.0
    """Temperature of sampling; null: not sent."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    """Probability mass to choose from; null: not sent."""
    max_tokens: Annotated[int, Field(ge=1)] = 512
    """Tokens of an answer, at most."""
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Field that carries max_tokens: max_tokens or max_completion_tokens."""
    send_seed: bool = True
    """Whether requests carry a seed; some endpoints refuse it."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    """none, minimal, low, medium or high, for reasoning models; null: not sent."""
    concurrency: Annotated[int, Field(ge=1)] = 32
    """Requests at the same time, at most."""
    requests_per_minute: Annotated[float, Field(gt=0)] = 3000
    """Rate limit of requests."""
    tokens_per_minute: Annotated[float, Field(gt=0)] = 2_000_000
    """Rate limit of tokens."""
    timeout_s: Annotated[float, Field(gt=0)] = 120
    """Seconds for one attempt."""
    deadline_s: Annotated[float, Field(gt=0)] = 600
    """Seconds for a request with all its retries."""
    max_retries: Annotated[int, Field(ge=0)] = 8
    """Retries of a failed request."""
    batch_poll_s: Annotated[float, Field(gt=0)] = 30
    """Seconds between two looks at a batch."""
    context_tokens: Annotated[int, Field(ge=64)] = 8192
    """Tokens of prompt and answer that the model can read."""
    max_calls: Annotated[int, Field(ge=1)] | None = None
    """Calls of all runs on privacy.dataset together, at most; null: no limit."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """Cost of all runs on privacy.dataset together, at most; needs prices; null: no limit."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Price per million tokens: {my-model: {input: 0.15, output: 0.6, date: '2026-11-01'}}."""

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
    def _consistent(self) -> OpenAiSettings:
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


class HuggingFaceSettings(Section):
    """A local causal language model by name or path."""

    model: str = "gpt2"
    """A causal language model by name or path."""
    device: str = "auto"
    """auto, cpu or cuda."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto, float32, bfloat16 or float16."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Temperature of sampling."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Probability mass to choose from."""
    max_tokens: Annotated[int, Field(ge=1)] = 256
    """Tokens of an answer, at most."""
    batch_tokens: Annotated[int, Field(ge=64)] = 16_384
    """Tokens computed at once: memory against time."""


# What the endpoint for labels shares with the generator's, unless it is given.
SHARED_BY_ENDPOINTS = (
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
NOT_IN_OUTPUT = frozenset(
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


class GeneratorSettings(Section):
    """The provider in use, and each provider's own settings."""

    provider: Provider = Provider.SIMULATOR
    """What writes the texts: simulator, pool, openai or huggingface."""
    seed: int = 1
    """Seed of the texts."""
    max_dropped_share: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of unusable answers above which the run stops."""
    pool: PoolSettings = PoolSettings()
    openai: OpenAiSettings = OpenAiSettings()
    huggingface: HuggingFaceSettings = HuggingFaceSettings()

    def identity(self) -> dict[str, Any]:
        """What decides which texts come: not how fast, how often retried, or under which cap."""
        own = getattr(self, self.provider.value, None)
        fields = {} if own is None else own.model_dump(mode="json")
        texts = {name: value for name, value in fields.items() if name not in NOT_IN_OUTPUT}
        return {"provider": self.provider.value, "seed": self.seed, **texts}
