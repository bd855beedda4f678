"""Checks the endpoint and its context length before a run spends budget.

The probe requests the list of models, which is free. Then the probe makes one call with the
settings of the run. If the endpoint states its context length, this call is short. Otherwise this
call has the longest planned prompt, with another end. So it costs no more than a call of the run.
Endpoints do not bill a refused call.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import httpx2
import openai
from tenacity import stop_after_attempt, stop_before_delay

from sugarbush.errors import ParamsError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.batch_mode import batch_mode
from sugarbush.generators.openai.cost import Meter
from sugarbush.generators.openai.endpoint import Call, call_body, complete, open_client
from sugarbush.generators.openai.endpoint_settings import CallMode, EndpointSettings
from sugarbush.generators.openai.failures import (
    FAULTS,
    StopError,
    UnreadableAnswerError,
    explain,
    retrying,
)

_TOKENS = 16  # a cheap limit that is enough for a reasoning model
_ATTEMPTS = 3  # a server that has just failed may close the connection of the next call
_QUESTION = "Answer with the word ready."
# Servers use these names for the context length in their lists of models.
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window")


@dataclass(frozen=True, kw_only=True)
class _Offer:
    """The endpoint's list of models, and the context length of the model in the settings."""

    names: tuple[str, ...] = ()
    context_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Probed:
    """The answer of an endpoint to the probe.

    Some servers cut a prompt that is longer than their context, without an error. `whole` is false
    if the endpoint counted too few tokens for the whole prompt. `whole` is None if the endpoint
    counts no tokens.
    """

    completion: Completion
    whole: bool | None


def paid_probe(
    params: EndpointSettings, meter: Meter, *, longest: str, say: Callable[[str], None]
) -> Probed:
    """Run `probe` at every address and record its cost in the journal of paid calls.

    Raises StopError if no address answers, and CapReachedError if a cap is reached. If there is a
    cap, the function waits for the lock of the account, because calls of other runs count too.
    """
    results, failed = [], []
    with meter.alone(say) if meter.is_capped else nullcontext():
        for base_url in params.base_urls:
            try:
                results.append(_paid_probe(params.at(base_url), meter, longest=longest))
            except StopError as error:
                failed.append(error)
    if not results:
        raise failed[0]
    for failure in failed:
        say(f"{failure} The other addresses get its calls.")
    return min(results, key=lambda probed: probed.whole is not False)


def _paid_probe(params: EndpointSettings, meter: Meter, *, longest: str) -> Probed:
    worst_cost = meter.worst_cost(longest_question(longest))
    meter.admit(worst_cost)

    async def ask() -> Probed:
        async with open_client(params) as client:
            return await probe(client, params, longest=longest)

    try:
        result = asyncio.run(ask())
    except Exception:
        meter.release(worst_cost)
        raise
    meter.settle(worst_cost, result.completion, what="check")
    return result


def longest_question(longest: str) -> str:
    """Return the longest prompt that `probe` sends: `longest`, with a short question at its end.

    The result is no longer than `longest`, unless the question alone is.
    """
    ending = f"\n\nThat was to take up room. {_QUESTION}"
    room = len(longest) - len(ending)
    return longest[:room] + ending if room > 0 else _QUESTION


async def probe(
    client: openai.AsyncOpenAI, params: EndpointSettings, *, longest: str = ""
) -> Probed:
    """Send a short prompt, or `longest_question(longest)` if the context length is unknown.

    Raises GeneratorError or ParamsError, which says what to change.
    """
    offer = await _offer(client, params)
    if offer.context_tokens is not None and offer.context_tokens < params.context_tokens:
        raise ParamsError(
            f"params.yaml: {params.setting}.context_tokens={params.context_tokens}, but the "
            f"context of '{params.model}' has {offer.context_tokens} tokens. Set context_tokens to "
            "this number"
        )
    if params.mode is CallMode.BATCH:
        await batch_mode().require_endpoint(client, params)
    if offer.context_tokens is not None or not longest:
        question, limit = _QUESTION, min(_TOKENS, params.max_tokens)
    else:
        question, limit = longest_question(longest), params.max_tokens
    completion = await _ask(client, params, question, limit=limit, offer=offer)
    # In every vocabulary, two words have at least one token.
    counted = completion.prompt_tokens
    whole = 2 * counted >= len(question.split()) if counted else None
    return Probed(completion=completion, whole=whole)


async def _ask(
    client: openai.AsyncOpenAI, params: EndpointSettings, text: str, *, limit: int, offer: _Offer
) -> Completion:
    limited = params.model_copy(update={"max_tokens": limit})
    call = Call(key="", prompt=text, seed=0, worst_cost=0.0)

    async def attempt() -> Completion:
        return await complete(client, call_body(limited, call))

    stop = stop_after_attempt(_ATTEMPTS) | stop_before_delay(params.timeout_s)
    try:
        return await retrying(stop=stop)(attempt)
    except openai.NotFoundError as error:
        raise StopError(_not_found(error, params, offer)) from None
    except FAULTS as error:
        raise StopError(explain(error, params)) from None


async def _offer(client: openai.AsyncOpenAI, params: EndpointSettings) -> _Offer:
    """Request the list of models. If the server has no usable list, the result is empty."""
    try:
        # The SDK's own types of a list need a hundred times the memory of the answer.
        answer = (await client.get("/models", cast_to=httpx2.Response)).json()
        models = [m for m in answer["data"] if isinstance(m, dict) and isinstance(m.get("id"), str)]
    except (
        openai.AuthenticationError,
        openai.APIConnectionError,
        UnreadableAnswerError,
    ) as error:
        raise StopError(explain(error, params)) from None
    except (*FAULTS, KeyError, TypeError):
        return _Offer()
    extra: dict[str, Any] = next((m for m in models if m["id"] == params.model), {})
    nested = extra.get("meta")
    stated = [extra.get(name) for name in _CONTEXT_FIELDS]
    # llama.cpp's server nests the length. It is that of one slot, as a request sees it.
    stated += [nested.get("n_ctx")] if isinstance(nested, dict) else []
    # Servers write 0 or -1 for a length that they do not know.
    lengths = [length for length in stated if type(length) is int and length > 0]
    return _Offer(names=tuple(m["id"] for m in models), context_tokens=min(lengths, default=None))


def _not_found(error: openai.NotFoundError, params: EndpointSettings, offer: _Offer) -> str:
    if not offer.names or params.model in offer.names:
        return explain(error, params)
    near = difflib.get_close_matches(params.model, offer.names, n=5, cutoff=0.3)
    offered = ", ".join(json.dumps(name) for name in near or sorted(offer.names)[:5])
    return (
        f"{params.address} ({params.setting}.base_url) does not offer the model '{params.model}' "
        f"({params.setting}.model). The endpoint offers {len(offer.names)} models, such as "
        f"{offered}."
    )
