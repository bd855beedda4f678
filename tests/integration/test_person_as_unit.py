"""Runs every stage that spends budget with the user as the unit of privacy.

The users have several letters.
"""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch

from sugarbush.errors import LedgerError
from sugarbush.methods.dpft import DPFT, _load_start
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.events import DiscreteGaussian, GaussianDp, PoissonGaussian
from sugarbush.privacy.unit import Unit
from sugarbush.release.folders import read_metadata
from sugarbush.run.tools import method_inputs
from tests.integration.project import Checkout
from tests.pipelines import PERSON, FinishedPipelines, opened

AT_MOST = 3


@pytest.fixture
def project(finished: FinishedPipelines) -> Checkout:
    """Return a project whose stages charged four mechanisms: the table, the counts of one label,
    the votes and a training. Tests only read it.
    """
    return finished("persons")


def test_every_charge_is_per_person_and_together_they_stay_within_epsilon(
    project: Checkout,
) -> None:
    charged = project.charges()
    assert {entry.unit for entry in charged} == {Unit.USER}
    looks = [entry.event for entry in charged if entry.stage == "look"]
    table, labels, votes, training = (entry.event for entry in charged if entry.stage != "look")
    assert isinstance(table, GaussianDp)
    assert isinstance(training, PoissonGaussian)
    for counts in (labels, votes):
        assert isinstance(counts, DiscreteGaussian)
        assert counts.sensitivity == AT_MOST
    with opened(project) as inside:
        left = inside.plan.of("votes:augpe").event
    assert 0.98 < epsilon([*looks, table, labels, votes, training, left], delta=1e-6) <= 1.0


def test_the_table_was_measured_with_noise_for_all_of_a_persons_records(project: Checkout) -> None:
    made = json.loads((project.path / "data/released/metadata/table.json").read_text())
    for measured in made["measurements"]:
        assert measured["stddev"] * measured["mu"] >= AT_MOST


def test_the_units_of_training_are_persons(project: Checkout) -> None:
    with opened(project) as inside:
        method = inside.settings.method("dpft")
        assert isinstance(method, DPFT)
        inputs = method_inputs(
            inside, method, stage="finetune", metadata=read_metadata(inside.roots)
        )
        start = method.training
        _, tokenizer = _load_start(start, inputs.public.pretrained, torch.device("cpu"))
        units = method._units(inputs, tokenizer)
    train = pd.read_parquet(project.path / "data/private/prepared/train.parquet")
    assert sorted(map(len, units._per_unit)) == sorted(train["user"].value_counts())


def test_the_card_of_the_model_names_the_unit_that_it_protects(project: Checkout) -> None:
    released = project.path / "data/released/finetune/dpft"
    card = json.loads((released / "model_card.json").read_text())
    assert (card["unit"], card["records_per_unit"]) == ("user", AT_MOST)
    assert card["sampling_rate"] == pytest.approx(20 / 60)


def test_no_file_outside_the_users_own_names_a_person(project: Checkout) -> None:
    prepared = project.path / "data/private/prepared"
    used = pd.concat(pd.read_parquet(prepared / f"{p}.parquet") for p in ("train", "heldout"))
    assert used["user"].value_counts().max() == AT_MOST
    for root in (project.path / "data", project.path / "reports", project.state):
        for path in root.rglob("*"):
            if path.is_file():
                assert PERSON.encode() not in path.read_bytes(), path
    release = json.loads((project.path / "data/released/metadata/release.json").read_text())
    assert (release["unit"], release["records_per_unit"]) == ("user", AT_MOST)


def test_a_dataset_that_is_charged_per_user_is_never_charged_per_record(
    project: Checkout,
) -> None:
    with pytest.raises(LedgerError, match="per user by column 'writer', which cannot be"):
        project.ledger.check([])
