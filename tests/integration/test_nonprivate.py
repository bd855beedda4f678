"""The ceiling without noise: measured beside the others, kept apart from all that is released.

The stages run in this process, in DVC's order, so that the libraries are loaded once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

from sugarbush.errors import ParamsError
from sugarbush.pipeline import skipping as where_needed
from sugarbush.pipeline.budget import open_uncapped_ledger
from sugarbush.pipeline.settings import Method, load_params
from sugarbush.privacy.events import NonPrivate
from tests.integration.project import SMALL_EVOLUTION, Project, make_project
from tests.settings import params

ARM = "data/private/arms/nonprivate"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A small corpus, run once from the first stage to the last."""
    folder = tmp_path_factory.mktemp("nonprivate")
    own = {f"evolve__nonprivate__{name}": value for name, value in SMALL_EVOLUTION.items()}
    made = make_project(
        folder / "checkout", folder / "state", methods=["maple", "nonprivate"],
        privacy__purpose="benchmark", **own,
    )  # fmt: skip
    settings = load_params(made.path / "params.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(made.state))
        for name in ("fingerprint", "prepare", "extract_metadata", "synthesize_metadata"):
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, settings)
        for name in ("initialise", "evolve"):
            for method in (Method.MAPLE, Method.NONPRIVATE):
                import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, settings, method)
        for name in ("pretrain", "finetune", "generate", "crt", "nonprivate"):
            where_needed.run(made.path, settings, name)
        for name in ("evaluate", "report"):
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, settings)
        yield made


def test_votes_are_counted_without_noise(project: Project) -> None:
    votes = np.load(project.path / ARM / "round_001" / "votes.npy")
    train = pd.read_parquet(project.path / "data/private/prepared/train.parquet")
    assert votes.sum() == len(train)
    assert votes.min() >= 0


def test_every_look_is_noted_as_not_private_and_no_budget_is_spent(project: Project) -> None:
    settings = load_params(project.path / "params.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(project.state))
        ledger = open_uncapped_ledger(settings, project.path, kind="nonprivate")
    assert [entry.event for entry in ledger.entries()] == [NonPrivate(), NonPrivate()]
    assert ledger.total() == math.inf
    note = json.loads((project.path / ARM / "release.json").read_text())
    assert note["ledger_ids"] == [entry.id for entry in ledger.entries()]
    assert note["publishable"] is False


def test_its_texts_are_nowhere_outside_the_private_root(project: Project) -> None:
    assert (project.path / ARM / "synthetic.jsonl").exists()
    for method_folder in ("initial", "evolve"):
        left = project.path / "data/released" / method_folder / "nonprivate"
        assert [path.name for path in left.iterdir()] == ["not_needed.txt"]
    card = json.loads((project.path / "reports/public/release_card.json").read_text())
    assert "nonprivate" not in json.dumps(card)
    assert "nonprivate" not in (project.path / "reports/public/metrics.json").read_text()
    assert (project.path / ARM).stat().st_mode & 0o077 == 0


def test_it_is_measured_beside_the_arms_with_a_guarantee(project: Project) -> None:
    figures = pd.read_csv(project.path / "reports/internal/figures.csv")
    final = figures[figures["round"] == -1]
    assert {"maple", "nonprivate", "real"} <= set(final["method"])
    texts = final[final["metric"] == "texts"].set_index("method")["value"]
    assert texts["maple"] == texts["nonprivate"] == texts["real"]
    assert set(figures[figures["method"] == "nonprivate"]["round"]) == {0, 1, -1}


def test_a_corpus_that_is_not_declared_public_is_refused() -> None:
    own = {"prepare__file": "letters.jsonl", "privacy__purpose": "release"}
    with pytest.raises(ParamsError, match="protects nobody"):
        params(methods=["nonprivate"], **own)
    assert params(methods=["nonprivate"], **(own | {"privacy__purpose": "benchmark"}))
