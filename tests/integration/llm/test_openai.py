"""Tests of the `openai` provider with a real HTTP server and many kinds of failures."""

from __future__ import annotations

import json
import logging
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sugarbush.errors import GeneratorError, ParamsError, PrivacyError, StorageError
from sugarbush.generators.answer_cache import AnswerCache, Completion
from sugarbush.generators.interface import Problem, RandomRequest, VariationRequest, usage_of
from sugarbush.generators.openai.cost import journal_path, read_journal, spending_by_batch
from sugarbush.privacy.data_types import Private, Released
from tests.integration.llm.conftest import Bench, wishes
from tests.integration.llm.server import (
    KEY,
    Body,
    Reply,
    always_good,
    completion,
    dropped,
    failure,
    faulty,
    good_text,
    malformed,
    no_choices,
)

Start = Callable[..., Bench]


# A bare request, many short examples, one long example, another script, and a variation
PLANNED = [
    RandomRequest(subject="customer-service tickets", words=40),
    RandomRequest(subject="letters", examples=("A lamp.",) * 30),
    RandomRequest(subject="letters", examples=("A lamp came broken. " * 80,)),
    RandomRequest(subject="手紙", language="ja", examples=("ランプが壊れています。" * 20,) * 3),
    VariationRequest(subject="letters", parent="My lamp came broken. " * 30, mask_share=0.3),
]
LONG = Released((RandomRequest(subject="x", examples=("A lamp came broken. " * 20,) * 10),))


def of_context(tokens: int) -> Callable[[int, Body], Reply]:
    """Return an endpoint that refuses requests above a context of `tokens`.

    The length of a request is one token per three bytes of the prompt, plus `max_tokens`.
    """

    def behave(number: int, body: Body) -> Reply:
        asked = len(body["messages"][0]["content"]) // 3 + body["max_tokens"]
        said = f"This model's maximum context length is {tokens} tokens, you requested {asked}"
        return failure(400, said) if asked > tokens else always_good(number, body)

    return behave


def first_then_good(*replies: Reply) -> Callable[[int, Body], Reply]:
    return lambda number, body: replies[number] if number < len(replies) else always_good(0, body)


def asked_twice(bodies: list[Body]) -> list[Body]:
    """Return the request bodies that were received more than once."""
    counts = Counter(json.dumps(body, sort_keys=True) for body in bodies)
    return [json.loads(body) for body, count in counts.items() if count > 1]


def seed_that_is(remainder: int, body: Body, *, of: int = 10) -> bool:
    return bool(body["seed"] % of == remainder)


def test_answers_come_in_the_order_of_the_requests_and_carry_their_ledger_ids(
    bench: Start,
) -> None:
    def slower_first(number: int, body: Body) -> Reply:
        return completion(good_text(body), delay_s=0.05 if number < 4 else 0.0)

    run = bench(behave=slower_first)
    got = run.generator(concurrency=4).generate(wishes(12))
    again = run.generator(concurrency=1).generate(wishes(12))
    assert got.ledger_ids == ("entry-1",)
    assert [a.text for a in got.value] == [a.text for a in again.value]
    assert len({a.text for a in got.value}) == 12
    assert len(run.server.asked) == 12


def test_equal_beginnings_follow_each_other_and_cached_tokens_are_counted(bench: Start) -> None:
    """The endpoint has a prefix cache of one prompt, as a server with one slot."""
    before = [""]

    def caching(number: int, body: Body) -> Reply:
        prompt = body["messages"][0]["content"]
        common = next(
            (i for i, (a, b) in enumerate(zip(before[0], prompt, strict=False)) if a != b), 0
        )
        before[0] = prompt
        usage = {
            "prompt_tokens": len(prompt),
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": common},
        }
        reply = json.loads(completion(good_text(body)).content) | {"usage": usage}
        return Reply(content=json.dumps(reply).encode(), good=True)

    sets = [("lamp " * 100,), ("chair " * 100,), ("table " * 100,)]
    requests = tuple(
        RandomRequest(subject="tickets", examples=sets[i % 3], words=10 + i, sample=i)
        for i in range(24)
    )
    run = bench(behave=caching)
    price = {"tiny": {"input": 1.0, "output": 0.0, "cached": 0.0, "date": "2026-11-01"}}
    answers = run.generator(concurrency=1, prices=price).generate(Released(requests)).value
    shuffled = bench(behave=always_good)
    plain = shuffled.generator(concurrency=8).generate(Released(requests[::-1])).value[::-1]
    assert [a.text for a in answers] == [a.text for a in plain], "each row has its own answer"
    usage = usage_of(answers)
    assert usage.prompt_tokens == sum(a.prompt_tokens for a in answers)
    assert usage.cached_prompt_tokens > 0.8 * 0.75 * usage.prompt_tokens
    (spent,) = spending_by_batch(read_journal(journal_path(run.state, "tickets")))
    assert spent.cached_prompt_tokens == usage.cached_prompt_tokens
    paid = usage.prompt_tokens - usage.cached_prompt_tokens
    assert spent.cost == pytest.approx(paid / 1e6)
    again = run.generator(concurrency=1).generate(Released(requests)).value
    assert usage_of(again).cached_calls == 24 and usage_of(again).cached_prompt_tokens == 0


@pytest.mark.parametrize("details", [None, 5, {}, {"cached_tokens": "many"}, {"cached_tokens": -3}])
def test_an_endpoint_without_counts_of_cached_tokens_counts_none(
    bench: Start, details: object
) -> None:
    reply = json.loads(completion("x").content)
    reply["usage"]["prompt_tokens_details"] = details
    reply["choices"][0]["message"]["content"] = "The lamp came late and the agent helped."
    content = json.dumps(reply).encode()
    run = bench(behave=lambda number, body: Reply(content=content, good=True))
    (answer,) = run.generator().generate(wishes(1)).value
    assert (answer.prompt_tokens, answer.cached_prompt_tokens) == (11, 0)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(failure(429, "slow down", retry_after_ms="1"), id="429"),
        pytest.param(failure(500, "oops", retry_after_ms="1"), id="500"),
        pytest.param(failure(503, "busy", retry_after="0"), id="503"),
        pytest.param(failure(408, "timeout", retry_after="0"), id="408"),
        pytest.param(dropped(), id="dropped"),
        pytest.param(malformed(), id="malformed"),
        pytest.param(no_choices(), id="no choices"),
        pytest.param(Reply(content=b"<html>a proxy's page</html>"), id="html"),
        pytest.param(Reply(content=b'{"choices": [{"index": 0}]}'), id="no message"),
        pytest.param(Reply(content=b"[]"), id="a list"),
        pytest.param(Reply(content=b'{"id": ' + b"1" * 5000 + b"}"), id="a huge number"),
        pytest.param(Reply(content=b"[" * 100_000), id="endless nesting"),
        pytest.param(completion("too late", delay_s=1.5), id="slow"),
    ],
)
def test_a_fault_that_may_pass_is_asked_again_and_answered(bench: Start, fault: Reply) -> None:
    run = bench(behave=first_then_good(fault))
    (answer,) = run.generator(timeout_s=1.0).generate(wishes(1)).value
    assert answer.text is not None
    assert len(run.server.asked) == 2


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_a_request_that_is_refused_is_asked_once_and_costs_no_other_answer(
    bench: Start, status: int
) -> None:
    def refuse_some(number: int, body: Body) -> Reply:
        bad = seed_that_is(3, body)
        return failure(status, "not this one") if bad else always_good(number, body)

    run = bench(behave=refuse_some)
    answers = run.generator().generate(wishes(60)).value
    failed = [a for a in answers if a.text is None]
    assert 0 < len(failed) < 20
    assert {a.problem for a in failed} == {Problem.FAILED}
    assert not asked_twice(run.server.asked)
    assert f"status {status}" in run.said[-1]
    run.server.behave = always_good
    answers = run.generator().generate(wishes(60)).value
    assert all(a.text for a in answers)
    assert len(run.server.asked) == 60 + len(failed)


def test_a_thousand_calls_with_a_tenth_of_faults_lose_nothing_and_ask_nothing_twice(
    bench: Start,
) -> None:
    run = bench(behave=faulty(0.1))
    answers = run.generator(concurrency=64).generate(wishes(1000)).value
    assert all(a.text for a in answers)
    assert len(run.server.asked) > 1100
    assert len(run.server.answered) == 1000
    assert not asked_twice(run.server.answered)
    again = run.generator().generate(wishes(1000)).value
    assert [a.text for a in again] == [a.text for a in answers]
    assert all(a.cached for a in again)
    assert len(run.server.answered) == 1000


def test_the_time_that_an_endpoint_names_is_waited_by_every_worker(bench: Start) -> None:
    run = bench(behave=first_then_good(failure(429, "slow down", retry_after_ms="400")))
    run.generator(concurrency=1).generate(wishes(1))
    first, second = run.server.times
    assert second - first >= 0.4
    # The delay is long, so that a busy machine reads the 429 before the second answer.
    late = completion("The parcel was found at the depot.", delay_s=1.5)
    run = bench(behave=first_then_good(failure(429, "slow down", retry_after="3"), late))
    run.generator(concurrency=2).generate(wishes(5, first=10))
    times = run.server.times
    assert all(t - times[0] >= 3 for t in times[2:])


def test_a_wait_beyond_the_deadline_is_not_begun(bench: Start) -> None:
    """Otherwise this test would take a day."""
    run = bench(behave=lambda number, body: failure(429, "tomorrow", retry_after="86400"))
    (answer,) = run.generator(timeout_s=1, concurrency=1).generate(wishes(1)).value
    assert answer.problem is Problem.FAILED
    assert len(run.server.asked) == 1


def test_concurrency_and_requests_per_minute_are_kept(bench: Start) -> None:
    run = bench(behave=lambda number, body: completion(good_text(body), delay_s=0.01))
    run.generator(concurrency=3).generate(wishes(30))
    assert run.server.most_under_way <= 3
    # The rate limit allows one request at once, and the next one after a day.
    assert asked_before_the_end(bench, requests_per_minute=1 / 1440) == 1


def test_tokens_per_minute_are_kept(bench: Start) -> None:
    # The rate limit allows 1,500 tokens at once (a full context and an answer), and this allowance
    # refills in days. A request takes more than 500 tokens.
    limits = {"tokens_per_minute": 0.1, "context_tokens": 1000, "max_tokens": 500}
    assert 1 <= asked_before_the_end(bench, **limits) <= 2


def asked_before_the_end(bench: Start, **limits: float) -> int:
    """Return how many of 12 requests were sent at once. The refused key then ends the run."""
    run = bench(behave=lambda number, body: replace(failure(401, "revoked"), delay_s=1.0))
    with pytest.raises(GeneratorError, match="refused the key"):
        run.generator(concurrency=16, **limits).generate(wishes(12))
    return len(run.server.asked)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (completion(None), Problem.EMPTY),
        (completion("   "), Problem.EMPTY),
        (completion(None, refusal="I can't help with that."), Problem.REFUSAL),
        (completion("The customer asked for", finish_reason="length"), Problem.TRUNCATED),
    ],
    ids=["null", "blank", "refusal", "length"],
)
def test_an_unusable_answer_is_asked_for_once_more_with_another_seed_and_then_dropped(
    bench: Start, reply: Reply, problem: Problem
) -> None:
    run = bench(behave=lambda number, body: reply)
    generator = run.generator()
    (answer,) = generator.generate(wishes(1)).value
    assert (answer.text, answer.problem) == (None, problem)
    assert (answer.prompt_tokens, answer.completion_tokens) == (22, 14)
    one, two = run.server.asked
    assert one["seed"] != two["seed"]
    assert one["messages"] == two["messages"]
    run.generator().generate(wishes(1))
    assert len(run.server.asked) == 2


def test_a_second_try_does_not_collide_with_another_sample(bench: Start) -> None:
    run = bench(behave=lambda number, body: completion("" if number % 2 else good_text(body)))
    run.generator(concurrency=1).generate(wishes(50))
    assert not asked_twice(run.server.asked)
    assert len({body["seed"] for body in run.server.asked}) == len(run.server.asked)


def test_a_mended_answer_is_the_second_one(bench: Start) -> None:
    run = bench(behave=first_then_good(completion("")))
    (answer,) = run.generator().generate(wishes(1)).value
    assert answer.problem is None
    assert answer.text == good_text(run.server.asked[1])
    assert answer.prompt_tokens == 22


def test_equal_requests_are_asked_once(bench: Start) -> None:
    run = bench()
    one = wishes(1).value
    answers = run.generator().generate(Released(one * 3)).value
    assert len(run.server.asked) == 1
    assert len({a.text for a in answers}) == 1
    assert [a.cached for a in answers] == [False, True, True]


def test_a_refused_key_ends_the_run_at_once_and_is_never_shown(
    bench: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    run = bench()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-secret")
    generator = run.generator(concurrency=4)
    with pytest.raises(GeneratorError, match="OPENAI_API_KEY") as caught:
        generator.generate(wishes(500))
    assert run.server.asked == []
    shown = "".join(traceback.format_exception(caught.value)) + repr(generator) + caplog.text
    assert "sk-wrong" not in shown + str(vars(generator)) + "".join(run.said)
    assert b"sk-wrong" not in run.left_on_disk()


def test_the_key_is_sent_and_written_nowhere(
    bench: Start, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    run = bench(behave=lambda n, body: always_good(n, body) if n % 3 else failure(400, KEY))
    run.generator().generate(wishes(20))
    assert KEY.encode() in run.server.raw
    assert KEY.encode() not in run.left_on_disk()
    out, err = capfd.readouterr()
    assert KEY not in caplog.text + out + err + "".join(run.said)


def test_no_request_and_no_progress_line_holds_what_the_disk_keeps(
    bench: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    run = bench(behave=lambda n, body: completion("The canary sang at the window all day."))
    run.generator().generate(wishes(5))
    assert run.server.answered[0]["messages"]
    prompt = run.server.answered[0]["messages"][-1]["content"]
    assert prompt[:40].encode() not in run.left_on_disk()
    out, err = capfd.readouterr()
    assert "canary" not in out + err + "".join(run.said)


@pytest.mark.parametrize("wrong", ["private", "bare", "strings"])
def test_only_released_requests_are_sent(bench: Start, wrong: str) -> None:
    run = bench()
    requests = wishes(3).value
    given = {
        "private": Private(requests),
        "bare": requests,
        "strings": Released(("write me a ticket",)),
    }[wrong]
    with pytest.raises(PrivacyError, match="Nothing was sent"):
        run.generator().generate(given)  # type: ignore[arg-type]
    assert not run.server.raw


def test_a_redirect_to_another_address_is_not_followed(bench: Start) -> None:
    other = bench()
    elsewhere = f"{other.server.base_url}/chat/completions"
    run = bench(behave=lambda n, body: Reply(status=307, headers={"location": elsewhere}))
    answers = run.generator(max_retries=0).generate(wishes(2)).value
    assert all(a.problem is Problem.FAILED for a in answers)
    assert not other.server.raw


def test_a_run_that_ends_waits_for_no_rate_limit_and_no_backoff(bench: Start) -> None:
    """Either wait would take hours."""

    def key_revoked(number: int, body: Body) -> Reply:
        busy = failure(503, "busy", retry_after="86400")
        return [always_good(number, body), busy, failure(401, "revoked")][min(number, 2)]

    run = bench(behave=key_revoked)
    # The rate limit allows ten requests, of more than 500 tokens each, and the next after days.
    limits = {"tokens_per_minute": 0.1, "context_tokens": 5000, "max_tokens": 500}
    with pytest.raises(GeneratorError, match="refused the key"):
        run.generator(**limits, concurrency=16).generate(wishes(50))
    assert 3 <= len(run.server.asked) <= 10


def test_max_calls_stops_cleanly_and_the_next_run_goes_on(bench: Start) -> None:
    run = bench(behave=lambda number, body: completion(good_text(body), delay_s=0.005))
    with pytest.raises(GeneratorError, match=r"max_calls=70 is reached.*Raise the cap"):
        run.generator(max_calls=70, concurrency=16).generate(wishes(100))
    assert len(run.server.answered) == 70
    with pytest.raises(GeneratorError, match="max_calls=70"):
        run.generator(max_calls=70).generate(wishes(100))
    assert len(run.server.asked) == 70
    answers = run.generator(max_calls=100).generate(wishes(100)).value
    assert all(a.text for a in answers)
    assert len(run.server.answered) == 100
    assert not asked_twice(run.server.answered)


def test_max_cost_stops_cleanly_before_it_is_passed(bench: Start) -> None:
    price = {"tiny": {"input": 1000.0, "output": 10000.0, "date": "2026-11-01"}}
    each = (11 * 1000 + 7 * 10000) / 1e6
    run = bench(behave=lambda number, body: completion(good_text(body), delay_s=0.002))
    with pytest.raises(GeneratorError, match=r"max_cost=10 is reached"):
        run.generator(prices=price, max_cost=10, max_tokens=20).generate(wishes(200))
    paid = read_journal(journal_path(run.state, "tickets"))
    assert sum(p.cost or 0 for p in paid) == pytest.approx(each * len(paid))
    # The largest cost of one more call: a prompt of about a thousand bytes, and 20 tokens.
    worst = each + 2
    assert 10 - worst < each * len(paid) <= 10
    assert len(run.server.answered) == len(paid)


def test_runs_at_once_take_turns_and_pay_once_for_what_both_want(bench: Start) -> None:
    run = bench(behave=lambda n, body: completion(good_text(body), delay_s=0.02))

    def ask(first: int) -> list[str | None]:
        answers = run.generator(concurrency=8).generate(wishes(60, first=first)).value
        return [answer.text for answer in answers]

    with ThreadPoolExecutor(3) as pool:
        one, two, three = pool.map(ask, (0, 30, 0))
    assert one == three
    assert one[30:] == two[:30]
    assert len(run.server.asked) == 90
    assert run.server.most_under_way <= 8
    assert any("another run on 'tickets'" in line for line in run.said)


def test_a_cap_holds_for_runs_at_once(bench: Start) -> None:
    run = bench(behave=lambda n, body: completion(good_text(body), delay_s=0.02))

    def ask(first: int) -> None:
        with pytest.raises(GeneratorError, match="max_calls=50"):
            run.generator(concurrency=8, max_calls=50).generate(wishes(60, first=first))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(ask, (0, 100, 200)))
    assert len(run.server.asked) == 50


def test_what_was_paid_is_written_down_by_stage_and_batch(bench: Start) -> None:
    run = bench()
    generator = run.generator()
    batches = {"round 1": wishes(3), "round 2": wishes(5)}
    one, two = (usage_of(generator.generate(r, what=w).value) for w, r in batches.items())
    paid = read_journal(journal_path(run.state, "tickets"))
    assert [(p.stage, p.what, p.prompt_tokens) for p in paid] == [
        *[("evolve", "round 1", 11)] * 3,
        *[("evolve", "round 2", 11)] * 2,
    ]
    assert (one.calls, one.cached_calls, two.calls, two.cached_calls) == (3, 0, 2, 3)


def test_an_endpoint_that_went_away_ends_the_run_and_nothing_received_is_lost(
    bench: Start,
) -> None:
    def goes_away(number: int, body: Body) -> Reply:
        return always_good(number, body) if number < 30 else failure(500, "gone")

    run = bench(behave=goes_away)
    with pytest.raises(GeneratorError, match=r"failed in a row.*Run again"):
        run.generator(max_retries=0, concurrency=4).generate(wishes(300))
    assert len(run.server.asked) < 60
    run.server.behave = always_good
    answers = run.generator().generate(wishes(300)).value
    assert all(a.text for a in answers)
    assert len(run.server.answered) == 300


def test_a_used_up_quota_ends_the_run_though_it_is_a_429(bench: Start) -> None:
    gone = failure(429, "You exceeded your current quota", code="insufficient_quota")
    run = bench(behave=lambda number, body: gone)
    with pytest.raises(GeneratorError, match="quota"):
        run.generator(concurrency=2).generate(wishes(50))
    assert len(run.server.asked) <= 2


def test_a_prompt_that_is_too_long_for_the_settings_is_not_asked_for_and_costs_no_other(
    bench: Start,
) -> None:
    run = bench()
    long = VariationRequest(subject="tickets", parent="word " * 20000, mask_share=0.5, sample=1)
    answers = run.generator().generate(Released((*wishes(3).value, long))).value
    assert [a.problem for a in answers] == [None, None, None, Problem.FAILED]
    assert len(run.server.asked) == 3
    assert "1 not requested" in run.said[-1]
    with pytest.raises(GeneratorError, match="max_tokens"):
        run.generator().generate(Released((long,)))


def test_a_prompt_that_is_too_long_for_the_model_is_told_as_such(bench: Start) -> None:
    long = failure(400, "maximum length is 512 tokens", code="context_length_exceeded")
    run = bench(behave=lambda number, body: long)
    run.generator().generate(wishes(3))
    assert "generator.openai.context_tokens" in run.said[-1]


def test_optional_fields_are_sent_only_where_set(bench: Start) -> None:
    run = bench()
    run.generator().generate(wishes(1))
    run.generator(
        temperature=None, send_seed=False, token_limit="max_completion_tokens",
        reasoning_effort="low",
    ).generate(wishes(1))  # fmt: skip
    one, two = run.server.asked
    assert one.keys() == {"model", "messages", "temperature", "top_p", "max_tokens", "seed"}
    assert two.keys() == {"model", "messages", "max_completion_tokens", "reasoning_effort"}


def test_a_model_that_thinks_aloud_is_taken_at_its_word(bench: Start) -> None:
    said = "The lamp came broken and nobody at the shop answers the phone."
    run = bench(behave=lambda n, body: completion(f"The user wants a text.\n</think>\n\n{said}"))
    (answer,) = run.generator().generate(wishes(1)).value
    assert answer.text == said


@pytest.mark.parametrize("kind", ["text/plain", "text/html", "application/json; charset=utf-8"])
def test_an_answer_is_read_whatever_type_the_endpoint_declares(bench: Start, kind: str) -> None:
    def behave(number: int, body: Body) -> Reply:
        return replace(always_good(number, body), headers={"content-type": kind})

    (answer,) = bench(behave=behave).generator().generate(wishes(1)).value
    assert answer.text is not None


def test_half_a_character_is_dropped_and_costs_no_other_answer(bench: Start) -> None:
    half = completion("x").content.replace(b'"x"', b'"The lamp came \\ud83d broken."')
    run = bench(
        behave=lambda n, body: (
            Reply(content=half) if body["seed"] % 5 == 0 else always_good(n, body)
        )
    )
    answers = run.generator(concurrency=1).generate(wishes(30)).value
    assert all((a.text or "").isprintable() for a in answers)
    assert {a.problem for a in answers} <= {None, Problem.NOT_TEXT}
    assert len(run.server.asked) > 30


def test_examples_that_the_context_has_no_room_for_are_told(bench: Start) -> None:
    run = bench()
    examples = ("A lamp came broken. " * 200, "A chair came late.")
    request = RandomRequest(subject="tickets", examples=examples, sample=1)
    run.generator(context_tokens=1000).generate(Released((request,)), what="first texts")
    assert run.said == [
        "first texts: 1 of 2 example texts were left out, because "
        "generator.openai.context_tokens=1000 has no room"
    ]
    assert "chair" in str(run.server.asked[0]["messages"])


def test_a_fault_of_ours_loses_no_answer_that_is_under_way(
    bench: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bench(behave=lambda n, body: completion(good_text(body), delay_s=0.3 if n else 0.0))
    kept = AnswerCache.put

    def fails_once(cache: AnswerCache, key: str, answer: Completion) -> None:
        monkeypatch.setattr(AnswerCache, "put", kept)
        raise ZeroDivisionError

    monkeypatch.setattr(AnswerCache, "put", fails_once)
    with pytest.raises(ZeroDivisionError):
        run.generator(concurrency=8).generate(wishes(40))
    assert len(run.server.answered) == 8
    run.generator().generate(wishes(40))
    assert len(run.server.asked) == 41


def test_a_journal_that_cannot_be_kept_ends_the_run(bench: Start) -> None:
    run = bench()
    journal_path(run.state, "tickets").mkdir(parents=True)
    with pytest.raises(StorageError, match="tickets"):
        run.generator().generate(wishes(3))


class TestCheck:
    """Tests of the probe that `check` makes before a run."""

    def test_passes_for_a_few_tokens_when_all_is_well(self, bench: Start) -> None:
        run = bench()
        run.generator(max_tokens=300).check()
        (body,) = run.server.asked
        assert body["max_tokens"] <= 16
        assert [p.what for p in read_journal(journal_path(run.state, "tickets"))] == ["check"]

    def test_tells_of_a_missing_key(self, bench: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        run = bench()
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(ParamsError, match=r"OPENAI_API_KEY.*key_variable"):
            run.generator().check()
        assert not run.server.raw

    def test_tells_of_a_key_with_a_line_end_inside(
        self, bench: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\nrest")
        with pytest.raises(ParamsError, match="no key has") as caught:
            bench().generator().check()
        assert "sk-secret" not in str(caught.value)

    def test_needs_no_key_where_none_is_asked_for(self, bench: Start) -> None:
        bench(key=None).generator(key_variable=None).check()

    def test_tells_of_a_refused_key(self, bench: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-secret")
        with pytest.raises(GeneratorError, match="refused the key") as caught:
            bench().generator().check()
        assert "sk-wrong" not in "".join(traceback.format_exception(caught.value))

    def test_tells_of_an_unknown_model_and_names_others(self, bench: Start) -> None:
        unknown = failure(404, "The model 'tinny' does not exist", code="model_not_found")
        run = bench(behave=lambda n, body: unknown)
        with pytest.raises(GeneratorError, match=r"tinny.*generator.openai.model.*\"tiny\""):
            run.generator(model="tinny").check()

    def test_believes_the_answer_rather_than_the_list_of_models(self, bench: Start) -> None:
        bench().generator(model="an-alias").check()
        for models in (failure(500, "no list"), malformed(), Reply(content=b'{"data": null}')):
            bench(models=models).generator().check()

    def test_tells_of_an_unreachable_host(self, bench: Start) -> None:
        run = bench()
        with pytest.raises(GeneratorError, match=r"127.0.0.1:9/v1.*cannot be reached"):
            run.generator(base_url="http://127.0.0.1:9/v1").check()

    def test_tells_of_a_name_that_does_not_resolve(self, bench: Start) -> None:
        with pytest.raises(GeneratorError, match=r"nowhere.invalid.*cannot be reached"):
            bench().generator(base_url="http://nowhere.invalid/v1").check()

    @pytest.mark.parametrize("path", ["", "/v2", "/v1/chat"])
    def test_tells_of_a_wrong_path(self, bench: Start, path: str) -> None:
        run = bench()
        base_url = run.server.base_url.removesuffix("/v1") + path
        with pytest.raises(GeneratorError, match=r"base_url.*/v1"):
            run.generator(base_url=base_url).check()

    def test_tells_of_a_page_that_is_no_api(self, bench: Start) -> None:
        page = Reply(content=b"<html>hello</html>")
        run = bench(models=page, behave=lambda n, body: page)
        with pytest.raises(GeneratorError, match=r"is not a chat completion.*/v1"):
            run.generator().check()

    def test_tells_of_a_context_that_is_smaller_than_the_setting(self, bench: Start) -> None:
        listed = {"object": "list", "data": [{"id": "tiny", "max_model_len": 2048}]}
        run = bench(models=Reply(content=json.dumps(listed).encode()))
        with pytest.raises(ParamsError, match=r"context_tokens=8192.*2048"):
            run.generator().check()
        run.generator(context_tokens=2048).check()

    def test_tells_of_a_context_that_llama_cpp_states(self, bench: Start) -> None:
        """The list of its server nests the length of one slot (xllamacpp 2026.10)."""
        meta = {"vocab_type": 1, "n_ctx": 256, "n_ctx_train": 2048}
        listed = {"object": "list", "data": [{"id": "tiny", "meta": meta}]}
        run = bench(models=Reply(content=json.dumps(listed).encode()))
        with pytest.raises(ParamsError, match=r"context_tokens=8192.*256"):
            run.generator().check()
        run.generator(context_tokens=256, max_tokens=64).check()

    @pytest.mark.parametrize("length", [0, -1, True, "8192", None])
    def test_a_length_that_is_no_number_of_tokens_is_unknown(
        self, bench: Start, length: object
    ) -> None:
        listed = {"data": [{"id": "tiny", "max_model_len": length, "meta": {"n_ctx": length}}]}
        run = bench(models=Reply(content=json.dumps(listed).encode()))
        run.generator().check(LONG)
        assert len(str(run.server.asked[0]["messages"])) > 100  # the call measures the context

    def test_tells_of_a_context_that_no_list_states(self, bench: Start) -> None:
        run = bench(behave=of_context(1024))
        with pytest.raises(GeneratorError, match=r"smaller context.*context_tokens=8192"):
            run.generator().check(LONG)
        assert not run.server.answered
        run.generator(context_tokens=1024).check(LONG)
        assert len(run.server.answered) == 1

    def test_a_context_that_is_stated_is_not_paid_for(self, bench: Start) -> None:
        listed = {"object": "list", "data": [{"id": "tiny", "max_model_len": 8192}]}
        run = bench(models=Reply(content=json.dumps(listed).encode()))
        run.generator().check(LONG)
        assert len(str(run.server.asked[0]["messages"])) < 100

    @pytest.mark.parametrize("context_tokens", [1024, 8192, 100_000])
    @pytest.mark.parametrize("planned", [*PLANNED, PLANNED], ids=str)
    def test_costs_no_more_than_the_longest_planned_prompt(
        self, bench: Start, planned: object, context_tokens: int
    ) -> None:
        requests = tuple(planned) if isinstance(planned, list) else (planned,)
        run = bench()
        run.generator(context_tokens=context_tokens).check(Released(requests))
        (probe,) = run.server.asked
        run.generator(context_tokens=context_tokens).generate(Released(requests))
        sent, *prompts = (len(body["messages"][0]["content"].encode()) for body in run.server.asked)
        assert sent <= max(prompts)
        assert probe["max_tokens"] <= run.server.asked[1]["max_tokens"]
        # As long as a prompt of the run, so that a context that is too small is found.
        assert sent >= 0.9 * max(prompts)

    def test_says_that_a_prompt_may_have_been_cut(self, bench: Start) -> None:
        run = bench()  # reports 11 tokens for every prompt
        run.generator().check(LONG)
        assert "11 tokens" in run.said[0]
        assert "num_ctx" in run.said[0]

    def test_is_admitted_at_the_most_that_it_can_cost(self, bench: Start) -> None:
        prices = {"tiny": {"input": 1.0, "output": 1.0, "date": "2026-11-01"}}
        run = bench()
        with pytest.raises(GeneratorError, match="max_cost"):
            run.generator(prices=prices, max_cost=0.003).check(LONG)
        assert not run.server.raw
        run.generator(prices=prices, max_cost=0.02).check(LONG)

    def test_tells_of_an_endpoint_without_batches(self, bench: Start) -> None:
        run = bench(has_batches=False)
        with pytest.raises(ParamsError, match=r"mode=batch.*mode: direct"):
            run.generator(mode="batch").check()
        assert not run.server.asked
        bench().generator(mode="batch").check()

    def test_tells_where_an_endpoint_sends_its_callers(self, bench: Start) -> None:
        elsewhere = Reply(status=308, headers={"location": "https://new.example/v1/chat"})
        run = bench(behave=lambda n, body: elsewhere)
        with pytest.raises(
            GeneratorError, match=r"redirects to https://new.example/v1/chat.*base_url"
        ):
            run.generator().check()

    def test_tells_of_a_field_that_is_refused(self, bench: Start) -> None:
        refused = failure(400, "Unsupported parameter: 'max_tokens'")
        run = bench(behave=lambda n, body: refused)
        with pytest.raises(GeneratorError, match=r"max_completion_tokens.*Unsupported parameter"):
            run.generator().check()

    def test_tells_of_a_cap_that_is_reached_and_asks_nothing(self, bench: Start) -> None:
        run = bench()
        run.generator(max_calls=1).check()
        with pytest.raises(GeneratorError, match="max_calls=1"):
            run.generator(max_calls=1).check()
        assert len(run.server.asked) == 1


def test_a_variation_is_sent_with_its_parent(bench: Start) -> None:
    run = bench()
    parent = "My parcel has not come and nobody answers the phone at the depot."
    request = VariationRequest(subject="tickets", parent=parent, mask_share=0.5, words=15, sample=1)
    run.generator().generate(Released((request,)))
    sent = " ".join(m["content"] for m in run.server.asked[0]["messages"])
    assert "parcel" in sent


def test_the_state_folder_is_closed_to_others(bench: Start) -> None:
    run = bench()
    run.generator().generate(wishes(1))
    run.server.batches.create = failure(500, "no")
    with pytest.raises(GeneratorError):
        run.generator(mode="batch").generate(wishes(2))
    modes = {path.name: path.stat().st_mode & 0o077 for path in Path(run.state).iterdir()}
    assert modes == {"answers": 0, "usage": 0, "batches": 0}
    assert run.state.stat().st_mode & 0o077 == 0
