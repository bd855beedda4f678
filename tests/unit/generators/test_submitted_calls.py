"""Tests of submitted calls if no installed package can collect their answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sugarbush.errors import StorageError
from sugarbush.generators.openai import submitted_calls
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.generators.openai.submitted_calls import (
    any_submitted,
    folder_in,
    reserved_by_submitted,
)


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitted_calls, "plugin_names", lambda group: ())


def test_nothing_is_submitted_in_a_new_state_folder(tmp_path: Path) -> None:
    assert reserved_by_submitted(tmp_path, account="letters") == (0, 0.0)
    assert not any_submitted(tmp_path, ["key"])


def test_a_run_with_submitted_calls_is_refused(tmp_path: Path) -> None:
    folder_in(tmp_path).mkdir()
    (folder_in(tmp_path) / "b.json").write_text("{}")
    with pytest.raises(StorageError, match="no installed package can collect the answers"):
        reserved_by_submitted(tmp_path, account="letters")
    with pytest.raises(StorageError, match="no installed package can collect the answers"):
        any_submitted(tmp_path, ["key"])


def test_settings_that_need_the_package_are_refused() -> None:
    with pytest.raises(ValueError, match="no installed package provides mode=batch"):
        OpenAI(model="m", base_url="http://127.0.0.1/v1", mode="batch")
