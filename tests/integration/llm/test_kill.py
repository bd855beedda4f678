"""After kill -9 at any point and a restart, no received answer is requested a second time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sugarbush.generators.answer_cache import open_cache
from sugarbush.generators.openai.cost import journal_path, read_journal
from tests.integration.llm.conftest import ROOT, Bench
from tests.integration.llm.server import KEY, Body, Reply, completion, good_text

CONCURRENCY = 8
WANTED = 400
IN_A_BATCH = 2000

Start = Callable[..., Bench]


@dataclass
class Ended:
    status: int
    texts: set[str]
    said: str


class Nursery:
    """Starts processes that request texts, one at a time."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder, self._started = process, folder, 0

    def start(
        self, run: Bench, *, mode: str = "direct", wanted: int = WANTED, limit: int | None = None
    ) -> int:
        """Start a process and return its pid."""
        self._started += 1
        self._out = self._folder / str(self._started)
        fields = {
            "base_url": run.server.base_url, "state": str(run.state), "count": wanted,
            "mode": mode, "out": str(self._out), "limit": limit,
        }  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fields) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def ended(self) -> Ended:
        """Wait for the process. Return its exit status, the digests of its texts and its
        messages."""
        status = int(self._line())
        texts = set(self._out.read_text().split()) if self._out.exists() else set()
        return Ended(status, texts, self._out.with_suffix(".err").read_text())

    def kill_when(self, pid: int, reached: Callable[[], bool]) -> None:
        """Send kill -9 as soon as `reached` returns true.

        The test fails if the process ends before that.
        """
        while not reached():
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)
        assert self.ended().status == -signal.SIGKILL

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.llm.run_generator"],
        cwd=ROOT,
        env=os.environ | {"OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Nursery(process, tmp_path_factory.mktemp("nursery"))
        process.kill()


def kept(state: Path) -> int:
    with open_cache(state) as cache:
        return cache.size().answers


def after_a_moment(number: int, body: Body) -> Reply:
    return completion(good_text(body), delay_s=0.02)


def test_three_kills_lose_no_answer_that_was_received(bench: Start, nursery: Nursery) -> None:
    run = bench(behave=after_a_moment)
    for kills, point in enumerate((20, 120, 280)):
        before, asked_before = kept(run.state), len(run.server.asked)
        nursery.kill_when(nursery.start(run), lambda point=point: len(run.server.answered) >= point)
        answered, now = len(run.server.answered), kept(run.state)
        # The server records an answer before it sends it, so at most one answer per worker was
        # still in transit. All others are stored, and no stored answer was requested again.
        assert now >= before
        assert answered - CONCURRENCY * (1 + kills) <= now <= answered
        assert len(run.server.asked) - asked_before <= (now - before) + 2 * CONCURRENCY
    before, asked_before = kept(run.state), len(run.server.asked)
    nursery.start(run)
    ended = nursery.ended()
    assert ended.status == 0, ended.said
    assert len(run.server.asked) - asked_before == WANTED - before
    assert len(ended.texts) == WANTED
    paid = read_journal(journal_path(run.state, "tickets"))
    # If a process is killed after it wrote the payment for an answer and before it stored the
    # answer, the answer is paid for twice.
    assert WANTED <= len(paid) <= WANTED + 3


@pytest.mark.parametrize("moment", ["submitted", "half collected"])
def test_a_kill_while_a_batch_is_out_submits_no_second_one(
    bench: Start, nursery: Nursery, moment: str
) -> None:
    run = bench()
    batches = run.server.batches
    batches.polls = 10**9 if moment == "submitted" else 1
    pid = nursery.start(run, mode="batch", wanted=IN_A_BATCH)
    if moment == "submitted":
        nursery.kill_when(pid, lambda: "batch-0" in batches.looks)
        batches.polls = 1
    else:
        nursery.kill_when(pid, lambda: _lines(run) > 5)
    collected = kept(run.state)
    assert (collected == 0) == (moment == "submitted")
    assert collected < IN_A_BATCH
    nursery.start(run, mode="batch", wanted=IN_A_BATCH)
    ended = nursery.ended()
    assert ended.status == 0, ended.said
    assert len(batches.jobs) == 1
    assert len(ended.texts) == IN_A_BATCH
    assert not list((run.state / "batches").glob("*.json"))
    paid = read_journal(journal_path(run.state, "tickets"))
    assert IN_A_BATCH <= len(paid) <= IN_A_BATCH + 1


def _lines(run: Bench) -> int:
    path = journal_path(run.state, "tickets")
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def test_a_disk_that_fills_up_ends_the_run_with_a_message_and_keeps_the_rest(
    bench: Start, nursery: Nursery
) -> None:
    run = bench(behave=after_a_moment)
    nursery.start(run, limit=65536)
    ended = nursery.ended()
    assert ended.status == 1, ended.said
    assert str(run.state / "answers") in ended.said
    assert "Traceback" not in ended.said
    before, asked_before = kept(run.state), len(run.server.asked)
    nursery.start(run)
    assert nursery.ended().status == 0
    assert len(run.server.asked) - asked_before == WANTED - before
