"""A corpus of persons with several letters each, through every stage that spends.

The stages run in this process, in DVC's order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module

import pandas as pd
import pytest
import torch

from sugarbush.data.schema import load_schema
from sugarbush.errors import LedgerError
from sugarbush.paths import Roots
from sugarbush.pipeline.budget import plan_for
from sugarbush.pipeline.settings import Method, load_params
from sugarbush.pipeline.stages.finetune import load_start, units_of
from sugarbush.privacy.accounting import epsilon
from sugarbush.privacy.events import DiscreteGaussian, GaussianDp, PoissonGaussian
from sugarbush.privacy.unit import Unit
from tests.integration.project import Project, as_lines, letters, make_project

AT_MOST = 3
PERSON = "person-zq"  # so that no text and no digest holds it by chance


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Fifty persons of two or three letters, and one of them of 22; a table, counts of one label,
    votes and a training. Of augpe's share the counts alone are drawn.

    Their number is a setting: noise leaves nothing of a count of a hundred.
    """
    folder = tmp_path_factory.mktemp("persons")
    made = make_project(
        folder / "checkout", folder / "state", methods=["maple", "augpe", "dpft"],
        privacy__unit="user", privacy__records_per_user=AT_MOST,
        prepare__user_column="writer", finetune__dpft__records=60,
    )  # fmt: skip
    own = [
        {**row, "writer": f"{PERSON}{min(i % 60, 49)}"} for i, row in enumerate(letters(146)[6:])
    ]
    (made.path / "letters.jsonl").write_text(as_lines(own))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(made.state))
        patch.setenv("HF_HUB_OFFLINE", "1")
        params = load_params(made.path / "params.yaml")
        for name in ("fingerprint", "prepare", "extract_metadata", "synthesize_metadata"):
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, params)
        for name in ("initialise", "evolve"):
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, params, Method.MAPLE)
        for name in ("pretrain", "finetune"):
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, params)
        yield made


def test_every_charge_is_per_person_and_together_they_stay_within_epsilon(
    project: Project,
) -> None:
    charged = project.charges()
    assert {entry.unit for entry in charged} == {Unit.USER}
    table, labels, votes, training = (entry.event for entry in charged)
    assert isinstance(table, GaussianDp)
    assert isinstance(training, PoissonGaussian)
    for counts in (labels, votes):
        assert isinstance(counts, DiscreteGaussian)
        assert counts.sensitivity == AT_MOST
    left = plan_for(load_params(project.path / "params.yaml")).of("votes:augpe").event
    assert 0.98 < epsilon([table, labels, votes, training, left], delta=1e-6) <= 1.0


def test_the_table_was_measured_with_noise_for_all_of_a_persons_records(project: Project) -> None:
    made = json.loads((project.path / "data/released/metadata/table.json").read_text())
    for measured in made["measurements"]:
        assert measured["stddev"] * measured["mu"] >= AT_MOST


def test_the_units_of_training_are_persons(project: Project) -> None:
    params = load_params(project.path / "params.yaml")
    schema = load_schema(project.path / params.prepare.schema_)
    _, tokenizer = load_start(params.finetune.chosen, Roots(project.path), torch.device("cpu"))
    units = units_of(project.path, params, schema, tokenizer=tokenizer)
    train = pd.read_parquet(project.path / "data/private/prepared/train.parquet")
    assert sorted(map(len, units._per_unit)) == sorted(train["user"].value_counts())


def test_the_models_card_says_whom_it_protects(project: Project) -> None:
    card = json.loads((project.path / "data/released/finetuned/model_card.json").read_text())
    assert (card["unit"], card["records_per_unit"]) == ("user", AT_MOST)
    assert card["sampling_rate"] == pytest.approx(20 / 60)


def test_no_file_outside_the_users_own_names_a_person(project: Project) -> None:
    prepared = project.path / "data/private/prepared"
    used = pd.concat(pd.read_parquet(prepared / f"{p}.parquet") for p in ("train", "heldout"))
    assert used["user"].value_counts().max() == AT_MOST
    for root in (project.path / "data", project.path / "reports", project.state):
        for path in root.rglob("*"):
            if path.is_file():
                assert PERSON.encode() not in path.read_bytes(), path
    release = json.loads((project.path / "data/released/metadata/release.json").read_text())
    assert (release["unit"], release["records_per_unit"]) == ("user", AT_MOST)


def test_the_same_dataset_is_charged_per_person_for_good(project: Project) -> None:
    with pytest.raises(LedgerError, match="per user by column 'writer', which cannot be"):
        project.ledger.check([])
