"""Tests of `sugarbush audit` in an empty folder."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sugarbush.audits.canary_audit import AuditFinding, Size, audit
from sugarbush.audits.noise_faults import Fault, broken_noise
from sugarbush.cli import audits
from sugarbush.cli.main import app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments], catch_exceptions=False)


def test_it_prints_what_was_found_and_which_controls_are_caught(folder: Path) -> None:
    """At epsilon 4 a false alarm is impossible: 80 right guesses of 80 give a bound of 3.1, and
    the ledger claims 3.86 for the discrete noise of the votes."""
    result = run("votes", "dp-sgd", "--runs", "4", "--epsilon", "4")
    assert result.exit_code == 0
    assert re.search(
        r"^votes: no violation found \(lower bound [\d.]+ of 3\.\d+\)$", result.stdout, re.M
    )
    rows = [line for line in result.stdout.splitlines() if line.startswith("dp-sgd  ")]
    assert len(rows) == 1
    assert rows[0].count("caught") >= 3
    assert "safe" not in result.stdout.lower()
    assert not any(folder.iterdir()), "an audit writes nothing and charges no ledger of the user"


def test_a_violation_ends_with_an_error() -> None:
    with broken_noise(Fault.NO_NOISE):
        result = run("votes", "--runs", "4", "--epsilon", "1")
    assert result.exit_code == 1
    assert "votes: VIOLATION (lower bound" in result.stdout
    assert "no violation found" not in result.stdout


def test_a_missed_control_is_named_as_a_weakness_of_the_audit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At epsilon 4 a false alarm is impossible: 20 right guesses of 20 give a bound of 1.6."""

    def without_fault(name: str, *, fault: Fault | None, epsilon: float, **_: Any) -> AuditFinding:
        found = audit(name, epsilon=epsilon, size=Size(canaries=1000, guesses=20))
        return replace(found, fault=fault)

    monkeypatch.setattr(audits, "audit", without_fault)
    result = run("votes", "--epsilon", "4")
    assert result.exit_code == 0
    assert result.stdout.count("MISSED") == len(Fault) + 1
    assert "Raise --runs" in result.stdout


def test_without_noise_the_claim_is_infinite() -> None:
    result = run("votes", "table", "--epsilon", "inf")
    assert result.exit_code == 0
    assert "of inf)" in result.stdout
    assert "table: no audit at epsilon inf" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [["unknown"], ["--epsilon", "0"], ["--epsilon", "nan"], ["--runs", "1"], ["--runs", "501"]],
)
def test_arguments_that_make_no_audit_are_refused(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2
