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
    temperature: Annotated[float, Field(gt=0)] = 0.05
    neighbours: Annotated[int, Field(ge=1)] = 200


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
    model: Annotated[str, Field(min_length=1)] = "my-model"
    key_variable: str | None = "OPENAI_API_KEY"
    mode: CallMode = CallMode.DIRECT
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    max_tokens: Annotated[int, Field(ge=1)] = 512
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send_seed: bool = True
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    concurrency: Annotated[int, Field(ge=1)] = 32
    requests_per_minute: Annotated[float, Field(gt=0)] = 3000
    tokens_per_minute: Annotated[float, Field(gt=0)] = 2_000_000
    timeout_s: Annotated[float, Field(gt=0)] = 120
    deadline_s: Annotated[float, Field(gt=0)] = 600
    max_retries: Annotated[int, Field(ge=0)] = 8
    batch_poll_s: Annotated[float, Field(gt=0)] = 30
    context_tokens: Annotated[int, Field(ge=64)] = 8192
    max_calls: Annotated[int, Field(ge=1)] | None = None
    max_cost: Annotated[float, Field(gt=0)] | None = None
    prices: dict[str, Price] = {}

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
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    max_tokens: Annotated[int, Field(ge=1)] = 256
    batch_tokens: Annotated[int, Field(ge=64)] = 16_384


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
    seed: int = 1
    max_dropped_share: Annotated[float, Field(ge=0, lt=1)] = 0.2
    pool: PoolSettings = PoolSettings()
    openai: OpenAiSettings = OpenAiSettings()
    huggingface: HuggingFaceSettings = HuggingFaceSettings()

    def identity(self) -> dict[str, Any]:
        """What decides which texts come: not how fast, how often retried, or under which cap."""
        own = getattr(self, self.provider.value, None)
        fields = {} if own is None else own.model_dump(mode="json")
        texts = {name: value for name, value in fields.items() if name not in NOT_IN_OUTPUT}
        return {"provider": self.provider.value, "seed": self.seed, **texts}
