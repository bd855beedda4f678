"""Tests `sugarbush budget --weeks` and sb.plan_weeks."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import sugarbush as sb
from sugarbush.cli.main import app
from sugarbush.privacy.events import GaussianDp
from sugarbush.project import weeks as weeks_module
from sugarbush.project.weeks import NOT_MEASURED, measured_quality, weekly_plan
from tests.settings import ROOT
from tests.unit.pipeline.small_project import write_project

ROWS = {"mosaic": "mosaic, 400 scored", "maple": "maple", "augpe": "augpe"}


def test_the_measured_quality_is_that_of_the_log() -> None:
    log = weeks_module._log()
    rows = [
        [cell.strip() for cell in line.split("|")[1:6]]
        for line in (ROOT / str(log["source"])).read_text().splitlines()
        if line.startswith("| ")
    ]
    for method, by_epsilon in log["methods"].items():
        for epsilon, values in by_epsilon.items():
            written = [
                float(row[3].split()[0])
                for row in rows
                if row[1] == f"{epsilon:g}" and row[2] == ROWS[method]
            ]
            assert written == values, (method, epsilon)


def test_quality_that_nobody_measured_is_not_stated() -> None:
    for epsilon, methods in ((0.2, ("mosaic",)), (1.0, ("crt",)), (1.0, ("maple", "mosaic"))):
        assert measured_quality(epsilon, methods) == NOT_MEASURED
    assert measured_quality(3.9, ("mosaic",)).endswith("at epsilon 1")


def test_the_command_shows_a_plan_and_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    project = write_project(tmp_path / "project", methods=["maple"], privacy__cap=4.0)
    monkeypatch.chdir(project.base)
    monkeypatch.setenv("COLUMNS", "100")
    project.ledger(rehearse=False).charge(GaussianDp(mu=0.1), stage="evolve", run="r")
    found = CliRunner().invoke(app, ["budget", "--weeks", "52"])
    assert found.exit_code == 0, found.output
    plan = weekly_plan(project, 52)
    for row in plan.rows():
        (line,) = [line for line in found.output.splitlines() if line.startswith(row[0] + " ")]
        assert [cell.strip() for cell in line.split("  ") if cell.strip()] == list(row)
    assert "No method draws by a tree" in found.output
    assert len(project.ledger().entries()) == 1
    both = CliRunner().invoke(app, ["budget", "--weeks", "52", "--repair"])
    assert both.exit_code == 2 and "without another option" in both.output


@pytest.mark.slow
def test_the_command_and_the_api_plan_the_same_epsilons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shares of a run do not matter, because its epsilon is that of all of them together."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    project = write_project(tmp_path / "project", methods=["maple"], privacy__cap=4.0)
    privacy = sb.Privacy(dataset="letters", cap=4.0)
    plan = sb.plan_weeks(52, privacy=privacy, method=sb.Maple(), state=tmp_path / "other")
    epsilons = [each.epsilon for each in weekly_plan(project, 52).schedules]
    assert [each.epsilon for each in plan.schedules] == pytest.approx(epsilons, rel=0.03)


def test_the_api_needs_the_name_of_a_dataset() -> None:
    with pytest.raises(sb.ParamsError, match="needs dataset="):
        sb.plan_weeks(52, privacy=sb.Privacy())
