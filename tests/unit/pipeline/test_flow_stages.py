"""Tests what a flow reports about the stages that DVC runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prefect.cache_policies import NO_CACHE

from sugarbush.pipeline import flow


@pytest.mark.parametrize(
    ("line", "ran"),
    [
        ("Running stage 'evolve@maple':", True),
        ("Running stage 'projects/a/dvc.yaml:evolve@maple':", True),
        ("Running stage 'evolve@augpe':", False),
        ("Stage 'evolve@maple' didn't change, skipping", False),
        ("Stage 'evolve@maple' is cached - skipping run, checking out outputs", False),
    ],
)
def test_a_stage_ran_when_dvc_says_that_it_runs_it(
    monkeypatch: pytest.MonkeyPatch, line: str, ran: bool
) -> None:
    def run_dvc(*arguments: str, say: Any, new_draw: bool, folder: Any) -> None:
        say(line)

    monkeypatch.setattr(flow, "run_dvc", run_dvc)
    heard: list[str] = []
    targets = ("finetune@maple", "evolve@maple")
    assert flow.run_stage("evolve@maple", targets, force=False, say=heard.append) is ran
    assert heard == [line]


@pytest.mark.parametrize(
    ("stage", "kind", "shown"),
    [
        ("evolve@maple", "BudgetExceededError", "the reason"),
        ("evolve@maple", "PoorFitError", "the reason"),  # it is released
        ("evolve@maple", "InputError", None),  # it may depend on private data
        ("evolve@augpe", "BudgetExceededError", None),  # of another task
    ],
)
def test_only_a_cap_and_a_look_are_reasons_that_prefect_may_store(
    tmp_path: Path, stage: str, kind: str, shown: str | None
) -> None:
    last = tmp_path / "last_error.json"
    assert flow._public_stop(last, ["evolve@maple"]) is None
    last.write_text(json.dumps({"stage": stage, "type": kind, "message": "the reason"}))
    found = flow._public_stop(last, ["--single-item", "evolve@maple"])
    assert (None if found is None else str(found)) == shown
    assert found is None or type(found).__name__ == kind


def test_no_stage_and_no_flow_is_retried() -> None:
    """A second try of a stage that spends budget would charge and draw again."""
    from flows import pipeline  # slow

    assert pipeline.stage.retries == 0
    assert pipeline.pipeline.retries == 0
    assert pipeline.stage.cache_policy is NO_CACHE
