"""Settings of an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from sugarbush.generators.openai.address import is_loopback
from sugarbush.generators.openai.submitted_calls import has_batch_mode
from sugarbush.generators.prices import Price
from sugarbush.settings import NOT_IN_OUTPUT, Section

# If `extract_metadata.llm` lacks one of these settings, the value of `generator.openai` applies.
SHARED_BY_ENDPOINTS = (
    "temperature",
    "token_limit",
    "send_seed",
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "timeout_s",
    "max_retries",
    "prices",
)

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,60}$")]
BY_ADDRESS: Final = "auto"  # the address decides which variable contains the key


class CallMode(StrEnum):
    """How requests are sent: one HTTP call per request, or a file of requests (a batch)."""

    DIRECT = "direct"
    BATCH = "batch"


class EndpointSettings(Section):
    """An OpenAI-compatible endpoint, such as vLLM, llama.cpp, Ollama or a hosted service."""

    setting: ClassVar[str]
    """The name of the section in messages."""
    reads_private_text: ClassVar[bool] = False
    """Whether the endpoint receives private text. No message quotes such an endpoint."""

    base_url: str | Sequence[str] = "http://localhost:8000/v1"
    """Address of the API, without /chat/completions. Servers in a list share the calls."""
    model: Annotated[str, Field(min_length=1)]
    """The model's name at the endpoint."""
    key_variable: Annotated[VariableName | None, NOT_IN_OUTPUT] = BY_ADDRESS
    """Environment variable with the key; null: no key; auto: OPENAI_API_KEY, but no key for an
    address on this machine."""
    mode: Annotated[CallMode, NOT_IN_OUTPUT] = CallMode.DIRECT
    """direct: one HTTP call for each request. batch: files of calls, which are cheaper but slow."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 1.0
    """Sampling temperature; null: not sent. All tokens are possible (top_p is 1)."""
    max_tokens: Annotated[int, Field(ge=1)] = 512
    """Maximum number of tokens in an answer."""
    token_limit: Annotated[Literal["max_tokens", "max_completion_tokens"], NOT_IN_OUTPUT] = (
        "max_tokens"
    )
    """Name of the field for max_tokens in a call. Newer OpenAI models need
    max_completion_tokens."""
    send_seed: Annotated[bool, NOT_IN_OUTPUT] = True
    """Whether calls contain a seed. Set false if the endpoint refuses a seed."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    """Reasoning effort of a reasoning model; null: not sent."""
    concurrency: Annotated[int, Field(ge=1), NOT_IN_OUTPUT] = 32
    """Maximum number of concurrent calls to one address. A late answer halves it."""
    requests_per_minute: Annotated[float, Field(gt=0), NOT_IN_OUTPUT] = 3000
    """Rate limit of one address: calls per minute."""
    tokens_per_minute: Annotated[float, Field(gt=0), NOT_IN_OUTPUT] = 2_000_000
    """Rate limit of one address: tokens per minute. Each call counts with its prompt and
    max_tokens."""
    timeout_s: Annotated[float, Field(gt=0), NOT_IN_OUTPUT] = 120
    """Time limit of one attempt, from the connection to the last byte of the answer, in seconds.
    Five times this limit holds for a file of a batch, and for a call with its retries, without
    waits for rate limits."""
    max_retries: Annotated[int, Field(ge=0), NOT_IN_OUTPUT] = 8
    """Maximum number of retries of a failed call."""
    context_tokens: Annotated[int, Field(ge=64)] = 8192
    """The model's context length, for prompt and answer together. Longer prompts are shortened."""
    max_calls: Annotated[Annotated[int, Field(ge=1)] | None, NOT_IN_OUTPUT] = None
    """Maximum number of paid calls of all runs on one privacy.dataset; null: no cap."""
    max_cost: Annotated[Annotated[float, Field(gt=0)] | None, NOT_IN_OUTPUT] = None
    """Maximum total cost of all runs on one privacy.dataset; null: no cap."""
    prices: Annotated[dict[str, Price], NOT_IN_OUTPUT] = Field(default_factory=dict)
    """Price of a million tokens of each model: {my-model: {input: .., output: .., date: '..'}}."""

    @property
    def base_urls(self) -> tuple[str, ...]:
        """All addresses, in alphabetical order."""
        return (self.base_url,) if isinstance(self.base_url, str) else tuple(self.base_url)

    @property
    def named_key_variable(self) -> str | None:
        """The environment variable with the key, or None if calls need no key.

        A key for a hosted service is not sent to a server on this machine unless the settings name
        its variable.
        """
        if self.key_variable != BY_ADDRESS:
            return self.key_variable
        return None if all(map(is_loopback, self.base_urls)) else "OPENAI_API_KEY"

    @property
    def address(self) -> str:
        """All addresses as one text, for messages."""
        return ", ".join(self.base_urls)

    @property
    def most_calls_at_once(self) -> int:
        """The maximum number of concurrent calls to all addresses together."""
        return self.concurrency * len(self.base_urls)

    @property
    def deadline_s(self) -> float:
        """Time limit of a call with its retries, in seconds."""
        return 5 * self.timeout_s

    def at(self, base_url: str) -> Self:
        """Return the same settings for one of the addresses."""
        return self.model_copy(update={"base_url": base_url})

    @property
    def price(self) -> Price | None:
        """The price of the model's tokens, or None if `prices` lacks the model."""
        return self.prices.get(self.model)

    @property
    def key_fields(self) -> dict[str, Any]:
        """The settings that affect an answer, for cache keys."""
        return {
            "base_url": self.base_url,
            "model": self.model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "reasoning_effort": self.reasoning_effort,
        }

    @field_validator("base_url", mode="before")
    @classmethod
    def _without_order(cls, given: Any) -> str | tuple[str, ...]:
        """Sort the addresses, because their order affects no answer."""
        listed = given if isinstance(given, list | tuple) else [given]
        addresses = tuple(sorted({_checked_address(each) for each in listed}))
        if not addresses:
            raise ValueError("must contain an address")
        return addresses if len(addresses) > 1 else addresses[0]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.max_tokens >= self.context_tokens:
            raise ValueError(
                f"max_tokens={self.max_tokens} leaves no room for a prompt in "
                f"context_tokens={self.context_tokens}. Lower max_tokens"
            )
        if self.mode is CallMode.BATCH and len(self.base_urls) > 1:
            raise ValueError(
                "mode=batch needs one base_url. Remove the other addresses, or set mode: direct"
            )
        if self.mode is CallMode.BATCH and not has_batch_mode():
            raise ValueError(
                "no installed package provides mode=batch (an entry point of the group "
                "'sugarbush.call_modes'). Install such a package, or set mode: direct"
            )
        if self.max_cost is not None and self.price is None:
            raise ValueError(
                f"max_cost needs a price, but prices has none for model '{self.model}'. Add "
                "`prices: {<model>: {input: .., output: .., date: ..}}` per million tokens, or set "
                "`max_cost: null` and a number for max_calls"
            )
        return self


def _checked_address(base_url: Any) -> str:
    parts = urlsplit(base_url) if isinstance(base_url, str) else None
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http(s) address such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must have no user, query or fragment. The key comes from key_variable")
    return str(base_url).rstrip("/")
