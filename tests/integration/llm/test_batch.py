"""Tests of `mode: batch` with a server that supports the Batch API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sugarbush.errors import GeneratorError
from sugarbush.generators.interface import Problem
from sugarbush.generators.openai.cost import journal_path, read_journal
from tests.integration.llm.conftest import Bench, wishes
from tests.integration.llm.server import (
    Batches,
    Body,
    Reply,
    always_good,
    completion,
    failure,
    good_text,
)

Start = Callable[..., Bench]


def test_answers_that_come_back_in_another_order_find_their_requests(bench: Start) -> None:
    run = bench()
    answers = run.generator(mode="batch").generate(wishes(50)).value
    assert [body["seed"] for body in run.server.asked] != sorted(
        body["seed"] for body in run.server.asked
    )
    by_seed = {body["seed"]: good_text(body) for body in run.server.asked}
    again = run.generator(mode="direct").generate(wishes(50)).value
    assert {a.text for a in answers} == set(by_seed.values())
    assert [a.text for a in answers] == [a.text for a in again]
    assert len(run.server.asked) == 50
    assert len(read_journal(journal_path(run.state, "tickets"))) == 50


def test_direct_calls_and_batches_share_their_answers(bench: Start) -> None:
    run = bench()
    direct = run.generator().generate(wishes(10)).value
    batch = run.generator(mode="batch").generate(wishes(20)).value
    assert [a.text for a in batch[:10]] == [a.text for a in direct]
    assert len(run.server.asked) == 20


def test_a_call_that_met_a_fault_goes_into_one_more_batch_and_a_refused_one_does_not(
    bench: Start,
) -> None:
    def some_fail(number: int, body: Body) -> Reply:
        if number in {3, 4}:
            return failure(500, "oops")
        return failure(400, "no") if number == 5 else always_good(number, body)

    run = bench(behave=some_fail)
    answers = run.generator(mode="batch").generate(wishes(20)).value
    assert [a.problem for a in answers if a.text is None] == [Problem.FAILED]
    assert len(run.server.batches.jobs) == 2
    assert len(run.server.asked) == 22
    assert "status 400" in run.said[-1] or "status 400" in run.said[1]


def test_an_unusable_answer_is_asked_for_again_in_the_next_batch(bench: Start) -> None:
    run = bench(behave=lambda n, body: completion("" if n == 2 else good_text(body)))
    answers = run.generator(mode="batch").generate(wishes(10)).value
    assert all(a.text for a in answers)
    assert len(run.server.batches.jobs) == 2
    assert len(run.server.asked) == 11


def test_an_expired_batch_keeps_what_it_has_and_asks_for_the_rest(bench: Start) -> None:
    run = bench(batches=Batches(ending="expired", limit=15))
    answers = run.generator(mode="batch").generate(wishes(20)).value
    assert all(a.text for a in answers)
    assert len(run.server.batches.jobs) == 2
    assert len(run.server.answered) == 20


def test_a_batch_that_is_refused_ends_the_run_and_leaves_no_debt(bench: Start) -> None:
    run = bench(batches=Batches(ending="failed", limit=0))
    with pytest.raises(GeneratorError, match="batch-0 was refused"):
        run.generator(mode="batch").generate(wishes(20))
    assert len(run.server.batches.jobs) == 1
    run.server.batches.ending, run.server.batches.limit = "completed", None
    assert all(a.text for a in run.generator(mode="batch").generate(wishes(20)).value)


def test_a_batch_whose_making_was_never_confirmed_is_found_by_its_name(bench: Start) -> None:
    """The server creates the batch, but the response of the server is lost."""
    run = bench()
    made = run.server.batches.reply

    def lost(server: object, method: str, path: str, headers: object, content: bytes) -> Reply:
        reply = made(server, method, path, headers, content)  # type: ignore[arg-type]
        if (method, path) == ("POST", "/v1/batches"):
            return Reply(content=reply.content, dropped=True)
        return reply

    run.server.batches.reply = lost  # type: ignore[method-assign,assignment]
    with pytest.raises(GeneratorError, match="Run again"):
        run.generator(mode="batch").generate(wishes(20))
    answers = run.generator(mode="batch").generate(wishes(20)).value
    assert all(a.text for a in answers)
    assert len(run.server.batches.jobs) == 1
    assert len(run.server.asked) == 20


def test_a_batch_is_gone_on_with_where_the_endpoint_lists_none(bench: Start) -> None:
    run = bench()
    answered = run.server.batches.reply

    def without_list(*given: Any) -> Reply:
        _, method, path, *_ = given
        listing = method == "GET" and path.partition("?")[0] == "/v1/batches"
        return failure(404, "no list") if listing else answered(*given)

    run.server.batches.reply = without_list  # type: ignore[method-assign]
    generator = run.generator(mode="batch")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(generator, "_say", _interrupt)
        generator.generate(wishes(20))
    assert all(a.text for a in run.generator(mode="batch").generate(wishes(20)).value)
    assert len(run.server.batches.jobs) == 1


def _interrupt(line: str) -> None:
    raise KeyboardInterrupt


def test_a_batch_that_was_never_made_is_submitted_by_the_next_run(bench: Start) -> None:
    run = bench()
    run.server.batches.create = failure(500, "no batches today")
    with pytest.raises(GeneratorError, match="could not be submitted"):
        run.generator(mode="batch").generate(wishes(20))
    run.server.batches.create = None
    assert all(a.text for a in run.generator(mode="batch").generate(wishes(20)).value)
    assert len(run.server.batches.jobs) == 1
    assert not list((run.state / "batches").glob("*.json"))


def test_an_earlier_batch_is_kept_whole_though_fewer_answers_are_wanted_now(bench: Start) -> None:
    run = bench()
    run.server.batches.polls = 10**9
    generator = run.generator(mode="batch")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(generator, "_say", _interrupt)
        generator.generate(wishes(20))
    run.server.batches.polls = 1
    run.generator(mode="batch").generate(wishes(5))
    assert len(run.server.batches.jobs) == 1
    answers = run.generator(mode="batch").generate(wishes(20)).value
    assert all(a.cached for a in answers)
    assert len(run.server.asked) == 20


def test_a_poll_that_fails_is_asked_again(bench: Start) -> None:
    run = bench(batches=Batches(polls=3))
    answered, failed = run.server.batches.reply, []

    def shaky(server: object, method: str, path: str, headers: object, content: bytes) -> Reply:
        if method == "GET" and path not in failed:
            failed.append(path)
            return failure(503, "busy", retry_after_ms="1")
        return answered(server, method, path, headers, content)  # type: ignore[arg-type]

    run.server.batches.reply = shaky  # type: ignore[method-assign,assignment]
    assert all(a.text for a in run.generator(mode="batch").generate(wishes(10)).value)
    assert [path.split("/")[2] for path in failed] == ["batches", "files"]
    assert len(run.server.batches.jobs) == 1


def test_caps_hold_for_batches_too(bench: Start) -> None:
    run = bench()
    with pytest.raises(GeneratorError, match=r"max_calls=12 is reached"):
        run.generator(mode="batch", max_calls=12).generate(wishes(20))
    assert len(run.server.answered) == 12
    answers = run.generator(mode="batch", max_calls=20).generate(wishes(20)).value
    assert all(a.text for a in answers)
    assert len(run.server.answered) == 20


def test_a_batch_asks_what_a_direct_call_asks(bench: Start) -> None:
    run = bench()
    run.generator(mode="batch").generate(wishes(1))
    (uploaded,) = [
        json.loads(content) for name, content in run.server.batches.files.items()
        if name.startswith("file-")
    ]  # fmt: skip
    other = bench()
    other.state = run.state / "other"
    other.generator().generate(wishes(1))
    assert uploaded["body"] == other.server.asked[0]
    assert (uploaded["method"], uploaded["url"]) == ("POST", "/v1/chat/completions")


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029", "\x0b", "\r"], ids=ascii)
def test_a_paid_batch_answer_with_a_line_separator_is_received(bench: Start, end: str) -> None:
    run = bench(
        behave=lambda n, body: completion(good_text(body).replace(", ", f",{end}")),
        batches=Batches(ascii=False),
    )
    answers = run.generator(mode="batch").generate(wishes(10)).value
    assert all(end in (answer.text or "") for answer in answers)
    assert len(run.server.asked) == 10
    assert not [line for line in run.said if "got no" in line]
