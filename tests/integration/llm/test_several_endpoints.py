"""Tests of several addresses for one generator, with a real HTTP server at each."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sugarbush.errors import GeneratorError
from sugarbush.generators.openai.cost import journal_path, read_journal
from tests.integration.llm.conftest import Bench, wishes
from tests.integration.llm.server import (
    Body,
    FaultServer,
    Reply,
    completion,
    dropped,
    failure,
    good_text,
    running,
)
from tests.integration.llm.test_extraction import CODES, TEXTS, good, labeller
from tests.integration.llm.test_openai import asked_twice
from tests.integration.postgres import free_port

Start = Callable[..., Bench]
Servers = Callable[..., list[FaultServer]]


def after(delay_s: float) -> Callable[[int, Body], Reply]:
    return lambda number, body: completion(good_text(body), delay_s=delay_s)


@pytest.fixture
def servers() -> Iterator[Servers]:
    """`servers({...}, {...})` starts a server for each set of arguments."""
    with contextlib.ExitStack() as stack:
        yield lambda *each: [stack.enter_context(running(FaultServer(**one))) for one in each]


def bench_of(folder: Path, servers: list[FaultServer]) -> tuple[Bench, dict[str, Any]]:
    """A state folder, and the setting for all the servers."""
    return Bench(servers[0], folder / "state"), {"base_url": [s.base_url for s in servers]}


def test_a_slow_server_with_one_slot_answers_everything(tmp_path: Path, servers: Servers) -> None:
    """With all calls at once, most calls would wait longer than `timeout_s`."""
    (server,) = servers({"behave": after(0.15), "slots": 1})
    run, _ = bench_of(tmp_path, [server])
    answers = run.generator(timeout_s=1).generate(wishes(24)).value
    assert all(answer.text for answer in answers)
    assert max(server.loads[-6:]) <= 8


def test_after_a_short_fault_a_server_gets_more_calls_again(
    tmp_path: Path, servers: Servers
) -> None:
    """Eight late answers leave four calls at once, and 400 answers allow four more."""

    def late_at_first(number: int, body: Body) -> Reply:
        return completion(good_text(body), delay_s=3 if number < 8 else 0.02)

    (server,) = servers({"behave": late_at_first})
    run, _ = bench_of(tmp_path, [server])
    answers = run.generator(timeout_s=1, concurrency=8).generate(wishes(600)).value
    assert all(answer.text for answer in answers)
    # late answers are still under way for 2 s
    assert max(server.loads[-50:]) > 4


def test_the_faster_server_gets_more_and_no_order_asks_again(
    tmp_path: Path, servers: Servers
) -> None:
    fast, slow = servers({"behave": after(0.05), "slots": 4}, {"behave": after(0.5), "slots": 4})
    run, several = bench_of(tmp_path, [fast, slow])
    answers = run.generator(**several).generate(wishes(120)).value
    assert all(answer.text for answer in answers)
    assert len(fast.asked) > 2 * len(slow.asked) > 0
    assert len(fast.asked) + len(slow.asked) == 120
    assert not asked_twice(fast.asked + slow.asked)
    again = run.generator(base_url=several["base_url"][::-1]).generate(wishes(120)).value
    assert [answer.text for answer in again] == [answer.text for answer in answers]
    assert len(fast.asked) + len(slow.asked) == 120


# A server that dies leaves broken connections. The client's event loop may end before it has seen
# that they are broken, so asyncio warns of them when they are collected as garbage.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_dies_midway_loses_nothing_and_nothing_is_paid_twice(
    tmp_path: Path, servers: Servers
) -> None:
    with contextlib.ExitStack() as life:
        dying = life.enter_context(running(FaultServer(behave=after(0.01))))
        (other,) = servers({"behave": after(0.01)})
        run, several = bench_of(tmp_path, [dying, other])

        def die() -> None:
            while len(dying.answered) < 30:
                time.sleep(0.001)
            life.close()

        thread = threading.Thread(target=die)
        thread.start()
        answers = run.generator(**several).generate(wishes(300)).value
        thread.join()
    assert all(answer.text for answer in answers)
    assert 30 <= len(dying.answered) < 100
    assert not asked_twice(other.asked)
    assert len(read_journal(journal_path(run.state, "tickets"))) == 300
    assert sum("The other addresses get its calls" in line for line in run.said) == 1
    before = len(other.asked)
    run.generator(**several).generate(wishes(300))
    assert len(other.asked) == before
    gc.collect()  # here, and not in another test


def test_a_server_that_fails_for_a_while_is_asked_again_later(
    tmp_path: Path, servers: Servers
) -> None:
    started = time.monotonic()

    def ill_at_first(number: int, body: Body) -> Reply:
        if time.monotonic() < started + 1:
            return dropped()
        return completion(good_text(body), delay_s=0.02)

    ill, well = servers({"behave": ill_at_first}, {"behave": after(0.05), "slots": 2})
    run, several = bench_of(tmp_path, [ill, well])
    answers = run.generator(**several).generate(wishes(200)).value
    assert all(answer.text for answer in answers)
    assert len(ill.asked) - len(ill.answered) < 60  # it was left alone while it was ill
    assert len(ill.answered) > 20


@pytest.mark.parametrize("status", [401, 402, 404])
def test_a_server_that_refuses_every_call_is_named_and_left_out(
    tmp_path: Path, servers: Servers, status: int
) -> None:
    refusing, other = servers(
        {"behave": lambda number, body: failure(status, "no")}, {"behave": after(0.005)}
    )
    run, several = bench_of(tmp_path, [refusing, other])
    answers = run.generator(**several).generate(wishes(100)).value
    assert all(answer.text for answer in answers)
    assert len(refusing.asked) <= 16
    assert [refusing.base_url in line for line in run.said] == [True]
    other.behave = refusing.behave
    with pytest.raises(GeneratorError, match=f"status {status}"):
        run.generator(**several).generate(wishes(5, first=500))


def test_a_cap_holds_for_all_servers_together(tmp_path: Path, servers: Servers) -> None:
    both = servers({"behave": after(0.01)}, {"behave": after(0.002)})
    run, several = bench_of(tmp_path, both)
    with pytest.raises(GeneratorError, match="max_calls=70 is reached"):
        run.generator(max_calls=70, **several).generate(wishes(200))
    assert sum(len(server.answered) for server in both) == 70


def test_a_check_asks_every_server_and_fails_only_if_none_answers(
    tmp_path: Path, servers: Servers
) -> None:
    run, several = bench_of(tmp_path, servers({}, {}))
    run.generator(**several).check()
    assert len(read_journal(journal_path(run.state, "tickets"))) == 2
    assert not run.said
    dead = [f"http://127.0.0.1:{free_port()}/v1" for _ in range(2)]
    run.generator(base_url=[*several["base_url"], dead[0]]).check()
    assert [dead[0] in line for line in run.said] == [True]
    with pytest.raises(GeneratorError, match="cannot be reached"):
        run.generator(base_url=dead).check()


def test_servers_that_are_all_dead_end_the_run(tmp_path: Path) -> None:
    run = Bench(FaultServer(), tmp_path / "state")
    dead = [f"http://127.0.0.1:{free_port()}/v1" for _ in range(2)]
    with pytest.raises(GeneratorError, match="20 calls failed in a row"):
        run.generator(base_url=dead, max_retries=1).generate(wishes(40))


def test_private_texts_go_to_the_addresses_of_the_labels_alone(
    tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No proxy may read them, although one address is of another machine and not encrypted."""
    both = servers({"behave": good}, {"behave": good})
    (proxy,) = servers({"behave": good})
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.base_url.removesuffix("/v1"))
    run, several = bench_of(tmp_path, both)
    away = "http://endpoint.invalid/v1"
    own = labeller(run, base_url=[*several["base_url"], away])
    assert own.codes(TEXTS).tolist() == CODES
    assert sum(len(server.asked) for server in both) == len(TEXTS) + 1
    assert not proxy.raw
