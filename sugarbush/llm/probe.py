"""Before any budget or money is spent: does the endpoint answer at all?

A list of models (free), then one call of a few tokens with the settings of the run. An endpoint
that refuses either bills neither.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import Any

import openai
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_before_delay

from sugarbush.errors import ParamsError
from sugarbush.llm.cache import Completion
from sugarbush.llm.endpoint import (
    FAULTS,
    Call,
    StopError,
    call_body,
    explain,
    read_completion,
    wait_s,
    worth_retrying,
)
from sugarbush.llm.prompts import Message
from sugarbush.params import OpenAiParams

# Enough that a model that thinks first is not refused, too few to matter.
_TOKENS = 16
# A server that has just failed may close the connection that the next question comes by.
_ATTEMPTS = 3
_QUESTION = Message(role="user", content="Answer with the word ready.")
# What servers call a model's context length in their list of models.
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window")


@dataclass(frozen=True, kw_only=True)
class _Offer:
    """The endpoint's list of models; empty where it keeps none."""

    names: tuple[str, ...] = ()
    context_tokens: int | None = None


async def probe(client: openai.AsyncOpenAI, params: OpenAiParams) -> Completion:
    """A short answer of the endpoint. Raises GeneratorError or ParamsError with what to change."""
    offer = await _offer(client, params)
    if offer.context_tokens is not None and offer.context_tokens < params.context_tokens:
        raise ParamsError(
            f"params.yaml: {params.setting}.context_tokens={params.context_tokens} is more than "
            f"the {offer.context_tokens} that '{params.model}' has; set it to that"
        )
    tokens = min(_TOKENS, params.max_tokens)
    short = params.model_copy(update={"max_tokens": tokens})
    call = Call(key="", messages=(_QUESTION,), seed=0, worst_cost=0.0)

    async def attempt() -> Completion:
        return read_completion(await client.chat.completions.create(**call_body(short, call)))

    retrying = AsyncRetrying(
        retry=retry_if_exception(worth_retrying),
        wait=wait_s,
        stop=stop_after_attempt(_ATTEMPTS) | stop_before_delay(params.timeout_s),
        reraise=True,
    )
    try:
        return await retrying(attempt)
    except openai.NotFoundError as error:
        raise StopError(_not_found(error, params, offer)) from None
    except FAULTS as error:
        raise StopError(explain(error, params)) from None


async def _offer(client: openai.AsyncOpenAI, params: OpenAiParams) -> _Offer:
    """What the list of models says. A server without a usable list says nothing here."""
    try:
        page = await client.models.list()
        models = [m for m in page.data or [] if isinstance(getattr(m, "id", None), str)]
    except (openai.AuthenticationError, openai.APIConnectionError) as error:
        raise StopError(explain(error, params)) from None
    except (*FAULTS, AttributeError, TypeError):
        return _Offer()
    extra: dict[str, Any] = next((m.model_extra or {} for m in models if m.id == params.model), {})
    lengths = [extra[name] for name in _CONTEXT_FIELDS if isinstance(extra.get(name), int)]
    return _Offer(names=tuple(m.id for m in models), context_tokens=min(lengths, default=None))


def _not_found(error: openai.NotFoundError, params: OpenAiParams, offer: _Offer) -> str:
    if not offer.names or params.model in offer.names:
        return explain(error, params)
    near = difflib.get_close_matches(params.model, offer.names, n=5, cutoff=0.3)
    offered = ", ".join(json.dumps(name) for name in near or sorted(offer.names)[:5])
    return (
        f"{params.base_url} ({params.setting}.base_url) does not offer the model "
        f"'{params.model}' ({params.setting}.model). It offers {len(offer.names)}, such as "
        f"{offered}."
    )
