"""Tests of the values that the table of a sweep reads from its points."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from research.sweep_points import load_fields
from research.sweep_table import collected
from sugarbush.errors import MissingInputError
from tests.settings import ROOT

FILE = Path("sweep.yaml")
SWEEP = {
    "kind": "pipelines",
    "sets": {"letters": {"file": "set.yaml"}},
    "epsilons": [1.0],
    "seeds": [1],
    "settings": {},
    "evolution": {},
    "arms": {"full": {"method": "maple"}, "other": {"method": "maple"}},
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Make the folder of a sweep with two points. Both points have figures."""
    public = {"privacy": {"purpose": "benchmark", "dataset": "letters"}}
    for name, fields in {
        "sweep.yaml": SWEEP, "set.yaml": public, "params.yaml": load_fields(ROOT / "params.yaml"),
    }.items():  # fmt: skip
        (tmp_path / name).write_text(yaml.safe_dump(fields))
    figure = {"metric": "mauve", "space": "encoder", "value": 0.5, "low": None, "high": None,
              "method": "maple", "round": -1}  # fmt: skip
    for arm in SWEEP["arms"]:
        own = tmp_path / f"data/private/sweeps/sweep/letters/{arm}-epsilon-1-seed-1"
        for name, left, usage in (
            ("initial", "candidates.parquet", {"calls": 4}),
            ("evolve", "lineage.parquet", {"final": {"calls": 0}}),
            ("enlarge", "synthetic.jsonl", {"final": {"calls": 0}}),
        ):
            folder = own / "data/released" / name / "maple"
            folder.mkdir(parents=True)
            (folder / left).touch()
            (folder / "usage.json").write_text(json.dumps(usage))
        (own / "reports/internal").mkdir(parents=True)
        pd.DataFrame([figure]).to_csv(own / "reports/internal/figures.csv", index=False)
    return tmp_path


def test_a_point_that_failed_has_no_figures_of_the_settings_that_it_had_before(base: Path) -> None:
    assert set(collected(base, FILE).figures["arm"]) == {"full", "other"}
    failed = base / "data/private/sweeps/sweep/letters/other-epsilon-1-seed-1"
    page = collected(base, FILE, without=[failed])
    assert set(page.figures["arm"]) == {"full"}
    assert page.missing == ("letters/other-epsilon-1-seed-1",)


def test_a_sweep_of_which_nothing_is_finished_says_how_to_start_it(base: Path) -> None:
    folder = base / "data/private/sweeps/sweep/letters"
    with pytest.raises(MissingInputError, match=r"python -m research\.sweep sweep\.yaml"):
        collected(base, FILE, without=list(folder.iterdir()))
