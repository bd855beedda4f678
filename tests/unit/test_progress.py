"""Tests of the progress that every long step shows."""

from __future__ import annotations

import io
import itertools
import re
import sys
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sugarbush import progress as module
from sugarbush.pipeline.flow import RunProgress
from sugarbush.progress import (
    FLOW_VARIABLE,
    duration,
    over_batches,
    progress,
    read_line,
    with_progress,
    working,
)

LONG = "first texts of a very long stage name, second try"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Clock:
    """Moves by `step` seconds whenever somebody looks."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 1000.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is 20 s after the one before."""
    monkeypatch.setattr(module, "time", Clock(20.0))


def on_terminal(
    monkeypatch: pytest.MonkeyPatch, *, private: bool = False, what: str = "round 2"
) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80)
    monkeypatch.setattr(module, "Console", lambda **_: console)
    with progress(4000, what=what, unit="answers", private=private) as advance:
        for _ in range(10):
            advance(123, "3 retries, cost 0.0123 of 5, 1,230 of 4,000 calls")
    return file.getvalue()


def test_a_terminal_sees_how_many_how_fast_how_long_and_what_it_cost(
    monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    text = _ESCAPES.sub("", on_terminal(monkeypatch))
    for part in ("round 2", "1,230/4,000", "/s", "left", "so far", "3 retries"):
        assert part in text
    assert text.splitlines()[-1].startswith("round 2: 1,230 answers in ")


def test_no_line_is_wider_than_80_columns_or_broken(
    monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    text = on_terminal(monkeypatch, what=LONG)
    *bars, end = _ESCAPES.sub("", text).replace("\r", "\n").splitlines()
    assert bars
    for line in bars:
        assert len(line) <= 80
        assert not line.strip() or line.startswith("first texts of a very")
    assert end.startswith(f"{LONG}: 1,230 answers")


def test_a_short_step_leaves_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _ESCAPES.sub("", on_terminal(monkeypatch)).replace("\r", "\n").strip()
    assert "in 0 s" not in text


@pytest.mark.parametrize("terminal", [True, False])
def test_a_private_step_shows_no_count_and_no_rate(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], slow: None
) -> None:
    if terminal:
        text = _ESCAPES.sub("", on_terminal(monkeypatch, private=True))
    else:
        with progress(4000, what="round 2", private=True) as advance:
            for _ in range(10):
                advance(123)
        text = capsys.readouterr().err
    assert "30%" in text
    for count in ("1,230", "1230", "4,000", "4000", "/s", "/min"):
        assert count not in text


def test_a_log_gets_a_line_after_20_seconds_and_then_one_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress(40, what="round 2", unit="answers") as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")
    clock = Clock(0.0)
    monkeypatch.setattr(module, "time", clock)
    with progress(40, what="round 2", unit="answers") as advance:
        for _ in range(20):
            clock.now += 9
            advance(1, "cost 0.01")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3  # 180 s: after 27 s, 90 s and 153 s
    assert lines[1] == (
        "round 2: 25% (10 of 40 answers, cost 0.01), 6.7/min, 1:30 min so far, 4:30 min left"
    )


def test_a_log_gets_a_line_while_nothing_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of a local model may take minutes."""
    monkeypatch.setattr(module, "_FIRST_LINE_S", 0.01)
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.01)
    with progress(40, what="rehearsal", unit="answers"):
        while not (said := capsys.readouterr().err):
            time.sleep(0.01)
    first, *_ = said.splitlines()
    assert first == "rehearsal: 0% (0 of 40 answers), 0 s so far"


def left_s(line: str) -> int | None:
    found = re.search(r", (?:(\d+):)?(\d+) (?:s|min) left", line)
    return None if found is None else 60 * int(found[1] or 0) + int(found[2])


@pytest.mark.parametrize("batch", [1, 8, 32])
def test_the_time_left_never_rises_while_every_unit_takes_the_same_time(
    monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(module, "time", clock)
    state = module._State(64, what="answers", unit="answers", private=False)
    stated = []
    for second in range(1, 64 * 4 + 1):  # a batch of n units takes 4 n seconds
        clock.now += 1
        if second % (4 * batch) == 0:
            state.advance(batch, "")
        stated.append(left_s(state.line()))
    known = [each for each in stated if each is not None]
    assert len(known) > 100
    assert all(later <= earlier for earlier, later in itertools.pairwise(known))


def test_a_unit_that_takes_longer_than_the_others_states_no_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(module, "time", clock)
    state = module._State(4, what="answers", unit="answers", private=False)
    clock.now += 10
    state.advance(3, "")
    assert left_s(state.line()) == 3
    clock.now += 60
    state.advance(0, "a retry")
    assert "left" not in state.line()


def test_the_first_units_of_a_long_step_state_no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have waited for a model, and the longest texts come first."""
    clock = Clock(0.0)
    monkeypatch.setattr(module, "time", clock)
    state = module._State(1_000, what="embeddings", unit="texts", private=True)
    clock.now += 20
    state.advance(19, "")
    assert "left" not in state.line()
    state.advance(1, "")
    assert left_s(state.line()) == 16 * 60 + 20


def test_a_step_of_unknown_length_says_what_runs_and_for_how_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_LINE_S", 0.01)
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.01)
    with working("reading letters.csv"):
        time.sleep(0.3)
        with working("the plan"):
            time.sleep(0.3)
        with progress(2, what="embeddings") as advance:
            time.sleep(0.3)
            advance(2)
            with working("hidden by the step around it"):
                time.sleep(0.1)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    names = dict.fromkeys(line.partition(":")[0] for line in lines)
    assert list(names) == ["reading letters.csv", "the plan", "embeddings"]
    assert lines[0] == "reading letters.csv: 0 s so far"
    assert "hidden" not in err


def test_a_step_of_unknown_length_leaves_no_line_on_a_terminal_and_none_in_a_flow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80)
    with monkeypatch.context() as patch:
        patch.setattr(module, "Console", lambda **_: console)
        with working("reading letters.csv"):
            pass
    assert "reading letters.csv  20 s so far" in _ESCAPES.sub("", file.getvalue())
    assert file.getvalue().endswith("\x1b[2K")
    monkeypatch.setenv(FLOW_VARIABLE, "1")
    with working("reading letters.csv"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_flow_gets_public_lines_without_times_on_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    monkeypatch.setenv(FLOW_VARIABLE, "1")
    for private in (True, False):
        with progress(40, what="round 2", unit="answers", private=private) as advance:
            for _ in range(10):
                advance(1)
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()
    for line in out.splitlines():
        assert re.fullmatch(r"round 2: \d+% \(\d+ of 40 answers\)", line)


def test_a_step_inside_a_step_shows_nothing(capsys: pytest.CaptureFixture[str], slow: None) -> None:
    with progress(1, what="outer"):
        for _ in with_progress(range(50), 50, what="inner"):
            pass
    assert capsys.readouterr() == ("", "")
    for _ in with_progress(range(50), 50, what="inner"):
        pass
    assert "inner" in capsys.readouterr().err


def test_batches_are_one_step_and_their_own_steps_move_it_on(
    capsys: pytest.CaptureFixture[str], slow: None
) -> None:
    """A corpus of a million records showed the progress of 52 batches, each from 0%."""
    batches = [range(500)] * 4
    for batch in over_batches(batches, 2000, what="embeddings", unit="texts", private=True):
        for _ in with_progress(range(5), 5, what="embeddings", private=True):
            pass
        with progress(25, what="votes") as advance:  # a step with another name counts nothing
            advance(25)
        for _ in with_progress(batch, 500, what="embeddings", private=True):
            pass
    shown = [int(n) for n in re.findall(r"embeddings: (\d+)%", capsys.readouterr().err)]
    assert shown == sorted(shown) and set(shown) == set(range(0, 101, 10))


def test_a_caller_that_fails_ends_the_step_of_its_batches(
    capsys: pytest.CaptureFixture[str], slow: None
) -> None:
    with (
        pytest.raises(KeyError) as error,
        closing(over_batches(["ab"] * 9, 18, what="embeddings", unit="texts")) as batches,
    ):
        for _ in batches:
            raise KeyError
    assert error.tb is not None  # holds the frames of the failed loop
    for _ in with_progress(range(50), 50, what="second"):
        pass
    assert "second" in capsys.readouterr().err


def test_a_batch_that_needs_nothing_counts(capsys: pytest.CaptureFixture[str], slow: None) -> None:
    for _ in over_batches(["ab", "cd"], 4, what="embeddings", unit="texts"):
        pass
    assert "embeddings: 100% (4 of 4 texts)" in capsys.readouterr().err


def test_an_error_ends_the_bar_and_frees_the_place(
    capsys: pytest.CaptureFixture[str], slow: None
) -> None:
    with pytest.raises(KeyError), progress(5, what="first"):
        raise KeyError
    for _ in with_progress(range(50), 50, what="second"):
        pass
    assert "second" in capsys.readouterr().err


def test_threads_lose_no_count(capsys: pytest.CaptureFixture[str], slow: None) -> None:
    with progress(4000, what="scores") as advance:
        threads = [
            threading.Thread(target=lambda: [advance() for _ in range(500)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert capsys.readouterr().err.splitlines()[-1].startswith("scores: 100% (4,000 of")


def test_a_notebook_shows_one_line_that_is_updated(
    monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    shown: list[str] = []

    class ZMQInteractiveShell:
        """Has the name of the shell of every Jupyter kernel."""

    class Handle:
        def update(self, what: object) -> None:
            shown.append(what._repr_html_())  # type: ignore[attr-defined]

    fake = SimpleNamespace(
        get_ipython=ZMQInteractiveShell,
        display=SimpleNamespace(display=lambda what, display_id: Handle()),
    )
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    with progress(4, what="<b>texts</b>") as advance:
        advance(1)
    first, last = shown
    assert '<progress max="100" value="25">' in first
    assert "&lt;b&gt;texts&lt;/b&gt;: 25% (1 of 4 steps)" in first
    assert last == ""


@given(
    what=st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1),
    done=st.integers(0, 50),
    more=st.integers(1, 50),
)
def test_a_flow_reads_what_a_step_writes(what: str, done: int, more: int) -> None:
    state = module._State(done + more, what=what, unit="texts", private=False)
    state.done, state.note = done, "cost 0.1"
    assert read_line(state.public_line()) == (what, 100 * done // (done + more))


def test_durations_are_short() -> None:
    assert [duration(s) for s in (0.4, 59.4, 60, 3599, 3600, 90061)] == [
        "0 s", "59 s", "1:00 min", "59:59 min", "1:00 h", "25:01 h"
    ]  # fmt: skip


def test_a_run_adds_up_the_parts_of_its_stages() -> None:
    said: list[tuple[float, str]] = []
    run = RunProgress(["prepare", "evolve@maple"], lambda *each: said.append(each))
    run.finish("prepare")
    run.hear("evolve@maple", "evolve@maple: a line that is no progress")
    run.hear("evolve@maple", "first texts: 40% (4 of 10 answers)")
    run.hear("evolve@maple", "round 1: 10% (1 of 10 answers)")  # a stage never goes back
    run.finish("evolve@maple")
    assert said == [
        (50.0, "1 of 2 stages are finished; prepare: finished"),
        (70.0, "1 of 2 stages are finished; evolve@maple: first texts: 40%"),
        (70.0, "1 of 2 stages are finished; evolve@maple: round 1: 10%"),
        (100.0, "2 of 2 stages are finished; evolve@maple: finished"),
    ]


def test_a_server_that_is_away_ends_no_stage() -> None:
    def away(percent: float, said: str) -> None:
        raise ConnectionError

    run = RunProgress(["prepare"], away)
    run.hear("prepare", "embeddings: 40%")
    run.finish("prepare")


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError])
def test_an_output_that_is_closed_ends_no_step(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, slow: None
) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    monkeypatch.setattr(sys, "stderr", Closed())
    assert list(with_progress(range(50), 50, what="scores")) == list(range(50))
    monkeypatch.setattr(sys, "stderr", None)
    assert list(with_progress(range(50), 50, what="scores")) == list(range(50))


def test_a_flow_that_stores_what_is_printed_gets_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], slow: None
) -> None:
    """Prefect's log_prints replaces `print`, also for stderr."""
    printed: list[str] = []
    monkeypatch.setattr("builtins.print", lambda *values, **_: printed.extend(map(str, values)))
    for _ in with_progress(range(7), 7, what="labels by a model", private=True):
        pass
    assert not printed
    assert "labels by a model" in capsys.readouterr().err


def test_percentages_of_private_steps_are_tens(
    capsys: pytest.CaptureFixture[str], slow: None
) -> None:
    for _ in with_progress(range(37), 37, what="scores", private=True):
        pass
    shown = {int(part) for part in re.findall(r"(\d+)%", capsys.readouterr().err)}
    assert shown <= set(range(0, 101, 10))
