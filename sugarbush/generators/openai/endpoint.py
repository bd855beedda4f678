"""One call to an OpenAI-compatible endpoint, with rate limits, a deadline and retries.

`sugarbush.generators.openai.failures` decides which failures are retried.

The key is read from the environment when a client is made. No attribute, message or exception of
this module contains it. Redirects are not followed: they would send the messages to an address that
the settings do not name.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import openai
from aiolimiter import AsyncLimiter
from openai.types.chat import ChatCompletion
from tenacity import RetryCallState

from sugarbush.errors import ParamsError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.address import may_use_proxy
from sugarbush.generators.openai.cost import likely_prompt_tokens
from sugarbush.generators.openai.failures import (
    FAULTS,
    CallError,
    MalformedError,
    asked_wait_s,
    call_error,
    retrying,
)
from sugarbush.generators.openai.settings import EndpointSettings

# A burst of this many seconds stays below an endpoint's limit per minute.
_BURST_S = 2.0
_MOST_TOKENS = 2**40


class _ClosingError(Exception):
    """The run ended before this call was made."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call. `key` is the cache key of its answer, and `worst_cost` is the most that it can
    cost.

    `response_format` is the format of the answer, None for plain text.
    """

    key: str
    prompt: str
    seed: int
    worst_cost: float
    response_format: dict[str, Any] | None = None


def read_key(params: EndpointSettings) -> str:
    """The key from the environment. Raises ParamsError, which names the variable and never its
    value."""
    if params.key_variable is None:
        return "none"
    key = os.environ.get(params.key_variable, "").strip()
    place = f"environment variable {params.key_variable} ({params.setting}.key_variable)"
    if not key:
        raise ParamsError(
            f"no key: {place} is not set. Export it in the shell that runs Sugarbush, or set "
            "`key_variable: null` for an endpoint that needs no key."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ParamsError(f"{place} contains characters that a key cannot have; set it again")
    return key


@asynccontextmanager
async def open_client(params: EndpointSettings) -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client, without its own retries.

    `sugarbush.generators.openai.address` decides whether a proxy from the environment is used.
    """
    proxied = may_use_proxy(params.base_url, reads_private_text=params.reads_private_text)
    http_client = openai.DefaultAsyncHttpxClient(
        follow_redirects=False, timeout=params.timeout_s, trust_env=proxied
    )
    async with openai.AsyncOpenAI(
        base_url=params.base_url,
        api_key=read_key(params),
        max_retries=0,
        timeout=params.timeout_s,
        http_client=http_client,
    ) as client:
        yield client


def call_body(params: EndpointSettings, call: Call) -> dict[str, Any]:
    """The fields of one call. One choice per call, because some servers ignore n > 1."""
    body: dict[str, Any] = {
        "model": params.model,
        "messages": [{"role": "user", "content": call.prompt}],
        params.token_limit: params.max_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "reasoning_effort": params.reasoning_effort,
        "seed": call.seed if params.send_seed else None,
        "response_format": call.response_format,
    }
    return {name: value for name, value in body.items() if value is not None}


def read_completion(answer: object) -> Completion:
    """The completion in a response. Raises MalformedError when it is not a completion.

    The SDK does not validate its types, so every field may be missing.
    """
    choices = getattr(answer, "choices", None)
    if not isinstance(answer, ChatCompletion) or not isinstance(choices, list) or not choices:
        raise MalformedError("no choices")
    message = getattr(choices[0], "message", None)
    if message is None:
        raise MalformedError("no message")
    text, usage = getattr(message, "content", None), getattr(answer, "usage", None)
    if text is not None and not isinstance(text, str):
        raise MalformedError("content is not a text")
    finish_reason = getattr(choices[0], "finish_reason", None)
    return Completion(
        text=text,
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        refused=bool(getattr(message, "refusal", None)),
        prompt_tokens=_count(getattr(usage, "prompt_tokens", None)),
        completion_tokens=_count(getattr(usage, "completion_tokens", None)),
    )


@dataclass
class _Clock:
    """The seconds that one call has spent on attempts, excluding the waits for the rate limits."""

    attempts_s: float = 0.0


class Endpoint:
    """An open connection to an endpoint, shared by all calls of one event loop."""

    def __init__(self, client: openai.AsyncOpenAI, params: EndpointSettings) -> None:
        self._client, self._params = client, params
        self._requests = _limiter(params.requests_per_minute, largest=1)
        largest = params.context_tokens + params.max_tokens
        self._tokens = _limiter(params.tokens_per_minute, largest=largest)
        self._largest = largest
        self._resume_at = 0.0
        self._patience: set[asyncio.Timeout] = set()
        self._closing = False

    def close(self) -> None:
        """Let running attempts end, and end every wait for another attempt."""
        if not self._closing:
            self._closing = True
            for patience in self._patience:
                patience.reschedule(0)

    async def complete(self, call: Call) -> Completion:
        """The endpoint's answer.

        Raises CallError if only this call failed, and StopError if all later calls would fail.
        """
        clock = _Clock()
        attempts = retrying(stop=lambda state: self._give_up(state, clock), sleep=self._sleep)
        body = call_body(self._params, call)
        prompt_tokens = likely_prompt_tokens(call.prompt)
        tokens = min(prompt_tokens + self._params.max_tokens, self._largest)
        try:
            return await attempts(self._attempt, body, tokens, clock)
        except _ClosingError:
            raise CallError("the run ended before this call was made") from None
        except FAULTS as error:
            raise call_error(error, self._params) from None

    async def _attempt(self, body: dict[str, Any], tokens: int, clock: _Clock) -> Completion:
        async with self._waiting():
            await self._requests.acquire()
            await self._tokens.acquire(tokens)
            while (pause_s := self._resume_at - time.monotonic()) > 0:
                await asyncio.sleep(pause_s)
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._params.timeout_s):
                answer = await self._client.chat.completions.create(**body)
            return read_completion(answer)
        except openai.APIStatusError as error:
            self._heed(error)
            raise
        finally:
            clock.attempts_s += time.monotonic() - started

    def _heed(self, error: openai.APIStatusError) -> None:
        """After a 429 that names a time, delay all calls until then."""
        asked = asked_wait_s(error)
        if error.status_code == 429 and asked is not None:
            latest = time.monotonic() + min(asked, self._params.deadline_s)
            self._resume_at = max(self._resume_at, latest)

    def _give_up(self, state: RetryCallState, clock: _Clock) -> bool:
        spent_s = clock.attempts_s + state.idle_for + state.upcoming_sleep
        return (
            self._closing
            or state.attempt_number > self._params.max_retries
            or spent_s >= self._params.deadline_s
        )

    async def _sleep(self, seconds: float) -> None:
        async with self._waiting():
            await asyncio.sleep(seconds)

    @asynccontextmanager
    async def _waiting(self) -> AsyncIterator[None]:
        """Run a block that waits before an attempt. Raises _ClosingError as soon as the run
        ends."""
        if self._closing:
            raise _ClosingError
        try:
            async with asyncio.timeout(None) as patience:
                self._patience.add(patience)
                yield
        except TimeoutError:
            raise _ClosingError from None
        finally:
            self._patience.discard(patience)


def _count(value: object) -> int:
    """Return a number of tokens; 0 if `value` is not such a number, because the endpoint counts no
    tokens."""
    return value if isinstance(value, int) and 0 < value < _MOST_TOKENS else 0


def _limiter(per_minute: float, *, largest: float) -> AsyncLimiter:
    """Make a leaky bucket for `per_minute` units per minute, with a capacity of at least
    `largest`."""
    capacity = max(per_minute * _BURST_S / 60, largest)
    return AsyncLimiter(capacity, capacity * 60 / per_minute)
