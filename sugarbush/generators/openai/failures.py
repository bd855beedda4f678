"""Decides whether a failed attempt is retried, is skipped or ends the run. Writes the error
message.

These failures are retried: lost connections, timeouts, 408, 409, 429, 5xx, and a response that is
not a completion. The waiting time is the endpoint's Retry-After or, without this header,
exponential backoff with full jitter. Any other 4xx is not retried, because the same request would
fail again. 401, 402, 404 and an exhausted quota end the run, because every later call would fail
too.

No message contains a key. If an endpoint receives private text, no message quotes the endpoint.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from sugarbush.errors import GeneratorError
from sugarbush.generators.openai.endpoint_settings import EndpointSettings

_BACKOFF = wait_random_exponential(multiplier=0.5, max=60)
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_QUOTED_CHARACTERS = 300
# Servers use these words if prompt and answer do not fit the model's context.
_TOO_LONG = re.compile(
    r"context|too long|too many (?:input )?tokens|(?:sequence|input|prompt|maximum|max) length"
    r"|max_new_tokens|tokens? limit",
    re.IGNORECASE,
)


class CallError(GeneratorError):
    """Raised when one call fails but other calls may succeed.

    `status` is the HTTP status of the response, or None without a response.
    """

    status: int | None = None


class RejectedError(CallError):
    """Raised when the endpoint rejects this request, such as a content filter. Every repetition
    would be rejected too."""


class StopError(GeneratorError):
    """Raised when every later call would fail too."""


class MalformedError(Exception):
    """Raised when a response with status 200 is not a chat completion."""


class UnreadableAnswerError(openai.OpenAIError):
    """Raised when an answer is too large or has an unknown encoding. No message quotes it."""


# All expected failures of an attempt. Any other exception is a bug in Sugarbush. The SDK raises
# ValueError for invalid JSON, and RecursionError for JSON that is nested too deeply.
FAULTS = (
    openai.APIError,
    UnreadableAnswerError,
    TimeoutError,
    MalformedError,
    ValueError,
    RecursionError,
)


class NextStep(Enum):
    """The decision after a failed attempt."""

    RETRY = auto()
    SKIP = auto()
    STOP = auto()


def verdict_on(error: BaseException) -> NextStep:
    """Return the decision after `error`."""
    match error:
        case openai.APIStatusError(status_code=401 | 402 | 404):
            return NextStep.STOP
        case openai.APIStatusError(status_code=429) if error.code in _QUOTA_CODES:
            return NextStep.STOP
        case openai.APIStatusError(status_code=408 | 409 | 429):
            return NextStep.RETRY
        case openai.APIStatusError(status_code=status):
            return NextStep.RETRY if status >= 500 else NextStep.SKIP
        case UnreadableAnswerError():
            return NextStep.SKIP
    return NextStep.RETRY if isinstance(error, FAULTS) else NextStep.STOP


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the waiting time in the headers, in seconds, or None without a usable header.

    Reads `retry-after-ms` (milliseconds), or `retry-after` (seconds or a date; RFC 9110, 10.2.3).
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


def retrying(*, stop: Any, **options: Any) -> AsyncRetrying:
    """Return a function that repeats an attempt until the attempt succeeds or `stop` is true.

    The function retries only failures with the verdict RETRY, and raises the last failure.
    """
    retry = retry_if_exception(lambda error: verdict_on(error) is NextStep.RETRY)
    return AsyncRetrying(retry=retry, wait=wait_s, stop=stop, reraise=True, **options)


def wait_s(state: RetryCallState) -> float:
    """Return the endpoint's waiting time, or a backoff if it sent no time, in seconds."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = asked_wait_s(error)
    return asked if asked is not None else _BACKOFF(state)


def call_error(error: Exception, params: EndpointSettings) -> CallError | StopError:
    """Turn a failure into an error for the operator."""
    kinds: dict[NextStep, type[CallError | StopError]] = {
        NextStep.STOP: StopError,
        NextStep.SKIP: RejectedError,
        NextStep.RETRY: CallError,
    }
    failure = kinds[verdict_on(error)](explain(error, params))
    if isinstance(failure, CallError) and isinstance(error, openai.APIStatusError):
        failure.status = error.status_code
    return failure


def explain(error: BaseException, params: EndpointSettings) -> str:
    """Explain what is wrong and what to change. The message quotes no header and no key."""
    where = f"{params.address} ({params.setting}.base_url)"
    match error:
        case openai.APIStatusError():
            return _explain_status(error, params, where)
        case openai.APITimeoutError() | TimeoutError():
            return (
                f"{where} gave no whole answer within {params.setting}.timeout_s="
                f"{params.timeout_s:g} seconds. Raise timeout_s, lower max_tokens or concurrency, "
                "or check whether the server is overloaded."
            )
        case UnreadableAnswerError():
            return (
                f"{where} {error}. Check that base_url is the address of an OpenAI-compatible API."
            )
        case openai.APIConnectionError():
            return (
                f"{where} cannot be reached ({_reason(error, params)}). Check that the "
                "server runs, and check http or https, host and port."
            )
    return (
        f"{where} sent a response that is not a chat completion ({_reason(error, params)}). Check "
        "that base_url is the address of an OpenAI-compatible API. Such an address usually ends in "
        "/v1."
    )


def _reason(error: BaseException, params: EndpointSettings) -> str:
    """Return the shortened message of a local error. Such a message may quote the endpoint. So if
    the endpoint reads private text, only the error's type is returned."""
    reason = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
    words = "" if params.reads_private_text else _quoted(str(reason or ""), error)
    return words or type(reason).__name__


def _explain_status(error: openai.APIStatusError, params: EndpointSettings, where: str) -> str:
    words = _words(error)
    said = _said(error, words, params)
    match error.status_code:
        case 301 | 302 | 303 | 307 | 308:
            target = error.response.headers.get("location", "elsewhere")
            target = "elsewhere" if params.reads_private_text else _quoted(target, error)
            problem = (
                f"redirects to {target}, but redirects are not followed. If the endpoint is there, "
                "set base_url to this address, without /chat/completions."
            )
        case 401 | 403 if params.named_key_variable is None:
            problem = (
                f"refused a call without a key. Set {params.setting}.key_variable to the name of "
                "the environment variable with the key."
            )
            said = ""
        case 401 | 403:
            problem = (
                f"refused the key. Check that environment variable {params.named_key_variable} "
                "contains a key for this endpoint and model."
            )
            said = ""  # the endpoint's message quotes the key
        case 404 if "model" in words.lower() or error.code == "model_not_found":
            problem = f"does not know the model '{params.model}' ({params.setting}.model)."
        case 404:
            problem = (
                "has no chat completions at this path. Set base_url to the part before "
                "/chat/completions. This part usually ends in /v1."
            )
        case 402 | 429 if verdict_on(error) is NextStep.STOP:
            problem = "says that the account has no quota left. Raise the quota, and run again."
        case 429:
            problem = (
                f"received too many calls per minute. Lower {params.setting}.requests_per_minute "
                "or tokens_per_minute."
            )
        case 400 | 413 | 422 if _TOO_LONG.search(f"{error.code} {words}"):
            problem = (
                f"has a smaller context than {params.setting}.context_tokens="
                f"{params.context_tokens}. Lower context_tokens or max_tokens."
            )
        case 400 | 422:
            problem = (
                "does not accept the request. If the message below names a field, set temperature "
                "(also for top_p) or reasoning_effort to null, `send_seed: false`, or "
                "`token_limit: max_completion_tokens`."
            )
        case _:
            problem = "could not answer."
    return f"{where} {problem} (status {error.status_code}){said}"


def _words(error: openai.APIStatusError) -> str:
    """Return the endpoint's message. The message may quote the request."""
    body = error.body
    words = body.get("message", body.get("detail")) if isinstance(body, dict) else None
    return words if isinstance(words, str) else ""


def _said(error: openai.APIStatusError, words: str, params: EndpointSettings) -> str:
    """Return the endpoint's message, shortened and without the key.

    The result is empty if the endpoint reads private text.
    """
    if params.reads_private_text or not words:
        return ""
    return f" It says: {_quoted(words, error)}"


def _quoted(words: str, error: BaseException) -> str:
    """Shorten `words` and remove the key, because an endpoint may repeat the key anywhere."""
    request = getattr(error, "request", None)
    sent = "" if request is None else request.headers.get("authorization", "")
    words = " ".join(words.split())
    if key := sent.removeprefix("Bearer "):
        words = words.replace(key, "...")
    return words[:_QUOTED_CHARACTERS]


def asked_wait_s(error: BaseException | None) -> float | None:
    """Return the waiting time that the endpoint sent with `error`, in seconds, or None."""
    if not isinstance(error, openai.APIStatusError):
        return None
    return retry_after_s(error.response.headers, now=datetime.now(UTC))


def _number(written: str | None) -> float | None:
    try:
        value = float(written) if written is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
