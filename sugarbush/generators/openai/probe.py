"""Before any budget or money is spent: does the endpoint answer, and is its context large enough?

A list of models (free), then one call with the settings of the run: of a few tokens, or as long as
the run's longest where the endpoint does not state its context. One that refuses either bills
neither.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import Any

import openai
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_before_delay

from sugarbush.errors import ParamsError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.endpoint import Call, call_body, read_completion
from sugarbush.generators.openai.failures import FAULTS, StopError, explain, wait_s, worth_retrying
from sugarbush.generators.openai.settings import CallMode, EndpointSettings
from sugarbush.generators.prompts import Message

# Enough that a model that thinks first is not refused, too few to matter.
_TOKENS = 16
# A server that has just failed may close the connection that the next question comes by.
_ATTEMPTS = 3
_QUESTION = "Answer with the word ready."
# One token a word in every vocabulary in use, and as many bytes a token as prompts are measured by.
_FILLER = "it is on "
_FILLER_TOKENS = 3
_NO_SUCH_PATH = {404, 405, 501}
# What servers call a model's context length in their list of models.
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window")


@dataclass(frozen=True, kw_only=True)
class _Offer:
    """The endpoint's list of models; empty where it keeps none."""

    names: tuple[str, ...] = ()
    context_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Probed:
    """The endpoint's answer, and whether it has counted the whole question; None: it counts none.

    Some servers cut a prompt that is longer than their context, and say nothing.
    """

    completion: Completion
    whole: bool | None


def longest_question(tokens: int) -> str:
    """A question of about so many tokens, the most that `probe` sends."""
    return f"{_FILLER * -(-tokens // _FILLER_TOKENS)}\n\nThat was to take up room. {_QUESTION}"


async def probe(client: openai.AsyncOpenAI, params: EndpointSettings, *, tokens: int = 0) -> Probed:
    """An answer to a short question, or to one of about `tokens` where nobody says that it fits.

    Raises GeneratorError or ParamsError with what to change.
    """
    offer = await _offer(client, params)
    if offer.context_tokens is not None and offer.context_tokens < params.context_tokens:
        raise ParamsError(
            f"params.yaml: {params.setting}.context_tokens={params.context_tokens} is more than "
            f"the {offer.context_tokens} that '{params.model}' has; set it to that"
        )
    if params.mode is CallMode.BATCH:
        await _see_batches(client, params)
    if offer.context_tokens is not None or not tokens:
        question, limit = _QUESTION, min(_TOKENS, params.max_tokens)
    else:
        question, limit = longest_question(tokens), params.max_tokens
    completion = await _asked(client, params, question, limit=limit, offer=offer)
    # Half as many tokens as words: no vocabulary is that short.
    counted = completion.prompt_tokens
    whole = 2 * counted >= len(question.split()) if counted else None
    return Probed(completion=completion, whole=whole)


async def _asked(
    client: openai.AsyncOpenAI,
    params: EndpointSettings,
    question: str,
    *,
    limit: int,
    offer: _Offer,
) -> Completion:
    limited = params.model_copy(update={"max_tokens": limit})
    message = Message(role="user", content=question)
    call = Call(key="", messages=(message,), seed=0, worst_cost=0.0)

    async def attempt() -> Completion:
        return read_completion(await client.chat.completions.create(**call_body(limited, call)))

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


async def _see_batches(client: openai.AsyncOpenAI, params: EndpointSettings) -> None:
    """Raises ParamsError where the endpoint has no Batch API; any other failure shows later."""
    try:
        await client.batches.list(limit=1)
    except openai.APIStatusError as error:
        if error.status_code in _NO_SUCH_PATH:
            raise ParamsError(
                f"params.yaml: {params.setting}.mode=batch, and {params.base_url} has no Batch API "
                f"(status {error.status_code}); set mode: direct"
            ) from None
    except FAULTS:
        return


async def _offer(client: openai.AsyncOpenAI, params: EndpointSettings) -> _Offer:
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


def _not_found(error: openai.NotFoundError, params: EndpointSettings, offer: _Offer) -> str:
    if not offer.names or params.model in offer.names:
        return explain(error, params)
    near = difflib.get_close_matches(params.model, offer.names, n=5, cutoff=0.3)
    offered = ", ".join(json.dumps(name) for name in near or sorted(offer.names)[:5])
    return (
        f"{params.base_url} ({params.setting}.base_url) does not offer the model "
        f"'{params.model}' ({params.setting}.model). It offers {len(offer.names)}, such as "
        f"{offered}."
    )
