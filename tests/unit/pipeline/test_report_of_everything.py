"""The card counts every charge of the dataset, also of what earlier runs left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sugarbush.errors import ParamsError
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.pipeline.graph import stage_named
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.events import GaussianDp
from sugarbush.release.own_charges import spending_of_release
from sugarbush.run.context import Project
from sugarbush.run.tools import method_inputs
from tests.settings import params


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    changes: dict[str, Any] = {"privacy__purpose": "release", "privacy__dataset": "letters"}
    changes |= {"prepare__file": "letters.jsonl", "prepare__donated": None}
    return open_project(tmp_path, settings=params(methods=["augpe"], **changes))


def write_folder(project: Project, name: str, ids: list[str], dataset: str = "letters") -> None:
    folder = project.roots.released / name
    folder.mkdir(parents=True)
    fields = {"dataset": dataset, "purpose": "release", "ledger_ids": ids}
    (folder / "release.json").write_text(json.dumps(fields))


def test_the_release_counts_what_a_method_left_that_is_no_longer_chosen(project: Project) -> None:
    """Also after its folder was deleted: the ledger decides, and not the folders."""
    ledger = project.ledger(rehearse=False)
    metadata, now, before, gone = (
        ledger.charge(GaussianDp(mu=0.1), stage="evolve", run="r") for _ in range(4)
    )
    write_folder(project, "metadata", [metadata])
    write_folder(project, "enlarge/augpe", [now])
    (project.roots.released / "enlarge/augpe/synthetic.jsonl").touch()
    write_folder(project, "evolve/maple", [now, before])
    write_folder(project, "evolve/other", [gone], dataset="parcels")
    for _ in range(2):
        spending = spending_of_release(project.roots, project.settings.released, ledger)
        assert spending is not None
        assert [entry.id for entry in spending.own] == [metadata, now]
        assert [entry.id for entry in spending.others] == [before, gone]
        assert spending.epsilon == ledger.total() > spending.of_run
        shutil.rmtree(project.roots.released / "evolve")
        (project.roots.released / "evolve").mkdir()


def test_the_audit_reads_the_release_after_it_was_enlarged() -> None:
    assert "data/released/enlarge" in stage_named("audit").inputs
    assert "data/released/enlarge" in stage_named("evaluate").inputs


def test_delta_is_compared_with_the_noisy_counts_of_labels_too(project: Project) -> None:
    (method,) = project.settings.chosen
    privacy = project.settings.privacy.model_copy(update={"delta": 1e-5})
    own = open_project(
        project.base, settings=project.settings.model_copy(update={"privacy": privacy})
    )
    metadata = MetadataRelease(labels=np.array([150_000, 60_000]), label="topic")
    with pytest.raises(ParamsError, match=r"above 1 / .DP count of records"):
        method_inputs(own, method, stage="evolve", metadata=metadata)
