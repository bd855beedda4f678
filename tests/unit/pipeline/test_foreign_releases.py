"""Tests that a project with releases which its ledger does not count is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sugarbush.errors import LedgerError
from sugarbush.pipeline.foreign_releases import refuse_foreign_releases
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.run_stage import execute
from sugarbush.project.check import checks
from sugarbush.project.run import run
from sugarbush.run.records import snapshots_of
from tests.settings import params
from tests.unit.pipeline.small_project import write_project

PLAN = [{"name": "metadata", "mu": 0.1, "count": 1, "sensitivity": 1.0}]


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return write_project(tmp_path / "project", methods=["maple", "dpft"]).base


def write_release(base: Path, **changes: Any) -> None:
    folder = base / "data/released/evolve/maple"
    folder.mkdir(parents=True, exist_ok=True)
    fields = {"dataset": "letters", "purpose": "release", "unit": "record", "ledger_ids": []}
    (folder / "release.json").write_text(json.dumps(fields | changes))


def write_lock(base: Path, name: str, stage: str = "evolve@maple", **changes: Any) -> None:
    """Write a dvc.lock with one stage, which read the private texts of the name `name`."""
    stamp = hashlib.md5((json.dumps({"stamp": name}) + "\n").encode()).hexdigest()
    entry = {
        "cmd": "exec python -m tasks.evolve",
        "deps": [
            {"path": "data/stamps/schema.json", "md5": "0" * 32},
            {"path": "data/stamps/train_texts.json", "md5": stamp},
        ],
        "params": {"data/stamps/settings.json": {
            "settings.privacy.dataset": "letters", "settings.privacy.purpose": "release",
            "plan.metadata": [PLAN, None],
        }},
        "outs": [{"path": "data/released/evolve/maple", "md5": "1.dir", "size": 900, "nfiles": 7}],
    }  # fmt: skip
    (base / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": {stage: entry}}))
    change_lock(base, stage, **changes)


def change_lock(base: Path, stage: str, **changes: Any) -> None:
    lock = yaml.safe_load((base / "dvc.lock").read_text())
    for key, value in changes.items():
        if key in ("dataset", "purpose"):
            settings = lock["stages"][stage]["params"]["data/stamps/settings.json"]
            settings[f"settings.privacy.{key}"] = value
        elif key == "plan":
            lock["stages"][stage]["params"]["data/stamps/settings.json"]["plan.metadata"] = value
        else:
            lock["stages"][stage]["outs"][0][key] = value
    (base / "dvc.lock").write_text(yaml.safe_dump(lock))


def refuse(base: Path) -> None:
    refuse_foreign_releases(open_project(base))


@pytest.mark.parametrize(
    ("setting", "value"), [("dataset", "parcels"), ("purpose", "benchmark"), ("unit", "user")]
)
def test_a_release_with_other_settings_in_data_released_is_refused(
    base: Path, setting: str, value: str
) -> None:
    write_release(base)
    refuse(base)
    write_release(base, **{setting: value})
    with pytest.raises(LedgerError, match=rf"privacy\.{setting}: {value}") as refused:
        refuse(base)
    assert "mv data/released" in str(refused.value)
    assert "data/released/evolve/maple" in str(refused.value)


def test_a_release_of_the_example_is_refused_beside_private_data(base: Path) -> None:
    write_release(base, dataset="example", purpose="example")
    with pytest.raises(LedgerError, match=r"privacy\.purpose: example"):
        refuse(base)


def foreign_folder(base: Path) -> None:
    write_release(base, dataset="parcels")


def foreign_lock(base: Path) -> None:
    write_lock(base, "a name of another machine")


@pytest.mark.parametrize("foreign", [foreign_folder, foreign_lock])
def test_every_stage_and_command_refuses_before_any_charge(base: Path, foreign: Any) -> None:
    foreign(base)
    needed = 0
    for stage in STAGES:
        project = open_project(base)
        methods = project.settings.chosen if stage.by_method else (None,)
        for method in methods:
            if stage.is_needed(project.settings, method):
                needed += 1
                with pytest.raises(LedgerError, match="release"):
                    execute(stage, project, method)
    assert needed > 9
    with pytest.raises(LedgerError, match="release"):
        list(checks(open_project(base)))
    with pytest.raises(LedgerError, match="release"):
        run(base, force=False, only_example=False, say=print, warn=print)
    assert open_project(base).ledger().entries() == ()


@pytest.mark.parametrize("stage", ["synthesize_metadata", "evolve@maple", "finetune@dpft"])
def test_a_release_of_another_state_folder_in_dvc_lock_is_refused(base: Path, stage: str) -> None:
    names = snapshots_of(open_project(base))
    mine = names.of("train_texts", digest="a")
    write_lock(base, mine, stage)
    refuse(base)
    names.of("train_texts", digest="b")  # the corpus changed, and git has an older dvc.lock
    refuse(base)
    write_lock(base, "a name of another machine", stage)
    with pytest.raises(LedgerError, match="SUGARBUSH_STATE") as refused:
        refuse(base)
    assert stage in str(refused.value) and "delete dvc.lock" in str(refused.value)


def test_stages_of_dvc_lock_that_released_nothing_are_accepted(base: Path) -> None:
    other = "a name of another machine"
    write_lock(base, other, nfiles=1)  # a marker, or the stamp of a method without DP
    refuse(base)
    write_lock(base, other, "synthesize_metadata", plan=[None, None])
    refuse(base)
    for stage in ("prepare", "initialise@maple", "report", "a stage of the user"):
        write_lock(base, other, stage)
        refuse(base)


def test_releases_of_other_datasets_in_dvc_lock_are_accepted(base: Path) -> None:
    """The way out for other data."""
    for changes in ({"dataset": "parcels"}, {"purpose": "benchmark"}):
        write_lock(base, "a name of another machine", **changes)
        refuse(base)


@pytest.mark.parametrize("purpose", ["example", "benchmark"])
def test_public_data_need_no_ledger_of_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purpose: str
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    fields = {"privacy__purpose": purpose, "privacy__dataset": "letters"}
    if purpose == "benchmark":
        fields["prepare__file"] = "letters.jsonl"
    project = open_project(tmp_path, settings=params(**fields))
    write_lock(tmp_path, "a name of another machine", purpose=purpose)
    refuse_foreign_releases(project)


@pytest.mark.parametrize(
    "content", ["", "<<<<<<< HEAD\n", "stages: 3", "stages: {evolve@maple: 3}", "\x00"]
)
def test_a_damaged_dvc_lock_is_refused(base: Path, content: str) -> None:
    (base / "dvc.lock").write_text(content)
    with pytest.raises(LedgerError, match="cannot be read"):
        refuse(base)
