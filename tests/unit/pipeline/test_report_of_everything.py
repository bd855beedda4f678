"""The card covers everything in data/released, also what earlier runs left there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sugarbush.errors import ParamsError
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.pipeline.graph import stage_named
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.project_in_folder import open_project
from sugarbush.pipeline.stages.report import _ids_of_earlier_runs
from sugarbush.privacy.events import GaussianDp
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


def test_the_card_counts_what_a_method_left_that_is_no_longer_chosen(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = project.ledger()
    now, before, gone = (
        ledger.charge(GaussianDp(mu=0.1), stage="evolve", run="r") for _ in range(3)
    )
    write_folder(project, "evolve/augpe", [now])
    write_folder(project, "evolve/maple", [now, before])
    write_folder(project, "evolve/other", [gone], dataset="parcels")
    write_folder(project, "evolve/example", ["not in the ledger"])
    known = {entry.id for entry in ledger.entries()}
    assert _ids_of_earlier_runs(project, [now], known=known) == [before]
    said = capsys.readouterr().out
    assert "counts 1 charges of earlier runs" in said and "data/released/evolve/maple" in said
    assert _ids_of_earlier_runs(project, [now, before], known=known) == []
    assert not capsys.readouterr().out


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
        own.method_inputs(method, stage="evolve", metadata=metadata)
