"""One call to an OpenAI-compatible endpoint: limited, bounded in time, tried again.

What is tried again: lost connections, timeouts, 408, 409, 429, 5xx, and an answer that is no
completion; after Retry-After where the endpoint names one, else after exponential backoff with
full jitter. What is not: any other 4xx, since the same request would meet the same answer. 401,
402, 404 and a used-up quota end the run, as no later call could do better.

The key is read from the environment when a client is made and kept nowhere else: no attribute,
message or exception of this module holds it. Redirects are not followed, because they would carry
the messages to an address that the settings do not name.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any

import openai
from aiolimiter import AsyncLimiter
from openai.types.chat import ChatCompletion
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.llm.cache import Completion
from sugarbush.llm.cost import likely_prompt_tokens
from sugarbush.llm.prompts import Message
from sugarbush.params import LabelsParams, OpenAiParams

_BACKOFF = wait_random_exponential(multiplier=0.5, max=60)
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_QUOTED_CHARACTERS = 300
# A bucket of this length lets no burst through that a per-minute limit of the endpoint would see.
_BURST_S = 2.0


class CallError(GeneratorError):
    """One call failed; others may not."""


class StopError(GeneratorError):
    """No later call could do better."""


class _MalformedError(Exception):
    """An answer with status 200 that is no chat completion."""


class _ClosingError(Exception):
    """The run ended before this call was made."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call that may have to be made.

    `key` is what its answer is kept under, `worst_cost` the most that it can cost;
    `response_format` the form of the answer, None for plain text.
    """

    key: str
    messages: tuple[Message, ...]
    seed: int
    worst_cost: float
    response_format: dict[str, Any] | None = None


# Everything that an attempt can end in; anything else is a fault of ours.
FAULTS = (
    openai.APIError,
    TimeoutError,
    _MalformedError,
    json.JSONDecodeError,
    UnicodeDecodeError,
)


class Verdict(Enum):
    """What to do after a failed attempt."""

    RETRY = auto()
    SKIP = auto()
    STOP = auto()


def verdict_on(error: BaseException) -> Verdict:
    """Whether to try again, to do without this answer, or to end the run."""
    match error:
        case openai.APIStatusError(status_code=401 | 402 | 404):
            return Verdict.STOP
        case openai.APIStatusError(status_code=429) if error.code in _QUOTA_CODES:
            return Verdict.STOP
        case openai.APIStatusError(status_code=408 | 409 | 429):
            return Verdict.RETRY
        case openai.APIStatusError(status_code=status):
            return Verdict.RETRY if status >= 500 else Verdict.SKIP
    return Verdict.RETRY if isinstance(error, FAULTS) else Verdict.STOP


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds that an endpoint asks to wait; None when it says nothing usable.

    `retry-after-ms` in milliseconds, or `retry-after` in seconds or as a date (RFC 9110, 10.2.3).
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    written = headers.get("retry-after")
    seconds = _number(written)
    if seconds is not None or written is None:
        return seconds
    try:
        moment = parsedate_to_datetime(written)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())


def read_key(params: OpenAiParams) -> str:
    """The key from the environment. Raises ParamsError naming the variable, never its value."""
    if params.key_variable is None:
        return "none"
    key = os.environ.get(params.key_variable, "").strip()
    place = f"environment variable {params.key_variable} ({params.setting}.key_variable)"
    if not key:
        raise ParamsError(
            f"no key: {place} is not set. Export it in the shell that runs Sugarbush, or set "
            "key_variable: null for an endpoint that asks for none."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ParamsError(f"{place} holds characters that a key cannot have; set it again")
    return key


@asynccontextmanager
async def open_client(params: OpenAiParams) -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client, without its own retries."""
    http_client = openai.DefaultAsyncHttpxClient(follow_redirects=False, timeout=params.timeout_s)
    async with openai.AsyncOpenAI(
        base_url=params.base_url,
        api_key=read_key(params),
        max_retries=0,
        timeout=params.timeout_s,
        http_client=http_client,
    ) as client:
        yield client


def call_body(params: OpenAiParams, call: Call) -> dict[str, Any]:
    """The fields of one call. One choice a call: some servers quietly ignore n > 1."""
    body: dict[str, Any] = {
        "model": params.model,
        "messages": [{"role": m.role, "content": m.content} for m in call.messages],
        params.token_limit: params.max_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "reasoning_effort": params.reasoning_effort,
        "seed": call.seed if params.send_seed else None,
        "response_format": call.response_format,
    }
    return {name: value for name, value in body.items() if value is not None}


def read_completion(answer: object) -> Completion:
    """What an endpoint sent back. Raises _MalformedError when it is no chat completion.

    The SDK constructs its types without validating them, so every field may be missing.
    """
    choices = getattr(answer, "choices", None)
    if not isinstance(answer, ChatCompletion) or not isinstance(choices, list) or not choices:
        raise _MalformedError("no choices")
    message = getattr(choices[0], "message", None)
    if message is None:
        raise _MalformedError("no message")
    text, usage = getattr(message, "content", None), getattr(answer, "usage", None)
    if text is not None and not isinstance(text, str):
        raise _MalformedError("content is no text")
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
    """Time one call has spent on attempts, its waiting for the rate limits left out."""

    attempts_s: float = 0.0


class Endpoint:
    """An open connection to an endpoint, shared by all calls of one event loop."""

    def __init__(self, client: openai.AsyncOpenAI, params: OpenAiParams) -> None:
        self._client, self._params = client, params
        self._requests = _limiter(params.requests_per_minute, largest=1)
        largest = params.context_tokens + params.max_tokens
        self._tokens = _limiter(params.tokens_per_minute, largest=largest)
        self._largest = largest
        self._resume_at = 0.0
        self._patience: set[asyncio.Timeout] = set()
        self._closing = False

    def close(self) -> None:
        """Let attempts that are under way end; whoever waits for the next one waits no longer."""
        if not self._closing:
            self._closing = True
            for patience in self._patience:
                patience.reschedule(0)

    async def complete(self, call: Call) -> Completion:
        """The endpoint's answer. Raises CallError for this call alone, StopError for all."""
        clock = _Clock()
        retrying = AsyncRetrying(
            retry=retry_if_exception(worth_retrying),
            wait=wait_s,
            stop=lambda state: self._give_up(state, clock),
            sleep=self._sleep,
            reraise=True,
        )
        body = call_body(self._params, call)
        prompt_tokens = likely_prompt_tokens(m.content for m in call.messages)
        tokens = min(prompt_tokens + self._params.max_tokens, self._largest)
        try:
            return await retrying(self._attempt, body, tokens, clock)
        except _ClosingError:
            raise CallError("the run ended before this call was made") from None
        except FAULTS as error:
            raise told(error, self._params) from None

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
        """After a 429 that names a time, nobody asks before it."""
        asked = _asked_wait_s(error)
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
        """A time without an attempt under way. Raises _ClosingError as soon as the run ends."""
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


def worth_retrying(error: BaseException) -> bool:
    """Whether the same request may meet a better answer."""
    return verdict_on(error) is Verdict.RETRY


def wait_s(state: RetryCallState) -> float:
    """Seconds until the next attempt: what the endpoint asks for, else backoff with jitter."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = _asked_wait_s(error)
    return asked if asked is not None else _BACKOFF(state)


def told(error: Exception, params: OpenAiParams) -> CallError | StopError:
    """The failure as one of ours."""
    stop = verdict_on(error) is Verdict.STOP
    return (StopError if stop else CallError)(explain(error, params))


def explain(error: BaseException, params: OpenAiParams) -> str:
    """What went wrong and what to change. Quotes no header and no key."""
    where = f"{params.base_url} ({params.setting}.base_url)"
    match error:
        case openai.APIStatusError():
            return _explain_status(error, params, where)
        case openai.APITimeoutError() | TimeoutError():
            return (
                f"{where} gave no answer within {params.setting}.timeout_s={params.timeout_s:g} "
                "seconds. Raise it, lower max_tokens or concurrency, or see whether the server is "
                "overloaded."
            )
        case openai.APIConnectionError():
            return (
                f"{where} cannot be reached ({type(error.__cause__).__name__}). See that the "
                "server runs and that host and port are right."
            )
    return (
        f"{where} answered with something that is no chat completion ({error}). "
        "See that base_url is the address of an OpenAI-compatible API; it usually ends in /v1."
    )


def _explain_status(error: openai.APIStatusError, params: OpenAiParams, where: str) -> str:
    said = _said(error, params)
    match error.status_code:
        case 401 | 403:
            told_what = (
                f"refused the key. See that environment variable {params.key_variable} holds a key "
                "for this endpoint and model."
            )
            said = ""  # it quotes the key
        case 404 if "model" in said.lower() or error.code == "model_not_found":
            told_what = f"does not know the model '{params.model}' ({params.setting}.model)."
        case 404:
            told_what = (
                "has no chat completions at this path. base_url is the part before "
                "/chat/completions and usually ends in /v1."
            )
        case 402 | 429 if verdict_on(error) is Verdict.STOP:
            told_what = "says that the account has no quota left."
        case 429:
            told_what = (
                "is limiting the rate and went on doing so. Lower "
                f"{params.setting}.requests_per_minute or tokens_per_minute."
            )
        case 400 | 413 | 422 if "context" in f"{error.code} {said}".lower():
            told_what = (
                f"has a smaller context than {params.setting}.context_tokens="
                f"{params.context_tokens}. Lower it, or max_tokens."
            )
        case 400 | 422:
            told_what = (
                "does not accept the request. Where it names a field: set temperature, top_p or "
                "reasoning_effort to null, send_seed: false, or token_limit: "
                "max_completion_tokens."
            )
        case _:
            told_what = "could not answer."
    return f"{where} {told_what} (status {error.status_code}){said}"


def _said(error: openai.APIStatusError, params: OpenAiParams) -> str:
    """The endpoint's own words, shortened, without the key.

    It may quote what it was sent; one that is sent private text gets no say.
    """
    body = error.body
    words = body.get("message", body.get("detail")) if isinstance(body, dict) else None
    if isinstance(params, LabelsParams) or not isinstance(words, str):
        return ""
    sent = error.request.headers.get("authorization", "").removeprefix("Bearer ")
    if sent:
        words = words.replace(sent, "...")
    return f" It says: {' '.join(words.split())[:_QUOTED_CHARACTERS]}"


def _asked_wait_s(error: BaseException | None) -> float | None:
    if not isinstance(error, openai.APIStatusError):
        return None
    return retry_after_s(error.response.headers, now=datetime.now(UTC))


def _number(written: str | None) -> float | None:
    """A number of at least 0 in a header, None for anything else."""
    try:
        value = float(written) if written is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _limiter(per_minute: float, *, largest: float) -> AsyncLimiter:
    """A leaky bucket that passes `per_minute` in a minute and holds at least `largest`."""
    capacity = max(per_minute * _BURST_S / 60, largest)
    return AsyncLimiter(capacity, capacity * 60 / per_minute)
