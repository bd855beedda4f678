"""Tests of the progress that is shown while answers arrive."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sugarbush.generators import progress as module
from sugarbush.generators.progress import progress


def shown(*, terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=120)
    with progress(40, what="round 2", console=console) as advance:
        for _ in range(10):
            advance(1, "cost 0.0123")
    return file.getvalue()


def test_a_terminal_sees_how_many_how_fast_and_what_it_cost() -> None:
    text = shown(terminal=True)
    assert "round 2" in text
    assert "10/40" in text
    assert "/s" in text
    assert "cost 0.0123" in text


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(terminal=False) == ""
    monkeypatch.setattr(module, "_LINE_EVERY_S", 0.0)
    line = shown(terminal=False).splitlines()[-1]
    assert line.startswith("round 2: 10/40 answers, ")
    assert line.endswith("min left, cost 0.0123")
