"""Tests that the page in git equals the page that is made from the figures in git."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from research.page import keep_page, write_page
from research.sweep_report import shown
from tests.research.test_sweep_page_template import figures

PAGES = Path(__file__).parents[2] / "docs" / "pages"


@pytest.mark.parametrize("name", ["leaderboard", "sweep"])
def test_a_kept_page_is_made_of_the_kept_figures(name: str, tmp_path: Path) -> None:
    copy = tmp_path / f"{name}.csv"
    copy.write_bytes((PAGES / f"{name}.csv").read_bytes())
    page = keep_page(copy, [], base=tmp_path)
    assert page.read_bytes() == (PAGES / f"{name}.html").read_bytes()


def test_of_grids_what_is_shown_is_kept(tmp_path: Path) -> None:
    write_page("one", figures(), intervals="", base=tmp_path)
    page = keep_page(tmp_path / "both.csv", ["one", "one=other"], base=tmp_path).read_text()
    assert "<h2>letters</h2>" in page
    assert "<h2>letters-other</h2>" in page
    kept = pd.read_csv(tmp_path / "both.csv")
    assert len(kept) == 2 * len(shown(figures()))
    assert set(kept.select_dtypes(exclude="number").columns) <= {
        "set", "arm", "method", "metric", "space"
    }  # fmt: skip
