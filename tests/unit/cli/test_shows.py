"""Tests that a text and its values are printed unchanged on the terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from sugarbush.cli.shows import show_stage
from sugarbush.errors import StorageError
from sugarbush.evolution.population import Population, save_population
from sugarbush.release.folders import write_release
from tests.settings import ROOT, params

SCHEMA = {
    "subject": "letters",
    "attributes": [{"name": "code_of_shop", "column": "shop", "values": ["007", "7"]}],
}


def test_a_first_candidate_is_shown_as_it_is_with_its_values(tmp_path: Path) -> None:
    folder, public = tmp_path / "data/released/initial/maple", tmp_path / "data/public/example"
    for each in (folder, public):
        each.mkdir(parents=True)
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    (public / "schema.yaml").write_text(json.dumps(SCHEMA))
    text = "Dear [/b] shop, my [red]lamp[/red] broke."
    population = Population.first([text], codes=np.zeros((1, 1), dtype=np.int64))
    save_population(population, ["code_of_shop"], folder / "candidates.parquet")
    (folder / "usage.json").write_text("{}")
    write_release(
        folder, stage="initialise", privacy=params().privacy, ledger_ids=(), run="r", ledger=None
    )
    # without a ledger, no seal
    fields = json.loads((folder / "release.json").read_text())
    (folder / "release.json").write_text(json.dumps({**fields, "seal": ""}))
    printed = io.StringIO()
    console = Console(file=printed, width=100)
    show_stage(tmp_path, "initial", method="maple", rows=1, internal=False, console=console)
    assert text in printed.getvalue() and "code_of_shop: 007" in printed.getvalue()


@pytest.mark.parametrize(
    ("stage", "file", "content"),
    [
        ("synthetic", "enlarge/maple/synthetic.jsonl", b"{}"),
        ("synthetic", "enlarge/maple/synthetic.jsonl", b'{"text": "cut'),
        ("evolve", "evolve/maple/usage.json", b"[3]"),
        ("initial", "initial/maple/candidates.parquet", b"PAR1"),
        ("metrics", "../../reports/public/metrics.json", b"\xff"),
    ],
)
def test_a_damaged_file_of_a_stage_is_one_message(
    stage: str, file: str, content: bytes, tmp_path: Path
) -> None:
    public, path = tmp_path / "data/public/example", tmp_path / "data/released" / file
    for each in (public, path.parent, tmp_path / "reports/public"):
        each.mkdir(parents=True, exist_ok=True)
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    (public / "schema.yaml").write_text(json.dumps(SCHEMA))
    path.write_bytes(content)
    with pytest.raises(StorageError, match=f"show {stage}: a file .* is damaged") as refusal:
        show_stage(
            tmp_path,
            stage,
            method="maple",
            rows=1,
            internal=False,
            console=Console(file=io.StringIO()),
        )
    assert "\n" not in str(refusal.value)
