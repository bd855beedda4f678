"""Tests how many further runs a cap allows."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sugarbush.cli.budgets import show_budget
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy import schedule
from sugarbush.privacy.events import GaussianDp, NonPrivate
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.project import budget as budgets
from sugarbush.run.ledgers import uncapped_ledger
from tests.settings import params

RUN = (GaussianDp(mu=0.2),)


def ledger_in(folder: Path, *, cap: float) -> Ledger:
    return Ledger(
        folder, dataset="tickets", purpose="release", unit=Unit.RECORD, cap=cap, delta=1e-6
    )


@pytest.mark.parametrize("cap", [0.5, 1.5, 2.2])
def test_so_many_runs_fit_and_not_one_more(tmp_path: Path, cap: float) -> None:
    ledger = ledger_in(tmp_path, cap=cap)
    left = schedule.runs_within_cap(ledger, RUN)
    assert ledger.total(*RUN, runs=left) <= cap < ledger.total(*RUN, runs=left + 1)
    if left:
        ledger.charge(*RUN, stage="evolve", run="r")
    assert schedule.runs_within_cap(ledger, RUN) == max(0, left - 1)


def test_a_wrong_guess_of_where_the_search_starts_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_in(tmp_path, cap=10)
    monkeypatch.setattr(Ledger, "total", lambda _, *events, runs=1: float(len(events) * runs))
    for guess in (0, 1, 8, 9, 10, 11, 15, 40, 128):
        monkeypatch.setattr(schedule, "_expected_runs", lambda *_, found=guess: found)
        assert schedule.runs_within_cap(ledger, RUN) == 10
        assert schedule.runs_within_cap(ledger, RUN * 200) == 0
        assert schedule.runs_within_cap(ledger, ()) == schedule.MOST_RUNS


def test_the_search_computes_few_totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed, total = [], Ledger.total
    monkeypatch.setattr(
        Ledger,
        "total",
        lambda own, *e, runs=1: (computed.append(0), total(own, *e, runs=runs))[1],
    )
    assert schedule.runs_within_cap(ledger_in(tmp_path, cap=2.2), RUN) > 3
    assert len(computed) <= 3


def test_the_command_raises_the_stored_cap_and_shows_the_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from sugarbush.cli.main import app

    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    settings = "methods: {public: {}}\nprivacy: {dataset: tickets, purpose: release}\n"
    (tmp_path / "params.yaml").write_text(settings + "prepare: {file: letters.jsonl}\n")
    ledger_in(tmp_path / "state", cap=1.5).charge(*RUN, stage="evolve", run="r")
    monkeypatch.setattr(budgets, "would_spend", lambda project: True)
    for cap, message in (("1", "above the stored cap 1.5"), ("2", "was raised on")):
        found = CliRunner().invoke(app, ["budget", "--raise-cap", cap])
        assert message in found.output + str(found.exception)
    assert "from 1.5 to 2." in found.output


def test_many_runs_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOST_RUNS", 4)
    assert schedule.runs_within_cap(ledger_in(tmp_path, cap=4), RUN) == 4


def test_charges_in_other_ledgers_of_the_dataset_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Confidential training and methods without noise have ledgers of their own."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path))
    changes: dict[str, Any] = {"privacy__purpose": "release", "privacy__dataset": "tickets"}
    changes |= {"prepare__file": "letters.jsonl", "prepare__donated": None}
    settings = params(methods=["public"], **changes)
    project = open_project(tmp_path, settings=settings)
    project.gate.rehearse = lambda project: None
    project.ledger().charge(*RUN, stage="evolve", run="r")
    for _ in range(2):
        uncapped_ledger(project, "confidentiality").charge(NonPrivate(), stage="crt", run="r")
    monkeypatch.setattr(budgets, "would_spend", lambda project: True)
    printed = io.StringIO()
    show_budget(project, Console(file=printed, width=200))
    assert "Not in this total: 2 charges in" in printed.getvalue()
    assert "release-confidentiality/tickets.jsonl" in printed.getvalue()
