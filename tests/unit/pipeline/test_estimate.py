"""Calls, tokens and cost before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sugarbush.data.schema import Schema
from sugarbush.evolution.initialisation import first_population, first_requests, open_targets
from sugarbush.evolution.variation import variation_requests
from sugarbush.generators.interface import Answer
from sugarbush.pipeline.estimate import Planned, estimate, planned_calls
from sugarbush.pipeline.settings import Method, ProjectSettings, load_params, parse_params
from tests.settings import settings

ROOT = Path(__file__).parents[3]
SCHEMA = Schema.model_validate(
    {
        "subject": "customer-service tickets",
        "attributes": [{"name": "topic", "values": ["delivery", "billing"], "column": "topic"}],
    }
)
DONATED = tuple(f"A donated ticket, number {i}, about a parcel. " * (i + 1) for i in range(20))


def params(**openai: Any) -> ProjectSettings:
    fields = load_params(ROOT / "params.yaml").model_dump(mode="json", by_alias=True)
    fields["generator"]["openai"] |= openai
    return parse_params(fields)


def planned(method: Method, candidates: int | None = 400, **openai: Any) -> tuple[Planned, ...]:
    return planned_calls(
        params(**openai), method, schema=SCHEMA, donated=DONATED, candidates=candidates
    )


@pytest.mark.parametrize("method", [m for m in Method if not m.trains and m is not Method.CRT])
def test_the_plan_counts_what_the_methods_ask_for(method: Method) -> None:
    evolution = params().evolve.of(method)
    survivors = 400 // evolution.variations
    targets = open_targets(survivors, SCHEMA)
    requests = first_requests(
        targets, schema=SCHEMA, params=evolution.model_copy(update={"prompt": "independent"}),
        length=params().initialise.length, donated=None, choose=_never, seed=1,
    )  # fmt: skip
    population = first_population(targets, tuple(Answer(text="a b") for _ in requests))
    vary = len(variation_requests(population, schema=SCHEMA, params=evolution, round_=1, seed=1))
    last = evolution.model_copy(update={"variations": evolution.expansion})
    final = len(variation_requests(population, schema=SCHEMA, params=last, round_=2, seed=1))
    calls = [batch.calls for batch in planned(method)]
    expected = [len(requests), *[vary] * evolution.rounds, final]
    assert calls == [count for count in expected if count]


_never: Callable[..., Any] = lambda codes, k: np.zeros((len(codes), 0), dtype=np.int64)  # noqa: E731


def test_an_open_number_of_candidates_is_planned_at_its_most() -> None:
    first, *_ = planned(Method.MAPLE, candidates=None)
    evolution = params().evolve.maple
    assert evolution.candidates is None
    assert first.calls == evolution.max_candidates // evolution.variations


def test_cost_follows_the_prices_and_is_unknown_without() -> None:
    price = {"my-model": {"input": 1.0, "output": 10.0, "date": "2026-11-01"}}
    priced = params(prices=price).generator.openai
    one = estimate(planned(Method.MAPLE), priced)
    prompt = sum(line.prompt_tokens for line in one.lines)
    completion = sum(line.completion_tokens for line in one.lines)
    assert one.cost == pytest.approx((prompt + 10 * completion) / 1e6)
    assert one.most_cost is not None
    assert one.most_cost > one.cost
    assert estimate(planned(Method.MAPLE), params().generator.openai).cost is None


def test_the_greatest_length_that_may_be_asked_for_is_counted() -> None:
    length = {"words": 80, "attribute": "size", "words_by_value": {"small": 20, "large": 900}}
    own = parse_params(settings(initialise__length=length))
    batches = planned_calls(own, Method.MAPLE, schema=SCHEMA, donated=(), candidates=None)
    assert {batch.request.words for batch in batches} == {900}


def test_the_first_prompts_hold_the_longest_examples_and_so_are_not_underestimated() -> None:
    without = planned_calls(
        params(), Method.MAPLE, schema=SCHEMA, donated=DONATED[:1], candidates=400
    )
    endpoint = params().generator.openai
    shown = sum(len(text) for text in sorted(DONATED, key=len)[-10:])
    more = estimate(planned(Method.MAPLE), endpoint).lines[0]
    less = estimate(without, endpoint).lines[0]
    assert (more.prompt_tokens - less.prompt_tokens) / more.calls > 0.2 * shown


def test_the_rate_limits_set_the_least_time() -> None:
    slow = params(requests_per_minute=10).generator.openai
    one = estimate(planned(Method.MAPLE), slow)
    assert one.minutes == pytest.approx(one.calls / 10)
