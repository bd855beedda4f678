"""The card counts the runs of which figures on held-out texts were shown."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sugarbush.data.schema import Schema
from sugarbush.errors import StorageError
from sugarbush.evolution.inputs import MetadataRelease, ReleaseSettings
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.population import Population, save_population
from sugarbush.evolution.settings import FirstLength
from sugarbush.evolution.writer import Writer
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import FinalSet
from sugarbush.methods.public import Public
from sugarbush.pipeline.shown_runs import note_shown, shown_count
from sugarbush.pipeline.stages.evaluate import release_id
from tests.integration.project import SCHEMA
from tests.unit.evolution.test_enlarge import Writing
from tests.unit.pipeline.small_project import run_stages, write_project


def test_each_run_counts_once_and_datasets_count_apart(tmp_path: Path) -> None:
    for runs in (["a"], ["a", "b"], ["b"], []):
        note_shown(tmp_path, "release-letters", runs)
    assert shown_count(tmp_path, "release-letters") == 2
    assert shown_count(tmp_path, "release-parcels") == 0


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    note_shown(tmp_path, "release-letters", ["a"])
    (path,) = tmp_path.glob("shown/*.json")
    path.write_text("{")
    with pytest.raises(StorageError, match="is damaged"):
        shown_count(tmp_path, "release-letters")


@pytest.mark.slow
def test_hidden_figures_are_not_computed_and_shown_ones_are_on_the_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    changes: dict[str, Any] = {"methods": ["public"], "evaluate__bootstrap": 2}

    def card(*, show: bool) -> str:
        write_project(tmp_path / "own", evaluate__show=show, **changes)
        run_stages(tmp_path / "own", without=frozenset())
        found = json.loads((tmp_path / "own/reports/public/release_card.json").read_text())
        return str(found["not_covered"])

    internal = tmp_path / "own/reports/internal"
    assert "no exact figures computed on real texts were shown" in card(show=False)
    assert not (internal / "index.html").exists()
    assert json.loads((internal / "metrics.json").read_text()) == {"final": {}}
    assert "shown for 1 run on this dataset" in card(show=True)
    assert (internal / "index.html").exists()
    assert "shown for 1 run on this dataset" in card(show=False)
    assert not (internal / "index.html").exists()


def test_one_run_with_other_texts_is_another_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model and its run stay the same with another top_k or another release.texts."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    project = write_project(tmp_path / "own", methods=["dpft"])
    (method,) = project.settings.chosen
    folder = tmp_path / "own/data/released/generate/dpft"
    folder.mkdir(parents=True)
    (folder / "release.json").write_text(json.dumps({"run": "r"}))
    (folder / "synthetic.jsonl").touch()
    found = []
    for texts in (("a", "b"), ("a", "c"), ("a", "b", "c"), ("a", "b")):
        size = len(texts)
        final = Population.first(texts, codes=np.zeros((size, 2), int), labels=np.zeros(size, int))
        save_population(final, project.schema.names, folder / "lineage.parquet")
        found.append(release_id(project, method))
    assert found[0] == found[3]
    assert len(set(found)) == 3


@pytest.mark.parametrize("texts", [None, 12])
def test_a_release_of_the_size_of_the_dp_count_names_the_charge_of_that_count(
    tmp_path: Path, texts: int | None
) -> None:
    """The texts of `public` depend on no record, but their number may depend on the DP count."""
    one = Population.first(("a",), codes=np.zeros((1, 2), int), labels=np.zeros(1, int))
    lineage = Lineage(final=one, usage=Usage(), ledger_ids=())
    writing = Writing(lambda i: f"letter number {i}")
    public = SimpleNamespace(
        release=ReleaseSettings(texts=texts), texts=texts or 9, seed=1,
        metadata=MetadataRelease(rows=np.zeros((3, 2), int), record_count=9.0, ledger_ids=("m",)),
        schema=Schema.model_validate(SCHEMA), donated=None, length=FirstLength(attribute=None),
            example_sets=0,
    )  # fmt: skip
    tools = SimpleNamespace(
        writer=lambda stage: Writer(generator=writing, max_dropped_share=0.5),
        encode=None,
        report=lambda line: None,
    )
    inputs = SimpleNamespace(public=public, tools=tools)

    made = Public().enlarge(inputs, FinalSet(lineage=lineage, run=""))  # type: ignore[arg-type]
    assert made.lineage.ledger_ids == (("m",) if texts is None else ())
