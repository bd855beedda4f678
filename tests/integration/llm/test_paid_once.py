"""Tests that equal calls are paid for once, and that the caps of an account limit all its calls.

The calls come from threads, labellers, generators, batches and processes that share the account.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sugarbush.errors import GeneratorError
from sugarbush.generators.answer_cache import AnswerCache
from sugarbush.generators.openai import cost
from sugarbush.generators.openai.cost import journal_path, read_journal
from tests.integration.llm.conftest import ROOT, Bench, wishes
from tests.integration.llm.server import KEY, Body, Reply, completion, good_text
from tests.integration.llm.test_extraction import CODES, TEXTS, labeller, labels_of, question

Start = Callable[..., Bench]
ANSWER = '{"item": "lamp", "mood": "calm"}'


def slow(number: int, body: Body) -> Reply:
    return completion(labels_of(body), delay_s=0.02)


def slow_text(number: int, body: Body) -> Reply:
    return completion(good_text(body), delay_s=0.02)


def own_texts(run: int, count: int = 12) -> list[str]:
    return [f"The lamp of order {run}-{i} is fine, I am calm." for i in range(count)]


def paid(run: Bench) -> int:
    return len(read_journal(journal_path(run.state, "tickets")))


def in_processes(run: Bench, payers: list[dict[str, Any]]) -> list[str]:
    """Run a process per payer, all at the same time. Return what each process printed last."""
    environment = os.environ | {"OPENAI_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    shared = {"base_url": run.server.base_url, "state": str(run.state)}
    crew = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.llm.run_payer", json.dumps(shared | fields)],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for fields in payers
    ]  # fmt: skip
    for process in crew:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in crew:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[0].strip() for process in crew]


# --- equal calls


def test_labels_of_equal_texts_are_paid_once(bench: Start) -> None:
    run = bench(behave=slow)
    assert labeller(run).codes([TEXTS[0]] * 8).tolist() == [CODES[0]] * 8
    assert sum("canary-1" in question(body) for body in run.server.asked) == 1
    assert paid(run) == 2  # one of the two calls is the harmless probe


def test_texts_that_differ_beyond_the_room_only_are_paid_once(bench: Start) -> None:
    run = bench(behave=slow)
    texts = [f"The lamp is broken. {'word ' * 5000}{i}" for i in range(4)]
    labeller(run, context_tokens=1024).codes(texts)
    assert len(run.server.asked) == 2


def test_an_equal_text_waits_for_the_second_try_too(bench: Start) -> None:
    def behave(number: int, body: Body) -> Reply:
        first = "canary-1" in question(body) and number == 1
        return completion("a lamp" if first else labels_of(body), delay_s=0.02)

    run = bench(behave=behave)
    assert labeller(run).codes([TEXTS[0]] * 8).tolist() == [CODES[0]] * 8
    assert len(run.server.asked) == 3


def test_labellers_at_once_pay_once_for_equal_texts(bench: Start) -> None:
    run = bench(behave=slow)
    with ThreadPoolExecutor(3) as pool:
        codes = list(pool.map(lambda _: labeller(run).codes(TEXTS).tolist(), range(3)))
    assert codes == [CODES] * 3
    assert len(run.server.asked) == 4


def test_a_labeller_with_all_its_answers_takes_no_turn(bench: Start) -> None:
    run = bench(behave=slow)
    own = labeller(run)
    own.codes(TEXTS)
    other = labeller(run)
    with own._meter.alone(print):
        assert other.codes(TEXTS).tolist() == CODES
    assert len(run.server.asked) == 4


@pytest.mark.parametrize("processes", [False, True])
def test_batch_runs_at_once_submit_equal_calls_once(bench: Start, processes: bool) -> None:
    run = bench()
    run.server.batches.polls = 4
    if processes:
        same = {"run": "generate", "count": 20, "mode": "batch"}
        assert in_processes(run, [same, same]) == ["OK", "OK"]
    else:
        with ThreadPoolExecutor(2) as pool:
            ask = lambda _: run.generator(mode="batch").generate(wishes(20)).value  # noqa: E731
            one, two = pool.map(ask, range(2))
        assert [a.text for a in one] == [a.text for a in two]
        assert all(a.text for a in one)
    assert len(run.server.batches.jobs) == 1
    assert len(run.server.asked) == 20
    assert paid(run) == 20
    assert not list((run.state / "batches").iterdir())


def test_batch_runs_that_share_some_calls_submit_the_shared_ones_once(bench: Start) -> None:
    run = bench()
    run.server.batches.polls = 4
    with ThreadPoolExecutor(3) as pool:
        ask = lambda first: run.generator(mode="batch").generate(wishes(20, first=first))  # noqa: E731
        list(pool.map(ask, (0, 10, 0)))
    assert len(run.server.asked) == 30
    assert paid(run) == 30


def test_a_direct_run_waits_for_a_batch_that_has_its_calls(bench: Start) -> None:
    run = bench()
    run.server.batches.polls = 10**9
    with ThreadPoolExecutor(2) as pool:
        batch = pool.submit(lambda: run.generator(mode="batch").generate(wishes(10)).value)
        while not run.server.batches.looks:
            time.sleep(0.01)
        direct = pool.submit(lambda: run.generator().generate(wishes(12)).value)
        time.sleep(0.3)
        assert not run.server.asked
        run.server.batches.polls = 1
        assert [a.text for a in direct.result()[:10]] == [a.text for a in batch.result()]
    assert len(run.server.asked) == 12
    assert paid(run) == 12


# --- one meter


def test_a_cap_holds_for_labellers_at_once(bench: Start) -> None:
    run = bench(behave=slow)

    def label(number: int) -> None:
        labeller(run, max_calls=20).codes(own_texts(number))

    with ThreadPoolExecutor(3) as pool:
        ended = [pool.submit(label, number) for number in range(3)]
        errors = [future.exception() for future in ended]
    assert any(isinstance(error, GeneratorError) for error in errors)
    assert len(run.server.asked) == paid(run) == 20


def test_a_cap_holds_for_labellers_in_processes(bench: Start) -> None:
    run = bench(behave=lambda n, body: completion(ANSWER, delay_s=0.02))
    payers = [{"run": "label", "texts": own_texts(n), "max_calls": 20} for n in range(3)]
    said = in_processes(run, payers)
    assert sum("max_calls" in line for line in said) >= 1, said
    assert len(run.server.asked) == paid(run) == 20


def test_calls_of_a_batch_in_flight_count_against_the_cap(bench: Start) -> None:
    run = bench(behave=slow_text)
    run.server.batches.polls = 10**9
    with ThreadPoolExecutor(1) as pool:
        batch = pool.submit(
            lambda: run.generator(mode="batch", max_calls=20).generate(wishes(12)).value
        )
        while not run.server.batches.looks:
            time.sleep(0.01)
        with pytest.raises(GeneratorError, match=r"max_calls=20.*12 calls are in batches"):
            run.generator(max_calls=20).generate(wishes(12, first=100))
        assert len(run.server.asked) == 8
        run.server.batches.polls = 1
        assert all(answer.text for answer in batch.result())
    assert len(run.server.asked) == paid(run) == 20


def test_checks_at_once_hold_the_cap(bench: Start) -> None:
    run = bench(behave=slow_text)

    def check(_: int) -> None:
        run.generator(max_calls=1).check()

    with ThreadPoolExecutor(3) as pool:
        errors = [future.exception() for future in [pool.submit(check, n) for n in range(3)]]
    assert errors.count(None) == 1
    assert len(run.server.asked) == paid(run) == 1


def test_a_check_that_fails_reserves_nothing(bench: Start) -> None:
    run = bench()
    generator = run.generator(max_calls=1, max_retries=0)
    run.server.key = "another"
    with pytest.raises(GeneratorError, match="refused the key"):
        generator.check()
    run.server.key = KEY
    generator.check()


# --- a crash


class DiedError(BaseException):
    """Simulates the end of a process: no code after it runs."""


def dies_at(place: str, patch: pytest.MonkeyPatch) -> None:
    """Make the process end at `place` when it handles the third answer."""
    owner: Any = AnswerCache if place == "put" else cost._Journal
    kept, calls = getattr(owner, place), 0

    def instead(self: Any, *given: Any) -> None:
        nonlocal calls
        # For each answer, the file `.settling` is written twice: before the answer is stored, and,
        # with empty content, after the line is in the journal. Only the second time counts.
        calls += place != "_write_settling" or given == (b"",)
        if calls == 3:
            raise DiedError
        kept(self, *given)

    patch.setattr(owner, place, instead)


@pytest.mark.parametrize("place", ["put", "_append", "_write_settling"])
def test_a_death_between_an_answer_and_its_line_loses_neither(
    bench: Start, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    run = bench()
    with monkeypatch.context() as patch:
        dies_at(place, patch)
        with pytest.raises(BaseException) as caught:
            run.generator(concurrency=1).generate(wishes(6))
        assert "DiedError" in repr(caught.value)
    assert all(answer.text for answer in run.generator().generate(wishes(6)).value)
    # An answer that was never stored is requested again, and both calls are paid.
    assert len(run.server.asked) == 6 + (place == "put")
    assert paid(run) == len(run.server.asked)


def test_a_run_that_waits_says_so_and_another_thread_keeps_its_turn(bench: Start) -> None:
    run = bench(behave=slow_text)
    first = run.generator()
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        with first._meter.alone(print):
            inside.set()
            done.wait(10)

    with ThreadPoolExecutor(2) as pool:
        pool.submit(hold)
        assert inside.wait(10)
        waiting = pool.submit(lambda: run.generator().generate(wishes(2)))
        time.sleep(0.2)
        assert not run.server.asked
        done.set()
        waiting.result()
    assert any("another run on 'tickets'" in line for line in run.said)
