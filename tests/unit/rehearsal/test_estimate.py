"""Tests of the estimate of calls, tokens and cost, which sends nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sugarbush.data.schema import Schema
from sugarbush.evolution.initialisation import first_population, first_requests
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import open_targets
from sugarbush.generators.examples import EXAMPLE_SETS
from sugarbush.generators.interface import Answer
from sugarbush.methods import method_class
from sugarbush.methods.crt import CRT
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import Method, PlannedCalls, Planning
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.registry import METHODS, plugin_names
from sugarbush.rehearsal.estimate import estimate
from tests.settings import params
from tests.unit.evolution.test_evolve import encode

SCHEMA = Schema.model_validate(
    {
        "subject": "customer-service tickets",
        "attributes": [{"name": "topic", "values": ["delivery", "billing"], "column": "topic"}],
    }
)
DONATED = tuple(f"A donated ticket, number {i}, about a parcel. " * (i + 1) for i in range(20))
ASKING = [name for name in plugin_names(METHODS) if method_class(name)().facts.asks_generator]
LENGTH = FirstLength()
ENDPOINT = params().generator.openai


def asking(name: str, **fields: Any) -> PartsMethod:
    method = method_class(name)(**{"candidates": 400, **fields})
    assert isinstance(method, PartsMethod)
    return method


def planned(
    method: str | Method,
    *,
    donated: tuple[str, ...] = DONATED,
    length: FirstLength = LENGTH,
    record_count: float | None = None,
    texts: int = 1,
) -> tuple[PlannedCalls, ...]:
    """Plan a run. By default, its release needs no further text."""
    chosen = asking(method) if isinstance(method, str) else method
    planning = Planning(
        schema=SCHEMA, donated=donated, length=length, texts=texts, record_count=record_count
    )
    return chosen.planned_calls(planning)


def test_five_methods_ask_a_generator() -> None:
    assert ASKING == ["augpe", "maple", "mosaic", "nonprivate", "public"]


@pytest.mark.parametrize("name", ASKING)
def test_the_plan_counts_what_the_methods_ask_for(name: str) -> None:
    parts = asking(name).parts()
    survivors = 400 // parts.candidates_per_text
    targets = open_targets(survivors, SCHEMA)
    requests = first_requests(
        targets,
        schema=SCHEMA,
        prompts=replace(parts.start.prompts, content=PromptContent.INDEPENDENT),
        length=LENGTH,
        donated=None,
        seed=1,
        run_seed=1,
    )
    population = first_population(targets, tuple(Answer(text="a b") for _ in requests))
    expected = [("initialise", len(requests))]
    if parts.varier is not None:
        vary = parts.varier.requests(population, schema=SCHEMA, encode=encode, number=1, seed=1)
        expected += [("evolve", len(vary))] * parts.rounds
    calls = [(batch.stage, batch.calls) for batch in planned(name)]
    assert calls == [(f"{stage}@{name}", count) for stage, count in expected]


@pytest.mark.parametrize(
    ("name", "changes", "texts", "calls"),
    [
        ("maple", {}, 1000, 900),  # 100 survivors
        ("maple", {"votes": 5}, 1000, 900),
        ("maple", {}, 80, 0),
        ("maple", {"scorer": "kernel"}, 1000, 1600),  # 400 have scores
        ("mosaic", {}, 1000, 1600),
        ("mosaic", {}, 200, 0),
        ("public", {}, 1000, 600),
    ],
)
def test_a_larger_release_asks_for_what_the_rounds_did_not(
    name: str, changes: dict[str, Any], texts: int, calls: int
) -> None:
    batches = planned(asking(name, **changes), texts=texts)
    further = [batch.calls for batch in batches if batch.stage == f"enlarge@{name}"]
    assert further == [calls] * bool(calls)


@pytest.mark.parametrize("method", [DPFT(), CRT()], ids=["dpft", "crt"])
def test_a_method_that_trains_asks_for_nothing(method: Method) -> None:
    assert planned(method, texts=1000) == ()


def test_an_open_number_of_candidates_is_planned_at_its_most() -> None:
    first, *_ = planned(asking("maple", candidates=None))
    assert first.calls == 2000 // 4


def test_an_open_number_of_candidates_follows_the_dp_record_count() -> None:
    first, *_ = planned(asking("maple", candidates=None), record_count=600.0)
    assert first.calls == int(0.125 * 600) // 4


def test_cost_follows_the_prices_and_is_unknown_without() -> None:
    price = {"my-model": {"input": 1.0, "output": 10.0, "date": "2026-11-01"}}
    priced = params(generator__openai__prices=price).generator.openai
    one = estimate(planned("maple"), priced)
    prompt = sum(line.prompt_tokens for line in one.lines)
    completion = sum(line.completion_tokens for line in one.lines)
    assert one.cost == pytest.approx((prompt + 10 * completion) / 1e6)
    assert one.most_cost is not None
    assert one.most_cost > one.cost
    assert estimate(planned("maple"), ENDPOINT).cost is None


def test_prompts_after_the_first_of_each_example_set_have_the_cached_price() -> None:
    def cost(**cached: float) -> float:
        price = {"my-model": {"input": 1.0, "output": 0.0, "date": "2026-11-01"} | cached}
        priced = params(generator__openai__prices=price).generator.openai
        forecast = estimate(planned("mosaic"), priced)
        line = forecast.lines[0]
        prompt = line.prompt_tokens / line.calls
        shared = line.cached_prompt_tokens / (line.calls - EXAMPLE_SETS)
        assert 0.8 * prompt < shared < prompt
        assert forecast.cost is not None
        return forecast.cost

    full, cheap = cost(), cost(cached=0.1)
    assert 0.1 * full < cheap < full


@pytest.mark.parametrize("name", ["maple", "mosaic", "public"])
def test_the_greatest_length_that_may_be_asked_for_is_counted(name: str) -> None:
    length = FirstLength(words=80, attribute="size", words_by_value={"small": 20, "large": 900})
    batches = planned(name, donated=(), length=length, texts=1000)
    assert {batch.request.words for batch in batches} == {900}


def test_the_first_prompts_hold_the_longest_examples_and_so_are_not_underestimated() -> None:
    without = planned("maple", donated=DONATED[:1])
    shown = sum(len(text) for text in sorted(DONATED, key=len)[-10:])
    more = estimate(planned("maple"), ENDPOINT).lines[0]
    less = estimate(without, ENDPOINT).lines[0]
    assert (more.prompt_tokens - less.prompt_tokens) / more.calls > 0.2 * shown


def test_the_rate_limits_set_the_least_time() -> None:
    slow = params(generator__openai__requests_per_minute=10).generator.openai
    one = estimate(planned("maple"), slow)
    assert one.minutes == pytest.approx(one.calls / 10)
