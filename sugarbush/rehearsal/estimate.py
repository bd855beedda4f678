"""Estimates the calls, tokens and cost of a run from the settings, before anything is sent.

A method requests its first texts, then variations in each round, and then further texts up to the
size of the release. A run with cached answers needs fewer calls. A run with unusable answers needs
more calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sugarbush.attributes.label_prompts import label_prompt
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.data.schema import Attribute
from sugarbush.generators.examples import EXAMPLE_SETS
from sugarbush.generators.openai.cost import likely_prompt_tokens, most_prompt_tokens
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.generators.prices import cost_of
from sugarbush.generators.prompts import render
from sugarbush.generators.shared_prefixes import shared_prefixes
from sugarbush.methods.interface import PlannedCalls

# English prose has 1.2 to 1.4 tokens per word in the vocabularies of current models.
_TOKENS_PER_WORD = 1.35


@dataclass(frozen=True, kw_only=True)
class Line:
    """One planned batch of calls, with likely and maximum numbers of tokens.

    `cached_prompt_tokens` counts the part of `prompt_tokens` that an endpoint with a prefix cache
    is likely to have from an earlier call.
    """

    stage: str
    what: str
    calls: int
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_prompt_tokens: int = 0
    most_prompt_tokens: int = 0
    most_completion_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """All planned batches. Costs are None without a price. `minutes` follows from rate limits."""

    lines: tuple[Line, ...]
    cost: float | None = None
    most_cost: float | None = None
    minutes: float = 0.0

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)


def estimate(planned: Iterable[PlannedCalls], endpoint: EndpointSettings | None) -> Estimate:
    """Estimate the calls of a run. With an endpoint, also estimate tokens, cost and time."""
    return _total(tuple(_line(batch, endpoint) for batch in planned), endpoint)


def _total(lines: tuple[Line, ...], endpoint: EndpointSettings | None) -> Estimate:
    if endpoint is None:
        return Estimate(lines=lines)
    price = endpoint.price
    calls = sum(line.calls for line in lines)
    prompt = sum(line.prompt_tokens for line in lines)
    completion = sum(line.completion_tokens for line in lines)
    cached = sum(line.cached_prompt_tokens for line in lines)
    most_prompt = sum(line.most_prompt_tokens for line in lines)
    most_completion = sum(line.most_completion_tokens for line in lines)
    # Rate limits count the longest possible answer instead of the actual answer.
    tokens = prompt + calls * endpoint.max_tokens
    return Estimate(
        lines=lines,
        cost=cost_of(
            price,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_prompt_tokens=cached,
        ),
        most_cost=cost_of(price, prompt_tokens=most_prompt, completion_tokens=most_completion),
        minutes=max(calls / endpoint.requests_per_minute, tokens / endpoint.tokens_per_minute)
        / len(endpoint.base_urls),
    )


def estimate_labels(
    texts: Iterable[str], attributes: Sequence[Attribute], params: LabelEndpoint
) -> Estimate:
    """Estimate one question per text. The result is private, because it shows the exact count."""
    room = params.context_tokens - params.max_tokens
    prompts = [label_prompt(text, attributes, room=room) for text in texts]
    answer = json.dumps({a.name: max(a.domain, key=len) for a in attributes})
    likely = min(likely_prompt_tokens(answer), params.max_tokens)
    line = Line(
        stage="extract_metadata",
        what="labels",
        calls=len(prompts),
        prompt_tokens=sum(likely_prompt_tokens(prompt) for prompt in prompts),
        completion_tokens=len(prompts) * likely,
        most_prompt_tokens=sum(most_prompt_tokens(prompt) for prompt in prompts),
        most_completion_tokens=len(prompts) * params.max_tokens,
    )
    return _total((line,), params)


def _line(batch: PlannedCalls, endpoint: EndpointSettings | None) -> Line:
    line = Line(stage=batch.stage, what=batch.what, calls=batch.calls)
    if endpoint is None:
        return line
    # Prompts of a batch differ from the first attribute on, or from the length on.
    prompt, other = (
        render(request, context_tokens=endpoint.context_tokens, max_tokens=endpoint.max_tokens)
        for request in (batch.request, replace(batch.request, attributes=(), words=None))
    )
    common = likely_prompt_tokens(prompt[: shared_prefixes([prompt, other])[0].length])
    words = batch.request.words
    likely = endpoint.max_tokens if words is None else round(words * _TOKENS_PER_WORD)
    return replace(
        line,
        prompt_tokens=batch.calls * likely_prompt_tokens(prompt),
        completion_tokens=batch.calls * min(likely, endpoint.max_tokens),
        cached_prompt_tokens=max(batch.calls - EXAMPLE_SETS, 0) * common,
        most_prompt_tokens=batch.calls * most_prompt_tokens(prompt),
        most_completion_tokens=batch.calls * endpoint.max_tokens,
    )
