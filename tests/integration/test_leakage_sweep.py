"""Tests of a sweep of kind `leakage`: which points run, and its page."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
import yaml
from prefect.logging import disable_run_logger

from research import sweep
from research.leakage.grid import TrainingMethod
from research.leakage_points import Points
from tests.settings import ROOT

FIGURES = {
    "noise": 0.0, "promised": 0.0, "delta": 1e-5, "perplexity": 3.0, "perplexity_outside": 1.5,
    "exposure_mean": 1.4, "exposure_highest": 4.2,
    **{f"{attack}_{kind}": 0.5 for attack in ("membership", "reference", "group")
       for kind in ("accuracy", "auc", "tpr_1")},
}  # fmt: skip


def test_a_grid_is_known_by_its_kind_and_finished_points_are_drawn_and_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = yaml.safe_load((ROOT / "research/settings/crt_figures_small.yaml").read_text())
    fields["sets"]["customersim"]["file"] = "texts.parquet"
    (tmp_path / "texts.parquet").touch()
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(fields))
    kept = Points(tmp_path, Path("grid.yaml"))
    for point in list(kept.unfinished()):
        kept.keep(point, FIGURES)
    started = []

    def run_here(module: str, *arguments: str) -> str:
        """Like `python -m module`, but in this process."""
        started.append(module)
        monkeypatch.setattr(sys, "argv", [module, *arguments])
        import_module(module).main()
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(sweep, "run_module", run_here)
    with disable_run_logger():
        sweep.sweep.fn("grid.yaml")
    assert "research.leakage_batch" not in started
    reports = tmp_path / "reports/internal/leakage/grid"
    table = pd.read_csv(reports / "table.csv")
    assert set(table["arm"]) == {arm.value for arm in TrainingMethod} - {"sdp"}
    assert (table["seeds"] == 1).all()
    assert "Mean exposure" in (reports / "index.html").read_text(encoding="utf-8")
    assert reports.stat().st_mode & 0o077 == 0
