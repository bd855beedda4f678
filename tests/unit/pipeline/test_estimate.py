"""Tests of the estimate of calls, tokens and cost, which sends nothing."""

from __future__ import annotations

from typing import Any

import pytest
from sugarbush.methods.evolving import EvolvingMethod

from sugarbush.data.schema import Schema
from sugarbush.evolution.initialisation import first_population, first_requests
from sugarbush.evolution.settings import PromptContent
from sugarbush.evolution.targets import open_targets
from sugarbush.evolution.variation import variation_requests
from sugarbush.generators.interface import Answer
from sugarbush.methods import method_class
from sugarbush.methods.interface import PlannedCalls
from sugarbush.methods.maple import Maple
from sugarbush.pipeline.estimate import estimate
from sugarbush.pipeline.settings import ProjectSettings, parse_params
from sugarbush.registry import METHODS, plugin_names
from tests.settings import method_in, settings

SCHEMA = Schema.model_validate(
    {
        "subject": "customer-service tickets",
        "attributes": [{"name": "topic", "values": ["delivery", "billing"], "column": "topic"}],
    }
)
DONATED = tuple(f"A donated ticket, number {i}, about a parcel. " * (i + 1) for i in range(20))
EVERY_METHOD = plugin_names(METHODS)
EVOLVING = [name for name in EVERY_METHOD if method_class(name).asks_generator]


def params(*, candidates: int | None = 400, **openai: Any) -> ProjectSettings:
    fields = settings(methods=EVERY_METHOD, privacy__purpose="benchmark")
    fields["generator"]["openai"] |= openai
    for method in set(EVOLVING) - ({"public"} if candidates is None else set()):
        fields["methods"][method]["candidates"] = candidates
    return parse_params(fields)


def planned(
    method: str, own: ProjectSettings | None = None, donated: tuple[str, ...] = DONATED
) -> tuple[PlannedCalls, ...]:
    own = params() if own is None else own
    return own.method(method).planned_calls(
        schema=SCHEMA, donated=donated, length=own.initialise.length, record_count=None
    )


def test_five_methods_ask_a_generator() -> None:
    assert EVOLVING == ["augpe", "maple", "mosaic", "nonprivate", "public"]


@pytest.mark.parametrize("name", [name for name in EVOLVING if name != "mosaic"])
def test_the_plan_counts_what_the_methods_ask_for(name: str) -> None:
    evolution = params().method(name)
    assert isinstance(evolution, EvolvingMethod)
    survivors = 400 // evolution.variations
    targets = open_targets(survivors, SCHEMA)
    requests = first_requests(
        targets,
        schema=SCHEMA,
        params=evolution.model_copy(update={"prompt": PromptContent.INDEPENDENT}),
        length=params().initialise.length,
        donated=None,
        seed=1,
    )
    population = first_population(targets, tuple(Answer(text="a b") for _ in requests))
    vary = len(variation_requests(population, schema=SCHEMA, params=evolution, round_=1, seed=1))
    calls = [batch.calls for batch in planned(name)]
    expected = [len(requests), *[vary] * evolution.rounds]
    assert calls == [count for count in expected if count]


@pytest.mark.parametrize(
    ("name", "changes", "texts", "calls"),
    [
        ("maple", {}, 1000, 900),  # 100 survivors
        ("maple", {}, 80, 0),
        ("maple", {"selection": "kernel_herding"}, 1000, 1600),  # 400 have scores
        ("mosaic", {}, 1000, 1600),
        ("mosaic", {}, 200, 0),
        ("public", {}, 1000, 600),
    ],
)
def test_a_larger_release_asks_for_what_the_rounds_did_not(
    name: str, changes: dict[str, Any], texts: int, calls: int
) -> None:
    own = params()
    method = type(own.method(name))(candidates=400, **changes)
    found = method.planned_further_calls(
        schema=SCHEMA, donated=DONATED, length=own.initialise.length, record_count=None, texts=texts
    )
    assert [batch.calls for batch in found] == [calls] * bool(calls)


@pytest.mark.parametrize("name", ["dpft", "crt"])
def test_a_method_that_trains_asks_for_nothing(name: str) -> None:
    assert planned(name) == ()


def test_an_open_number_of_candidates_is_planned_at_its_most() -> None:
    own = params(candidates=None)
    first, *_ = planned("maple", own)
    evolution = method_in(own, Maple)
    assert evolution.candidates is None
    assert first.calls == evolution.max_candidates // evolution.variations


def test_an_open_number_of_candidates_follows_the_dp_record_count() -> None:
    own = params(candidates=None)
    evolution = method_in(own, Maple)
    first, *_ = evolution.planned_calls(
        schema=SCHEMA, donated=DONATED, length=own.initialise.length, record_count=600.0
    )
    candidates = int(evolution.candidates_per_record * 600)
    assert candidates < evolution.max_candidates
    assert first.calls == candidates // evolution.variations


def test_cost_follows_the_prices_and_is_unknown_without() -> None:
    price = {"my-model": {"input": 1.0, "output": 10.0, "date": "2026-11-01"}}
    priced = params(prices=price).generator.openai
    one = estimate(planned("maple"), priced)
    prompt = sum(line.prompt_tokens for line in one.lines)
    completion = sum(line.completion_tokens for line in one.lines)
    assert one.cost == pytest.approx((prompt + 10 * completion) / 1e6)
    assert one.most_cost is not None
    assert one.most_cost > one.cost
    assert estimate(planned("maple"), params().generator.openai).cost is None


def test_the_greatest_length_that_may_be_asked_for_is_counted() -> None:
    length = {"words": 80, "attribute": "size", "words_by_value": {"small": 20, "large": 900}}
    own = parse_params(settings(initialise__length=length))
    batches = planned("maple", own, ())
    assert {batch.request.words for batch in batches} == {900}


def test_the_first_prompts_hold_the_longest_examples_and_so_are_not_underestimated() -> None:
    without = planned("maple", donated=DONATED[:1])
    endpoint = params().generator.openai
    shown = sum(len(text) for text in sorted(DONATED, key=len)[-10:])
    more = estimate(planned("maple"), endpoint).lines[0]
    less = estimate(without, endpoint).lines[0]
    assert (more.prompt_tokens - less.prompt_tokens) / more.calls > 0.2 * shown


def test_the_rate_limits_set_the_least_time() -> None:
    slow = params(requests_per_minute=10).generator.openai
    one = estimate(planned("maple"), slow)
    assert one.minutes == pytest.approx(one.calls / 10)
