"""Makes one call to an OpenAI-compatible endpoint, and reads its answer.

`open_client` reads the key from the environment. No attribute, message or exception of this module
contains the key. The SDK would send other environment variables (`OPENAI_ORG_ID`,
`OPENAI_CUSTOM_HEADERS`) as headers to any address, so the client removes these headers. The client
follows no redirects, because a redirect could lead to an address that is not in the settings.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import openai

from sugarbush.errors import ParamsError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.address import may_use_proxy
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.generators.openai.failures import MalformedError
from sugarbush.generators.openai.http_client import BoundedClient

_MOST_TOKENS = 2**40
_TEXT_PARTS = {"text", "output_text"}  # types of the items of a content that is a list
_PARTS = _TEXT_PARTS | {"thinking", "reasoning", "redacted_thinking"}
_HEADERS = {
    b"host", b"connection", b"user-agent", b"accept", b"accept-encoding", b"content-type",
    b"content-length", b"transfer-encoding",
}  # fmt: skip
_OF_AN_ACCOUNT = {b"openai-organization", b"openai-project"}
# These loggers write a line for each call, so their lines would show the number of private texts.
# One logger of the SDK also writes the texts.
_LOGGERS_OF_CALLS = ("openai", "httpx2", "httpcore2", "filelock")


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call. `key` is the cache key of the answer. `worst_cost` is the maximum cost of the call.

    `response_format` is the format of the answer. None means plain text.
    """

    key: str
    prompt: str
    seed: int
    worst_cost: float
    response_format: dict[str, Any] | None = None


Receive = Callable[[Call, Completion], None]


def read_key(params: EndpointSettings) -> str:
    """Read the key from the environment. Raises ParamsError, which never shows the key."""
    name = params.named_key_variable
    if name is None:
        return "none"
    key = os.environ.get(name, "").strip()
    variable = f"environment variable {name} ({params.setting}.key_variable)"
    if not key:
        raise ParamsError(
            f"no key: {variable} is not set. Export it in the shell that runs Sugarbush, or set "
            "`key_variable: null` for an endpoint that needs no key."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ParamsError(
            f"{variable} contains a space or another character that no key has. Set the variable "
            "again"
        )
    return key


@asynccontextmanager
async def open_client(params: EndpointSettings) -> AsyncIterator[openai.AsyncOpenAI]:
    """Open OpenAI's client for the one address of `params`. The client does not retry.

    `sugarbush.generators.openai.address` decides whether calls use a proxy from the environment.
    """
    proxied = may_use_proxy(params.address, reads_private_text=params.reads_private_text)
    key = read_key(params)
    if params.reads_private_text:
        for name in {*_LOGGERS_OF_CALLS, *logging.root.manager.loggerDict}:
            if name.partition(".")[0] in _LOGGERS_OF_CALLS:  # a child logger may have its own level
                logging.getLogger(name).setLevel(logging.WARNING)

    authorization = (b"authorization", f"Bearer {key}".encode())

    async def remove_headers(request: Any) -> None:
        header_names = _HEADERS
        if f".{request.url.host}".endswith(".openai.com"):
            header_names = header_names | _OF_AN_ACCOUNT
        kept = [
            (name, value) for name, value in request.headers.raw if name.lower() in header_names
        ]
        request.headers = type(request.headers)([*kept, authorization])

    http_client = BoundedClient(
        follow_redirects=False,
        timeout=params.timeout_s,
        trust_env=proxied,
        event_hooks={"request": [remove_headers]},
    )
    async with openai.AsyncOpenAI(
        base_url=params.address,
        api_key=key,
        max_retries=0,
        timeout=params.timeout_s,
        http_client=http_client,
    ) as client:
        yield client


def call_body(params: EndpointSettings, call: Call) -> dict[str, Any]:
    """Return the fields of a call for one answer, because some servers ignore n > 1."""
    body: dict[str, Any] = {
        "model": params.model,
        "messages": [{"role": "user", "content": call.prompt}],
        params.token_limit: params.max_tokens,
        "temperature": params.temperature,
        # Without top_p, some servers would use a default of the model.
        "top_p": None if params.temperature is None else 1.0,
        "reasoning_effort": params.reasoning_effort,
        "seed": call.seed if params.send_seed else None,
        "response_format": call.response_format,
    }
    return {name: value for name, value in body.items() if value is not None}


class _Answer(openai.BaseModel):
    """A response as JSON. The SDK's own type of a response takes a tenth of a call's CPU time."""

    choices: Any = None
    usage: Any = None


async def complete(client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> Completion:
    """Make one call with the fields `body`, without the SDK's types for these fields."""
    answer: object = await client.post("/chat/completions", cast_to=_Answer, body=body)
    # The SDK returns a response as text if it is not JSON, and a list as a list.
    return read_completion(dict(answer) if isinstance(answer, _Answer) else None)


def read_completion(answer: Mapping[str, Any] | None) -> Completion:
    """Return the completion in a response. Raises MalformedError for a response without a
    completion.

    Nothing has validated the response, so every field may be missing or have another type.
    """
    choices = _field(answer, "choices")
    if not isinstance(choices, list) or not choices:
        raise MalformedError("no choices")
    message = _field(choices[0], "message")
    if message is None:
        raise MalformedError("no message")
    text, usage = _text(_field(message, "content")), _field(answer, "usage")
    finish_reason = _field(choices[0], "finish_reason")
    prompt_tokens = _count(_field(usage, "prompt_tokens"))
    cached_tokens = _count(_field(_field(usage, "prompt_tokens_details"), "cached_tokens"))
    return Completion(
        text=text,
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        refused=bool(_field(message, "refusal")),
        prompt_tokens=prompt_tokens,
        completion_tokens=_count(_field(usage, "completion_tokens")),
        cached_prompt_tokens=min(cached_tokens, prompt_tokens),
    )


def _text(content: object) -> str | None:
    """Return the words in a content: a text, or a list of texts and thoughts."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise MalformedError("content is not a text")
    kinds = [_field(item, "type") for item in content]
    if unknown := [kind for kind in kinds if kind not in _PARTS]:
        raise MalformedError(f"content has a part of type {str(unknown[0])[:30]!r}")
    texts = [_field(item, "text") for item in content if _field(item, "type") in _TEXT_PARTS]
    if not all(isinstance(text, str) for text in texts):
        raise MalformedError("a part of the content has no text")
    return "".join(texts)


def _field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 < value < _MOST_TOKENS else 0
