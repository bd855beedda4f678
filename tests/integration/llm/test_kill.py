"""kill -9 at any point, and start again: no answer that was received is asked for twice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sugarbush.llm.cache import open_cache
from sugarbush.llm.cost import journal_path, read_journal
from tests.integration.llm.conftest import ROOT, Bench
from tests.integration.llm.server import Body, Reply, completion, good_text

pytestmark = pytest.mark.slow  # ten processes are started

CONCURRENCY = 8
WANTED = 240


def start(run: Bench, *more: str, mode: str = "direct") -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "tests.integration.llm.run_generator"]
    return subprocess.Popen(
        [*program, run.server.base_url, str(run.state), str(WANTED), mode, *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_when(process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.communicate()


def kept(state: Path) -> int:
    with open_cache(state) as cache:
        return cache.size().answers


def after_a_moment(number: int, body: Body) -> Reply:
    return completion(good_text(body), delay_s=0.01)


def test_three_kills_lose_no_answer_that_was_received(bench: Callable[..., Bench]) -> None:
    run = bench(behave=after_a_moment)
    for point in (20, 90, 200):
        before, asked_before = kept(run.state), len(run.server.asked)
        kill_when(start(run), lambda point=point: len(run.server.answered) >= point)
        answered, now = len(run.server.answered), kept(run.state)
        # The server writes an answer down before it sends it: of those, at most one a worker was
        # still on its way. Everything else is kept, and nothing kept was asked for again.
        assert now >= before
        assert answered - CONCURRENCY * (1 + len(run.said)) <= now <= answered
        assert len(run.server.asked) - asked_before <= (now - before) + 2 * CONCURRENCY
        run.said.append("killed")
    before, asked_before = kept(run.state), len(run.server.asked)
    process = start(run)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(run.server.asked) - asked_before == WANTED - before
    assert len(set(out.split())) == WANTED
    paid = read_journal(journal_path(run.state, "tickets"))
    assert WANTED - 3 <= len(paid) <= WANTED  # a kill may fall between an answer and its line


@pytest.mark.parametrize("moment", ["submitted", "half collected"])
def test_a_kill_while_a_batch_is_out_submits_no_second_one(
    bench: Callable[..., Bench], moment: str
) -> None:
    run = bench()
    run.server.batches.polls = 10**9 if moment == "submitted" else 1
    jobs = run.server.batches.jobs
    if moment == "submitted":
        kill_when(start(run, mode="batch"), lambda: "batch-0" in run.server.batches.looks)
        run.server.batches.polls = 1
    else:
        kill_when(start(run, mode="batch"), lambda: 5 < _lines(run) < WANTED)
    collected = kept(run.state)
    assert (collected == 0) == (moment == "submitted")
    process = start(run, mode="batch")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(jobs) == 1
    assert len(set(out.split())) == WANTED
    assert not list((run.state / "batches").glob("*.json"))
    assert len(read_journal(journal_path(run.state, "tickets"))) <= WANTED


def _lines(run: Bench) -> int:
    path = journal_path(run.state, "tickets")
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def test_a_disk_that_fills_up_ends_the_run_with_a_message_and_keeps_the_rest(
    bench: Callable[..., Bench],
) -> None:
    run = bench(behave=after_a_moment)
    process = start(run, "65536")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert str(run.state / "answers") in err
    assert "Traceback" not in err
    before, asked_before = kept(run.state), len(run.server.asked)
    process = start(run)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(run.server.asked) - asked_before == WANTED - before
