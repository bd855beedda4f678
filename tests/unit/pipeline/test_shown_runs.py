"""The card counts the runs of which exact figures on real texts were shown."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sugarbush.api.ledgers import open_ledger
from sugarbush.data.schema import Schema
from sugarbush.errors import LedgerError
from sugarbush.evolution.inputs import MetadataRelease, ReleaseSettings
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.population import Population, save_population
from sugarbush.evolution.settings import FirstLength
from sugarbush.evolution.writer import Writer
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import FinalSet
from sugarbush.methods.public import Public
from sugarbush.pipeline.stages.evaluate import release_id
from sugarbush.privacy.events import GaussianDp
from tests.integration.project import SCHEMA
from tests.unit.evolution.test_enlarge import Writing
from tests.unit.pipeline.small_project import run_stages, write_project


def test_each_run_counts_once_and_datasets_count_apart(tmp_path: Path) -> None:
    letters, parcels = (open_ledger(name, state=tmp_path) for name in ("letters", "parcels"))
    for runs in (["a"], ["a", "b"], ["b"], []):
        letters.note_shown("evaluation", of=runs)
    letters.note_shown("audit")
    assert letters.shown() == {"evaluation": 2, "audit": 1}
    assert parcels.shown() == {}


def test_a_note_of_shown_figures_is_no_charge_and_changes_the_state_of_the_ledger(
    tmp_path: Path,
) -> None:
    """So a card without the note is old, and is not published."""
    ledger = open_ledger("letters", cap=2.0, state=tmp_path)
    ledger.charge(GaussianDp(mu=0.1), stage="evolve", run="r")
    snapshot, total = ledger.snapshot(), ledger.total()
    snapshot.note_shown("evaluation", of=["a"])
    assert ledger.head() != snapshot.head() and not snapshot.shown()
    assert ledger.total() == total and ledger.cap == 2.0 and len(ledger.entries()) == 1
    ledger.charge(GaussianDp(mu=0.1), stage="evolve", run="r")
    assert ledger.snapshot().shown() == {"evaluation": 1} and len(ledger.entries()) == 2
    edited = ledger.path.read_text().replace('"shown":"evaluation"', '"shown":"nothing"')
    ledger.path.write_text(edited)
    with pytest.raises(LedgerError, match="does not match its seal"):
        ledger.shown()


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
    assert "Sugarbush showed no exact figures of quality on real texts" in card(show=False)
    assert not (internal / "index.html").exists()
    assert json.loads((internal / "metrics.json").read_text()) == {"final": {}}
    assert "exact figures on real texts for this dataset: evaluation (1)" in card(show=True)
    assert (internal / "index.html").exists()
    assert "exact figures on real texts for this dataset: evaluation (1)" in card(show=False)
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
            example_sets=0, mix=None, asked=None,
    )  # fmt: skip
    tools = SimpleNamespace(
        writer=lambda stage: Writer(generator=writing, max_dropped_share=0.5),
        encode=None,
        report=lambda line: None,
    )
    inputs = SimpleNamespace(public=public, tools=tools)

    made = Public().enlarge(inputs, FinalSet(lineage=lineage, run=""))  # type: ignore[arg-type]
    assert made.lineage.ledger_ids == (("m",) if texts is None else ())
