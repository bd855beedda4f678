"""Tests that markup in a text is printed unchanged on the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
from rich.console import Console

from sugarbush.cli.shows import show_stage
from tests.settings import ROOT


def test_a_text_that_looks_like_markup_is_shown_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "data/released/initial/maple"
    folder.mkdir(parents=True)
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    text = "Dear [/b] shop, my [red]lamp[/red] broke."
    pd.DataFrame({"text": [text]}).to_parquet(folder / "candidates.parquet")
    printed = io.StringIO()
    console = Console(file=printed, width=100)
    show_stage(tmp_path, "initial", method="maple", rows=1, internal=False, console=console)
    assert text in printed.getvalue()
