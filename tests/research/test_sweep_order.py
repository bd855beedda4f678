"""Tests which points of a sweep run alone, and what the message about failed points says."""

from __future__ import annotations

from pathlib import Path

import pytest

from research import sweep
from research.sweep import first_of_each_group
from sugarbush.pipeline.flow import StageFailedError


def test_the_first_of_every_group_runs_alone() -> None:
    points = [Path(name) for name in ("a/public", "b/public", "a/maple", "b/maple", "c/maple")]
    assert first_of_each_group(points) == [Path("a/public"), Path("b/public"), Path("c/maple")]


def test_what_failed_is_named_after_the_page_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(sweep, "run_module", lambda *command: made.append(command))
    with pytest.raises(StageFailedError, match=r"not in the table.*: one/gpt2/1$"):
        sweep.tell("research.leakage_page", "grid.yaml", [Path("one/gpt2/1")])
    sweep.tell("research.leakage_page", "grid.yaml", [])
    assert made == [("research.leakage_page", "grid.yaml")] * 2


def test_a_pipeline_that_failed_is_left_out_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(sweep, "run_module", lambda *command: made.append(command))
    monkeypatch.setattr(sweep, "folders", lambda what, file: [])
    monkeypatch.setattr(sweep, "run_all", lambda wanted, submit: [Path("sweeps/a/maple")])
    with pytest.raises(StageFailedError, match="sweeps/a/maple"):
        sweep.pipelines("grid.yaml")
    assert made == [("research.sweep_table", "grid.yaml", "--without", "sweeps/a/maple")]
