"""Tests of the folder of a project's ledger."""

from pathlib import Path

import pytest

from sugarbush.pipeline.opening import open_project
from tests.settings import params


def test_the_example_keeps_its_ledger_in_the_checkout_also_from_an_experiments_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUGARBUSH_STATE", raising=False)
    here = open_project(tmp_path, settings=params()).ledger()
    copy = open_project(tmp_path / ".dvc/tmp/exps/standalone/abc", settings=params()).ledger()
    assert here.path == copy.path
    assert here.path.is_relative_to(tmp_path / ".state")


def test_a_release_keeps_its_ledger_outside_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUGARBUSH_STATE", raising=False)
    ledger = open_project(tmp_path, settings=params(privacy__purpose="release")).ledger()
    assert not ledger.path.is_relative_to(tmp_path)
