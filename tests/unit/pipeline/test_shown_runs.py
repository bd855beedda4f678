"""The card counts the runs of which figures on held-out texts were shown."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.data.schema import Schema
from sugarbush.errors import StorageError
from sugarbush.evolution.evolve import Evolution, Writer
from sugarbush.evolution.population import Population
from sugarbush.evolution.settings import FirstLength
from sugarbush.generators.interface import Usage
from sugarbush.methods.dpft import DPFT
from sugarbush.methods.interface import FinalSet, MetadataRelease, Method, ReleaseSettings
from sugarbush.methods.public import Public
from sugarbush.pipeline.shown_runs import note_shown, shown_count
from sugarbush.privacy.data_types import Released
from tests.integration.project import SCHEMA, TINY_ENCODER, letters
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
    assert "no figures computed on real texts were shown" in card(show=False)
    assert not (internal / "index.html").exists()
    assert json.loads((internal / "metrics.json").read_text()) == {"final": {}}
    assert "shown for 1 run on this dataset" in card(show=True)
    assert (internal / "index.html").exists()
    assert "shown for 1 run on this dataset" in card(show=False)
    assert not (internal / "index.html").exists()


@pytest.mark.parametrize("method", [sb.Mosaic(candidates=20), sb.Maple(candidates=8, rounds=1)])
def test_a_release_with_other_texts_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    """`release.texts` changes only the texts that are written afterwards."""
    monkeypatch.syspath_prepend(TINY_ENCODER)
    rows = pd.DataFrame(letters(156))

    def released(**changes: Any) -> sb.Release:
        fields: dict[str, Any] = {"texts": 30} | changes
        return sb.synthesize(
            rows[6:], schema=SCHEMA, method=method, donated=rows[:6], state=tmp_path,
            privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"),
            settings={"embedding": {"model": "tiny"}, "synthesize_metadata": {"degree": 1}},
            **fields,
        )  # fmt: skip

    first, again, larger = released(), released(), released(texts=31)
    assert first.run == again.run != larger.run
    assert first.ledger_ids == larger.ledger_ids


def test_a_trained_model_that_is_sampled_in_another_way_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed and the model stay the same. Only the texts differ, as with another top_k."""
    from sugarbush.training.dpsgd import generate, models

    monkeypatch.setattr(models, "load", lambda name, device: (None, None))
    inputs = SimpleNamespace(
        schema=Schema.model_validate(SCHEMA), texts=2,
        metadata=MetadataRelease(rows=np.zeros((3, 2), dtype=np.int64), ledger_ids=("m",)),
    )  # fmt: skip
    runs = []
    for texts in (("a", "b"), ("a", "c"), ("a", "b")):
        made = generate.Generation(texts=texts, tokens=2, redrawn=0)
        released = Released(made, ("m",))
        monkeypatch.setattr(generate, "generate", lambda *_, found=released, **__: found)
        final = DPFT().generate(inputs, Released(tmp_path, ("m",)))  # type: ignore[arg-type]
        runs.append(final.run)
    assert runs[0] == runs[2] != runs[1]


@pytest.mark.parametrize("texts", [None, 12])
def test_a_release_of_the_size_of_the_dp_count_names_the_charge_of_that_count(
    tmp_path: Path, texts: int | None
) -> None:
    """The texts of `public` depend on no record, but their number may depend on the DP count."""
    one = Population.first(("a",), codes=np.zeros((1, 2), int), labels=np.zeros(1, int))
    evolution = Evolution(rounds=(), final=one, usage=Usage(), ledger_ids=())
    writing = Writing(lambda i: f"letter number {i}")
    inputs = SimpleNamespace(
        release=ReleaseSettings(texts=texts), texts=texts or 9, first_seed=1, evolve_seed=1,
        metadata=MetadataRelease(rows=np.zeros((3, 2), int), record_count=9.0, ledger_ids=("m",)),
        schema=Schema.model_validate(SCHEMA), donated=None, length=FirstLength(attribute=None),
        writer=lambda stage: Writer(generator=writing, max_dropped_share=0.5),
        report=lambda line: None,
    )  # fmt: skip

    made = Public().enlarge(inputs, FinalSet(evolution=evolution, run=""))  # type: ignore[arg-type]
    assert made.evolution.ledger_ids == (("m",) if texts is None else ())
