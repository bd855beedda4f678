"""Tests that `sugarbush.synthesize` gives the same results as the stages, if noise is replaced.

The texts, the finished results and their cache keys, the ledger entries and the card must be equal.
Only dates may differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import sugarbush as sb
from sugarbush.pipeline.stages.report import page_data
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.release.folders import final_folder
from sugarbush.report.card_values import release_card
from sugarbush.run.context import Project
from tests.integration.project import as_lines, letters
from tests.stand_ins import without_chance, write_key
from tests.synthesized import synthesize_frame
from tests.unit.pipeline.small_project import run_stages, seed_everything, write_project

CASES: dict[str, dict[str, Any]] = {
    "kernel_herding": {"methods": ["maple"], "methods__maple__scorer": "kernel"},
    "user": {
        "methods": ["maple"],
        "privacy__unit": "user",
        "privacy__records_per_user": 2,
        "prepare__user_column": "writer",
    },
    "mosaic": {"methods": ["mosaic"], "methods__mosaic__candidates": 16, "release__texts": 30},
    "dpft": {"methods": ["dpft"], "release__texts": 12},
    "dpft_scored": {
        "methods": ["dpft"],
        "methods__dpft__scored_texts": 24,
        "release__texts": 12,
    },
    "public figures": {
        "methods": ["mosaic"],
        "methods__mosaic__candidates": 16,
        "release__texts": 30,
        "release__accept_if": {"coverage": ">= 0.99"},
        "evaluate__public": 0.3,
    },
}
# Sections that are not arguments of `synthesize`.
FURTHER = ("evaluate", "release", "initialise", "synthesize_metadata", "embedding", "pretrain")


def by_stages(folder: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder.mkdir()
    state = write_key(folder / "state")
    monkeypatch.setenv("SUGARBUSH_STATE", str(state))
    project = write_project(folder / "project", **CASES[case])
    if case == "user":
        own = [r | {"writer": f"writer-{min(i % 60, 49)}"} for i, r in enumerate(letters(146)[6:])]
        (project.base / "letters.jsonl").write_text(as_lines(own))
    run_stages(project.base, before=seed_everything)
    return project


def by_api(project: Project, state: Path, monkeypatch: pytest.MonkeyPatch) -> sb.Release:
    settings = project.settings
    fields = yaml.safe_load((project.base / "params.yaml").read_text())
    further = {name: fields[name] for name in FURTHER}
    without_chance(monkeypatch)  # ids of ledger entries start at 1 again
    seed_everything()
    return synthesize_frame(
        pd.read_json(project.base / "letters.jsonl", lines=True),
        schema=project.base / "letters.schema.yaml",
        method=settings.chosen[0],
        generator=settings.generator.chosen,
        donated=pd.read_json(project.base / "donated.jsonl", lines=True),
        privacy=settings.privacy,
        user=settings.prepare.user_column,
        settings=further | {"prepare": {"min_records": fields["prepare"]["min_records"]}},
        state=write_key(state),
    )


def draws(state: Path) -> dict[str, bytes]:
    """Return the content of each file with finished results, by its path in the state folder."""
    files = (path for path in (state / "draws").rglob("*") if path.is_file())
    return {str(path.relative_to(state)): path.read_bytes() for path in files}


def charges(state: Path) -> list[dict[str, Any]]:
    """Return the entries of the ledger, without dates."""
    (ledger,) = (state / "ledgers").rglob("*.jsonl")
    return [undated(json.loads(line)) for line in ledger.read_text().splitlines()]


def undated(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in fields.items() if name not in {"time", "created", "seal"}
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_api_gives_what_the_stages_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    without_chance(monkeypatch)
    # The API and the stages give different names to private inputs, and cache keys contain them.
    monkeypatch.setattr(Snapshots, "of", lambda self, name, *, digest, **_: digest)
    # The stages write figures of the training on real texts and note this. The API shows none.
    noted: list[str] = []
    monkeypatch.setattr(Ledger, "note_shown", lambda self, what, **_: noted.append(what))
    project = by_stages(tmp_path / "stages", case, monkeypatch)
    by_training = ["training"] if project.settings.chosen[0].name == "dpft" else []
    assert noted == by_training
    release = by_api(project, tmp_path / "api", monkeypatch)
    assert noted == by_training
    saved = release.save(tmp_path / "saved")
    folder = final_folder(project.roots, project.settings.chosen[0])
    for name in ("synthetic.jsonl", "lineage.parquet", "usage.json"):
        assert (saved / name).read_bytes() == (folder / name).read_bytes(), name
    assert draws(tmp_path / "api") == draws(tmp_path / "stages" / "state")
    assert charges(tmp_path / "api") == charges(tmp_path / "stages" / "state")
    cards = (dict(release.card or {}), release_card(page_data(project).release).to_json())
    one, other = ([undated(e) for e in card["budget"].pop("events")] for card in cards)
    assert one == other
    assert undated(cards[0]) == undated(cards[1])
