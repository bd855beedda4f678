"""The flow over a leakage grid: its kind, what is finished, and the page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from research.leakage.grid import TrainingMethod
from research.leakage_points import Points
from tests.settings import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FIGURES = {
    "noise": 0.0, "promised": 0.0, "delta": 1e-5, "perplexity": 3.0, "perplexity_outside": 1.5,
    "exposure_mean": 1.4, "exposure_highest": 4.2,
    **{f"{attack}_{kind}": 0.5 for attack in ("membership", "reference", "group")
       for kind in ("accuracy", "auc", "tpr_1")},
}  # fmt: skip


def test_a_grid_is_known_by_its_kind_and_what_is_finished_is_drawn(tmp_path: Path) -> None:
    fields = yaml.safe_load((ROOT / "research/settings/crt_figures_small.yaml").read_text())
    fields["sets"]["customersim"]["file"] = "texts.parquet"
    (tmp_path / "texts.parquet").touch()
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(fields))
    kept = Points(tmp_path, Path("grid.yaml"))
    for point in list(kept.unfinished()):
        kept.keep(point, FIGURES)
    subprocess.run(
        [sys.executable, "-m", "research.sweep", "grid.yaml", "--jobs", "1"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SUGARBUSH_STATE": str(tmp_path / "state")},
        check=True,
    )
    reports = tmp_path / "reports/internal/leakage/grid"
    table = pd.read_csv(reports / "table.csv")
    assert set(table["arm"]) == {arm.value for arm in TrainingMethod} - {"sdp"}
    assert (table["seeds"] == 1).all()
    assert "Mean exposure" in (reports / "index.html").read_text(encoding="utf-8")
    assert reports.stat().st_mode & 0o077 == 0
