"""Tests that finished results in a state folder of version 0.1 are not drawn or charged again.

The training by DP-SGD is an exception. Version 0.1 chose its noise for one DP count. So this
training is drawn again, with a charge that covers every count.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from sugarbush.pipeline.project import Project
from sugarbush.privacy import budget
from sugarbush.privacy.events import DpSgdBound
from tests.settings import ROOT
from tests.unit.pipeline.small_project import run_stages

# The settings of these projects contain `generate.texts`, which was removed.
pytestmark = pytest.mark.filterwarnings("ignore::sugarbush.settings.RemovedSettingWarning")
SAVED = ROOT / "tests" / "fixtures" / "state_0_1"
# Folders of projects of version 0.1, and their numbers of charges.
PROJECTS = {"": 6, "second": 3}


def copied(name: str, target: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the project and its state folder. `SUGARBUSH_STATE` is set to the copied state folder.

    File modes are set here, because git does not store them.
    """
    shutil.copytree(SAVED / name / "project", target / "project")
    allow_the_simulator(target / "project")
    state = shutil.copytree(SAVED / name / "state", target / "state")
    for path in (state, *state.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    monkeypatch.setenv("SUGARBUSH_STATE", str(state))
    monkeypatch.delenv("DVC_STAGE", raising=False)
    return target / "project"


def allow_the_simulator(base: Path) -> None:
    """Allow the simulator for the letters, which version 0.1 did without a setting."""
    path = base / "params.yaml"
    fields = yaml.safe_load(path.read_text())
    fields["generator"]["simulator"] = {"any_texts": True}
    path.write_text(yaml.safe_dump(fields, sort_keys=False))


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return copied("", tmp_path, monkeypatch)


def files(folder: Path) -> dict[str, str]:
    """Return a digest of every file except locks."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("lock")
    }


def round_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the noise of every plan by a relative 1e-12, as another CPU would."""
    mu_of = budget.mu_of
    monkeypatch.setattr(budget, "mu_of", lambda **promise: mu_of(**promise) * (1 + 1e-12))
    monkeypatch.setattr(budget, "_plan", budget._plan.__wrapped__)  # without a cache


@pytest.mark.slow
@pytest.mark.parametrize("name", PROJECTS)
@pytest.mark.parametrize("data", ["with its data", "without data, on another CPU"])
def test_a_state_of_0_1_is_charged_nothing_and_keeps_its_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: str
) -> None:
    base = copied(name, tmp_path, monkeypatch)
    if data != "with its data":
        shutil.rmtree(base / "data")
        round_otherwise(monkeypatch)
    run_stages(base)
    project, old = Project(base), SAVED / name / "project" / "data" / "released"
    entries = project.ledger().entries()
    trained = [entry for entry in entries if isinstance(entry.event, DpSgdBound)]
    trains = (old / "finetuned/model.safetensors").exists()
    assert [entry.stage for entry in trained] == ["finetune"] * trains
    assert len(entries) == PROJECTS[name] + len(trained)
    for path in (SAVED / name / "state/ledgers").rglob("*.jsonl"):
        now = tmp_path / "state/ledgers" / path.relative_to(SAVED / name / "state/ledgers")
        assert now.read_bytes().startswith(path.read_bytes())
    draws, before = files(tmp_path / "state/draws"), files(SAVED / name / "state/draws")
    added = {path for path in draws if "/finetune-" in path} - before.keys()
    assert {path: draws[path] for path in draws.keys() - added} == before
    assert bool(added) == bool(trained)
    for path in [*old.rglob("votes.npy"), *old.rglob("labels.npy"), *old.rglob("survivors.npy")]:
        restored = np.load(project.roots.released / path.relative_to(old))
        assert np.array_equal(restored, np.load(path)), path
    for path in [*old.rglob("rows.parquet"), *(finals := list(old.glob("evolve/*/final.parquet")))]:
        now = path.with_name(path.name.replace("final", "lineage")).relative_to(old)
        again = pd.read_parquet(project.roots.released / now).drop(
            columns="examples", errors="ignore"
        )
        pd.testing.assert_frame_equal(again, pd.read_parquet(path))
    assert finals


def test_the_ledger_of_0_1_has_the_charges_of_its_card(first: Path) -> None:
    """0.1 computed totals as if all settings had been fixed in advance, and its entries do not say
    which of them were. Its totals are too small by at most 6%."""
    ledger = Project(first).ledger()
    old = json.loads((first / "reports/public/release_card.json").read_text())
    assert [entry.id for entry in ledger.entries()] == [e["id"] for e in old["budget"]["events"]]
    total = old["budget"]["dataset_total_epsilon"]
    assert total <= ledger.total() <= 1.06 * total
    assert ledger.cap == old["budget"]["dataset_cap_epsilon"]
