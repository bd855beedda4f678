"""Tests of `nonprivate`, the method without noise. It is measured like other methods, but its
output is kept separate from everything that is released."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from sugarbush.errors import ParamsError
from sugarbush.privacy.events import NonPrivate
from sugarbush.run.ledgers import uncapped_ledger
from sugarbush.run.records import snapshots_of
from tests.integration.project import Checkout
from tests.pipelines import FinishedPipelines, opened
from tests.settings import params

RESULTS = "data/private/arms/nonprivate"


@pytest.fixture
def project(finished: FinishedPipelines) -> Checkout:
    """The project after all stages have run on a small public corpus. Tests only read it."""
    return finished("nonprivate")


def test_votes_are_counted_without_noise(project: Checkout) -> None:
    votes = np.load(project.path / RESULTS / "round_001" / "scores.npy")
    train = pd.read_parquet(project.path / "data/private/prepared/train.parquet")
    assert votes.sum() == len(train)
    assert votes.min() >= 0


def test_every_use_of_the_data_is_noted_as_not_private_and_no_budget_is_spent(
    project: Checkout,
) -> None:
    with opened(project) as inside:
        ledger = uncapped_ledger(inside, "nonprivate")
    assert [entry.event for entry in ledger.entries()] == [NonPrivate(), NonPrivate()]
    assert ledger.total() == math.inf
    note = json.loads((project.path / RESULTS / "release.json").read_text())
    assert note["ledger_ids"] == [entry.id for entry in ledger.entries()]
    assert note["publishable"] is False


def test_its_texts_are_nowhere_outside_the_private_root(project: Checkout) -> None:
    """In place of the texts, DVC gets a file that contains a random identifier."""
    assert (project.path / RESULTS / "enlarge" / "synthetic.jsonl").exists()
    for stage in ("initial", "evolve"):
        released = project.path / "data/released" / stage / "nonprivate"
        assert [path.name for path in released.iterdir()] == ["private.json"]
    card = json.loads((project.path / "reports/public/release_card.json").read_text())
    assert "nonprivate" not in json.dumps(card)
    assert "nonprivate" not in (project.path / "reports/public/metrics.json").read_text()
    assert (project.path / RESULTS).stat().st_mode & 0o077 == 0


def test_dvc_gets_random_names_of_private_results_and_no_digest(project: Checkout) -> None:
    """A digest, even a keyed one, would show whether two results are equal."""
    with opened(project) as inside:
        given = snapshots_of(inside).given()
    for stage in ("initial", "evolve", "enlarge"):
        stamp = project.path / "data/released" / stage / "nonprivate/private.json"
        (name,) = json.loads(stamp.read_text()).values()
        assert name in given


def test_it_is_measured_beside_the_methods_with_a_guarantee(project: Checkout) -> None:
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
