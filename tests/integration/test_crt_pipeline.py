"""CRT as the only method: every stage runs, nothing is released, confidentiality has its own rows.

The stages run in this process, in DVC's order, so that the libraries are loaded once.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sugarbush.pipeline.stages.crt import known_sentences, measured_recall, mechanism_of

from sugarbush.errors import InputError, ParamsError
from sugarbush.paths import Roots
from sugarbush.pipeline import skipping as where_needed
from sugarbush.pipeline.budget import open_uncapped_ledger
from sugarbush.pipeline.settings import Method, ProjectSettings, load_params
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import ConfidentialTraining
from sugarbush.training.crt.labelled import load_labelled
from sugarbush.training.crt.patterns import PlainWords, RegexDetector
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.screening import screen
from sugarbush.training.crt.start import check_start, load_start
from tests.integration.project import Project, make_project
from tests.settings import params

SMALL = {
    "crt__labelled": "labelled.jsonl",
    "crt__known": "labelled.jsonl",
    "crt__max_length": 64,
    "crt__batch_size": 32,
    "crt__epochs": 1,
    "crt__texts": 5,
    "crt__epsilon": 1.0,
    "generate__attempts": 20,
}
LABELLED = [
    {
        "text": f"Please call 555-010-{i:04d} soon",
        "spans": [{"start": 12, "end": 24, "label": "PHONE"}],
    }
    for i in range(40)
]


def write_labelled(folder: Path) -> None:
    lines = "".join(json.dumps(record) + "\n" for record in LABELLED)
    (folder / "labelled.jsonl").write_text(lines)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A small corpus, run once from the first stage to the last."""
    folder = tmp_path_factory.mktemp("crt")
    made = make_project(folder / "checkout", folder / "state", methods=["crt"], **SMALL)
    write_labelled(made.path)
    params = load_params(made.path / "params.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(made.state))
        patch.setenv("HF_HUB_OFFLINE", "1")
        for name in ("fingerprint", "prepare", "extract_metadata", "synthesize_metadata"):
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, params)
        for name in ("initialise", "evolve"):
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, params, Method.CRT)
        for name in ("pretrain", "finetune", "generate", "crt"):
            where_needed.run(made.path, params, name)
        for name in ("evaluate", "report"):
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, params)
        yield made


def test_nothing_of_the_dp_budget_is_spent(project: Project) -> None:
    assert project.charges() == ()


def test_the_training_is_noted_as_confidential_in_a_ledger_of_its_own(project: Project) -> None:
    params = load_params(project.path / "params.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(project.state))
        ledger = open_uncapped_ledger(params, project.path, kind="confidentiality")
    (entry,) = ledger.entries()
    assert isinstance(entry.event, ConfidentialTraining)
    assert ledger.total() == math.inf


def test_the_card_promises_confidentiality_and_no_dp(project: Project) -> None:
    card = json.loads((project.path / "reports/internal/confidentiality.json").read_text())
    assert card["heading"] == "Confidentiality, not differential privacy"
    assert card["differential_privacy"]["epsilon"].startswith("infinite")
    assert 0.95 < card["bayesian"]["epsilon"] <= 1.0
    assert card["bayesian"]["epsilon"] < card["uniform"]["epsilon"]
    assert card["bayesian"]["gamma"] == pytest.approx(1 - 0.05 ** (1 / 40), rel=1e-6)
    assert card["recall"]["sample"] == "labelled.jsonl"
    assert card["by_gamma"][-1]["epsilon"] == card["uniform"]["epsilon"]


def test_texts_and_model_stay_in_the_private_root(project: Project) -> None:
    arm = project.path / "data/private/arms/crt"
    assert len(pd.read_json(arm / "synthetic.jsonl", lines=True)) == 5
    assert (arm / "config.json").exists()
    outside = [*(project.path / "data/released").rglob("*")]
    outside += (project.path / "reports/public").rglob("*")
    files = {path.name for path in outside if path.is_file()}
    assert not files & {
        "synthetic.jsonl",
        "final.parquet",
        "model.safetensors",
        "release_card.json",
    }


def test_no_checkpoint_is_left(project: Project) -> None:
    assert not list((project.path / "data/private/crt").rglob("*.pt"))


def test_it_starts_from_an_lstm_or_from_a_model_that_is_named(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = shutil.copytree(project.path, tmp_path / "checkout")
    monkeypatch.setenv("SUGARBUSH_STATE", str(shutil.copytree(project.state, tmp_path / "state")))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    given = load_params(checkout / "params.yaml")

    def starting_from(model: str, **changes: Any) -> ProjectSettings:
        return given.model_copy(
            update={"crt": given.crt.model_copy(update={"model": model, **changes})}
        )

    named = shutil.copytree(checkout / "data/public/pretrained", tmp_path / "named")
    asked = starting_from(str(named))
    where_needed.run(checkout, asked, "pretrain")
    assert (checkout / "data/public/pretrained/not_needed.txt").exists()
    assert len(load_start(Roots(checkout), asked.crt)[1]) == 401
    for model, changes, said in (
        ("/no/such/model", {}, r"crt\.model='/no/such/model' cannot be loaded"),
        (str(named), {"max_length": 65}, r"crt\.max_length=65 is more than the 64"),
    ):
        with pytest.raises(ParamsError, match=said):
            check_start(starting_from(model, **changes).crt)
    for stage in ("pretrain", "crt"):
        where_needed.run(checkout, starting_from("lstm"), stage)
    assert not (checkout / "data/public/pretrained/config.json").exists()
    arm = checkout / "data/private/arms/crt"
    assert (arm / "lstm.safetensors").exists()
    assert len(pd.read_json(arm / "synthetic.jsonl", lines=True)) == 5


def test_a_conservative_policy_that_nothing_measures_is_refused(tmp_path: Path) -> None:
    asked = params(crt__conservative="plain_words", crt__labelled=None)
    with pytest.raises(ParamsError, match=r"needs crt\.labelled"):
        measured_recall(tmp_path, asked, Policy([RegexDetector()]), PlainWords())


@pytest.mark.parametrize(
    ("texts", "delta_2", "said"),
    [
        (["Room 7", "It is late."], 0.01, "not below delta"),  # of 300 labels, none missed
        (["It is late.", "We left."], 0.0, "nothing would be protected"),
    ],
)
def test_a_conservative_policy_that_protects_too_little_is_refused(
    texts: list[str], delta_2: float, said: str
) -> None:
    screened = screen(Private(texts), policy=Policy([RegexDetector()]), conservative=PlainWords())
    with pytest.raises(ParamsError, match=said):
        mechanism_of(params(), screened, gamma=0.1, delta_2=delta_2)


def test_a_secret_that_the_texts_known_to_all_hold_is_no_duplicate(tmp_path: Path) -> None:
    write_labelled(tmp_path)
    found = known_sentences(tmp_path, params(crt__known="labelled.jsonl"))
    assert found == {record["text"] for record in LABELLED}
    assert known_sentences(tmp_path, params(crt__known=None)) == frozenset()


@pytest.mark.parametrize(
    ("line", "said"),
    [("{", "cannot be read"), ('{"text": "a"}', "row 1: needs"), ('{"spans": []}', "row 1: needs")],
)
def test_a_labelled_file_that_is_none_is_refused(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "labelled.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=said):
        load_labelled(tmp_path, "labelled.jsonl", text_column="text")
