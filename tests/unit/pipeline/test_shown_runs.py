"""The card counts the runs of which figures on held-out texts were shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sugarbush.errors import StorageError
from sugarbush.pipeline.shown_runs import note_shown, shown_count
from tests.unit.pipeline.small_project import run_stages, write_project


def test_each_run_counts_once_and_datasets_count_apart(tmp_path: Path) -> None:
    for runs in (["a"], ["a", "b"], ["b"], []):
        note_shown(tmp_path, "release-letters", runs)
    assert shown_count(tmp_path, "release-letters") == 2
    assert shown_count(tmp_path, "release-parcels") == 0


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    note_shown(tmp_path, "release-letters", ["a"])
    (path,) = tmp_path.glob("shown/*.json")
    path.write_text("{")
    with pytest.raises(StorageError, match="is damaged"):
        shown_count(tmp_path, "release-letters")


@pytest.mark.slow
def test_hidden_figures_are_not_computed_and_shown_ones_are_on_the_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    changes: dict[str, Any] = {"methods": ["public"], "evaluate__bootstrap": 2}

    def card(*, show: bool) -> str:
        write_project(tmp_path / "own", evaluate__show=show, **changes)
        run_stages(tmp_path / "own", without=frozenset())
        found = json.loads((tmp_path / "own/reports/public/release_card.json").read_text())
        return str(found["not_covered"])

    internal = tmp_path / "own/reports/internal"
    assert "no figures computed on real texts were shown" in card(show=False)
    assert not (internal / "index.html").exists()
    assert json.loads((internal / "metrics.json").read_text()) == {"final": {}}
    assert "shown for 1 run on this dataset" in card(show=True)
    assert (internal / "index.html").exists()
    assert "shown for 1 run on this dataset" in card(show=False)
    assert not (internal / "index.html").exists()
