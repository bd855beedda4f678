"""How many calls, tokens and how much money a run would ask for, before anything is sent.

Counted from the settings as the methods use them (see sugarbush.evolution): `candidates` /
`variations` first texts, `variations` - 1 more of each survivor a round, `expansion` - 1 of each
last survivor. Answers that are kept from an earlier run, or dropped on the way, make it fewer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sugarbush.attributes.label_prompts import label_prompt
from sugarbush.attributes.settings import LabelsSettings
from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.settings import EvolutionSettings, PromptContent
from sugarbush.generators.interface import RandomRequest, Request, VariationRequest
from sugarbush.generators.openai.cost import cost_of, likely_prompt_tokens, most_prompt_tokens
from sugarbush.generators.prompts import render
from sugarbush.generators.settings import OpenAiSettings
from sugarbush.pipeline.settings import Method, ProjectSettings

# English prose in the vocabularies of current models takes 1.2 to 1.4 tokens a word.
_TOKENS_PER_WORD = 1.35


@dataclass(frozen=True, kw_only=True)
class Planned:
    """`calls` requests like `request`, in one batch of a stage."""

    stage: str
    what: str
    calls: int
    request: Request


@dataclass(frozen=True, kw_only=True)
class Line:
    """One planned batch: likely tokens, and the most that its calls could come to."""

    stage: str
    what: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    most_prompt_tokens: int
    most_completion_tokens: int


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """All batches. Costs are None where the model has no price; `minutes` is what the rate limits
    alone make it take."""

    lines: tuple[Line, ...]
    cost: float | None
    most_cost: float | None
    minutes: float

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)


def planned_calls(
    params: ProjectSettings,
    method: Method,
    *,
    schema: Schema,
    donated: Sequence[str],
    candidates: int | None,
) -> tuple[Planned, ...]:
    """Every batch of requests of one method.

    `candidates` is the number that each vote is taken on where it is known; None: the setting, or
    `max_candidates` where that waits for the DP record count. `donated` are public texts, of which
    the longest stand for those that will be shown, as the greatest length stands for all that are
    asked for.
    """
    evolution, length = params.evolve.of(method), params.initialise.length
    words = max(length.words, *(length.words_by_value or {"": length.words}).values())
    voted_on = candidates or evolution.candidates or evolution.max_candidates
    survivors = max(1, voted_on // evolution.variations)
    first = RandomRequest(
        subject=schema.subject,
        attributes=_attributes(evolution, schema),
        examples=_examples(evolution, donated),
        words=words,
    )
    vary = VariationRequest(
        subject=schema.subject,
        parent="word " * words,
        good=("word " * words,) * evolution.contrast,
        bad=("word " * words,) * evolution.contrast,
        mask_share=evolution.mask_share,
        words=words,
    )
    batches: list[tuple[str, str, int, Request]] = [("initialise", "first texts", survivors, first)]
    batches += [
        ("evolve", f"round {number}", survivors * (evolution.variations - 1), vary)
        for number in range(1, evolution.rounds + 1)
    ]
    batches.append(("evolve", "final set", survivors * (evolution.expansion - 1), vary))
    return tuple(
        Planned(stage=f"{stage}@{method}", what=what, calls=calls, request=request)
        for stage, what, calls, request in batches
        if calls
    )


def estimate(planned: Iterable[Planned], params: OpenAiSettings) -> Estimate:
    """What the planned calls would take at the endpoint, the model and the prices of `params`."""
    return _total(tuple(_line(batch, params) for batch in planned), params)


def _total(lines: tuple[Line, ...], params: OpenAiSettings) -> Estimate:
    price = params.prices.get(params.model)
    calls = sum(line.calls for line in lines)
    prompt = sum(line.prompt_tokens for line in lines)
    completion = sum(line.completion_tokens for line in lines)
    return Estimate(
        lines=lines,
        cost=cost_of(price, prompt_tokens=prompt, completion_tokens=completion),
        most_cost=cost_of(
            price,
            prompt_tokens=sum(line.most_prompt_tokens for line in lines),
            completion_tokens=sum(line.most_completion_tokens for line in lines),
        ),
        # The endpoint's own limit counts the tokens that an answer may take, not those it takes.
        minutes=max(
            calls / params.requests_per_minute,
            (prompt + calls * params.max_tokens) / params.tokens_per_minute,
        ),
    )


def estimate_labels(
    texts: Iterable[str], attributes: Sequence[Attribute], params: LabelsSettings
) -> Estimate:
    """What one question a text would take; the number of texts is private, and so is this."""
    room = params.context_tokens - params.max_tokens
    prompts = [label_prompt(text, attributes, room=room) for text in texts]
    answer = json.dumps({a.name: max(a.domain, key=len) for a in attributes})
    likely = min(likely_prompt_tokens([answer]), params.max_tokens)
    line = Line(
        stage="extract_metadata",
        what="labels",
        calls=len(prompts),
        prompt_tokens=sum(likely_prompt_tokens([prompt]) for prompt in prompts),
        completion_tokens=len(prompts) * likely,
        most_prompt_tokens=sum(most_prompt_tokens([prompt]) for prompt in prompts),
        most_completion_tokens=len(prompts) * params.max_tokens,
    )
    return _total((line,), params)


def _line(batch: Planned, params: OpenAiSettings) -> Line:
    messages = render(
        batch.request, context_tokens=params.context_tokens, max_tokens=params.max_tokens
    )
    contents = [message.content for message in messages]
    words = batch.request.words
    likely = params.max_tokens if words is None else round(words * _TOKENS_PER_WORD)
    return Line(
        stage=batch.stage,
        what=batch.what,
        calls=batch.calls,
        prompt_tokens=batch.calls * likely_prompt_tokens(contents),
        completion_tokens=batch.calls * min(likely, params.max_tokens),
        most_prompt_tokens=batch.calls * most_prompt_tokens(contents),
        most_completion_tokens=batch.calls * params.max_tokens,
    )


def _attributes(evolution: EvolutionSettings, schema: Schema) -> tuple[tuple[str, str], ...]:
    shown = evolution.by_label or evolution.prompt in {PromptContent.METADATA, PromptContent.BOTH}
    if not shown:
        return ()
    return tuple((a.name, max(a.domain, key=len)) for a in schema.attributes)


def _examples(evolution: EvolutionSettings, donated: Sequence[str]) -> tuple[str, ...]:
    if evolution.prompt not in {PromptContent.EXAMPLES, PromptContent.BOTH}:
        return ()
    return tuple(sorted(donated, key=len, reverse=True)[: evolution.examples])
