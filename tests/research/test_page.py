"""Tests of pages with several grids. Data sets with equal names stay separate."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from research.page import INTERVALS, joined, write_page
from tests.research.test_sweep_page_template import figures


def test_grids_are_joined_and_their_sets_told_apart(tmp_path: Path) -> None:
    for grid in ("one", "two"):
        write_page(grid, figures(), intervals=INTERVALS, base=tmp_path)
    together = joined(["one", "two=other"], base=tmp_path)
    written = write_page("both", together, intervals=INTERVALS, base=tmp_path).read_text()
    assert "<h2>letters</h2>" in written
    assert "Not finished" not in written
    assert "<h2>letters-other</h2>" in written
    table = pd.read_csv(tmp_path / "reports/internal/sweeps/both/table.csv")
    assert table.groupby("set").size().to_dict() == {"letters": 5, "letters-other": 5}


def test_rows_that_are_missing_are_named(tmp_path: Path) -> None:
    page = write_page("one", figures(), intervals="", base=tmp_path, missing=("a program",))
    assert "Not finished: a program." in page.read_text()
