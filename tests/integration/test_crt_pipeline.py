"""Tests of a project with CRT as its only method.

Nothing is released, and confidentiality is reported separately.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest
import torch

from sugarbush.data.schema import Schema
from sugarbush.errors import InputError, LedgerError, ParamsError, PrivacyError, StorageError
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.methods.crt import CRT, LEDGER
from sugarbush.pipeline.flow import PipelineStages, publish_artifacts
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import ConfidentialTraining
from sugarbush.run.choices import environment_for
from sugarbush.run.context import Project
from sugarbush.run.ledgers import uncapped_ledger
from sugarbush.run.tools import method_inputs
from sugarbush.training.crt.patterns import PlainWords, RegexDetector
from sugarbush.training.crt.recall import load_labelled
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.screening import screen
from sugarbush.training.crt.settings import CrtSettings
from sugarbush.training.crt.start import check_start, digest_of_start, load_start
from sugarbush.training.dpsgd import train as train_module
from sugarbush.training.dpsgd.settings import TrainingSettings
from tests.integration.project import Checkout
from tests.pipelines import (
    LABELLED,
    FinishedPipelines,
    copied,
    opened,
    run_pipeline,
)

RESULTS = "data/private/arms/crt"


@pytest.fixture
def project(finished: FinishedPipelines) -> Checkout:
    """The project after all stages have run on a small corpus. Tests only read it."""
    return finished("crt")


def method_of(project: Project, **changes: Any) -> CRT:
    """Return the method CRT of the project, with changed settings."""
    method = project.settings.method("crt")
    assert isinstance(method, CRT)
    return method.model_copy(update=changes)


def test_nothing_of_the_dp_budget_is_spent(project: Checkout) -> None:
    assert project.charges() == ()


def test_the_training_is_noted_as_confidential_in_a_ledger_of_its_own(project: Checkout) -> None:
    with opened(project) as inside:
        ledger = uncapped_ledger(inside, LEDGER)
    (entry,) = ledger.entries()
    assert isinstance(entry.event, ConfidentialTraining)
    assert ledger.total() == math.inf


def test_the_card_promises_confidentiality_and_no_dp(project: Checkout) -> None:
    card = json.loads((project.path / "reports/internal/confidentiality.json").read_text())
    assert card["heading"] == "Confidentiality, not differential privacy"
    assert card["differential_privacy"]["epsilon"].startswith("infinite")
    assert 0.95 < card["bayesian"]["epsilon"] <= 1.0
    assert card["bayesian"]["epsilon"] < card["uniform"]["epsilon"]
    assert card["bayesian"]["gamma"] == pytest.approx(1 - 0.05 ** (1 / 40), rel=1e-6)
    assert card["recall"]["sample"] == "labelled.jsonl"
    assert card["by_gamma"][-1]["epsilon"] == card["uniform"]["epsilon"]


def test_texts_and_model_stay_in_the_private_root(project: Checkout) -> None:
    results = project.path / RESULTS
    assert len(pd.read_json(results / "synthetic.jsonl", lines=True)) == 5
    assert (results / "config.json").exists()
    outside = [*(project.path / "data/released").rglob("*")]
    outside += (project.path / "reports/public").rglob("*")
    files = {path.name for path in outside if path.is_file()}
    assert not files & {
        "synthetic.jsonl",
        "synthetic.parquet",
        "lineage.parquet",
        "model.safetensors",
        "release_card.json",
    }


def test_no_checkpoint_is_left(project: Checkout) -> None:
    assert not list((project.path / "data/private/crt").rglob("*.pt"))


def test_it_starts_from_a_model_that_is_named(project: Checkout, tmp_path: Path) -> None:
    own = copied(project, tmp_path)
    named = shutil.copytree(own.path / "data/public/pretrained", tmp_path / "named")
    own.change("methods.crt", model=str(named))
    run_pipeline(own, "pretrain")
    assert (own.path / "data/public/pretrained/not_needed.txt").exists()
    with opened(own) as inside:
        start = method_of(inside)
        pretrained = inside.roots.public / "pretrained"
        assert len(load_start(pretrained, start, device=torch.device("cpu"))[1]) == 401
        for model, changes, message in (
            ("/no/such/model", {}, r"crt\.model='/no/such/model' cannot be loaded"),
            (str(named), {"max_length": 65}, r"crt\.max_length=65 is more than the 64"),
        ):
            with pytest.raises(ParamsError, match=message):
                check_start(method_of(inside, model=model, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"detectors": ("learned", "/no/such")}, "'/no/such' cannot be loaded"),
        ({"detectors": ()}, "at least one detector"),
        ({"conservative": "/no/such"}, "'/no/such' cannot be loaded"),
        ({"detectors": ("learned",)}, None),
    ],
)
def test_a_detector_that_cannot_be_loaded_is_named_before_any_stage_runs(
    changes: dict[str, Any], message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train() -> None:
        raise AssertionError("the redactor is trained, which takes minutes")

    monkeypatch.setattr("sugarbush.redactor.cache.default_redactor", train)
    method = CRT(**changes)
    with contextlib.nullcontext() if message is None else pytest.raises(ParamsError, match=message):
        method.preflight(Schema.model_construct(subject="x", attributes=()), TrainingSettings())


def test_it_starts_from_an_lstm_and_replaces_the_model_before_it(
    project: Checkout, tmp_path: Path
) -> None:
    own = copied(project, tmp_path)
    own.change("methods.crt", model="lstm")
    run_pipeline(own, "pretrain", "finetune", "generate")
    assert not (own.path / "data/public/pretrained/config.json").exists()
    results = own.path / RESULTS
    assert (results / "lstm.safetensors").exists()
    assert not (results / "config.json").exists()
    assert len(pd.read_json(results / "synthetic.jsonl", lines=True)) == 5


def test_a_conservative_policy_that_nothing_measures_is_refused(project: Checkout) -> None:
    with opened(project) as inside:
        method = method_of(inside, conservative="plain_words", labelled=None)
        inputs = method_inputs(inside, method, stage="finetune", metadata=MetadataRelease())
        with pytest.raises(ParamsError, match=r"needs methods\.crt\.labelled"):
            method.measured_recall(inputs, Policy([RegexDetector()]), PlainWords())


@pytest.mark.parametrize(
    ("texts", "delta_2", "message"),
    [
        # delta_2 is about 0.01 if none of 300 labels is missed
        (["Room 7", "It is late."], 0.01, "not below delta"),
        (["It is late.", "We left."], 0.0, "nothing would be protected"),
    ],
)
def test_a_conservative_policy_that_protects_too_little_is_refused(
    texts: list[str], delta_2: float, message: str
) -> None:
    screened = screen(Private(texts), policy=Policy([RegexDetector()]), conservative=PlainWords())
    with pytest.raises(ParamsError, match=message):
        CRT().mechanism(screened, gamma=0.1, delta=1e-6, delta_2=delta_2)


def test_a_secret_in_public_texts_is_no_duplicate(project: Checkout) -> None:
    with opened(project) as inside:
        for known, expected in (
            ("labelled.jsonl", {record["text"] for record in LABELLED}),
            (None, frozenset()),
        ):
            method = method_of(inside, known=known)
            inputs = method_inputs(inside, method, stage="finetune", metadata=MetadataRelease())
            assert method.known_sentences(inputs) == expected


@pytest.mark.parametrize("token", ["<MASK>", "<|endoftext|>"])
@pytest.mark.parametrize("model", ["tiny", "lstm", "named"])
def test_a_known_text_with_the_mask_or_a_special_token_is_refused_before_any_charge(
    project: Checkout, tmp_path: Path, token: str, model: str
) -> None:
    own = copied(project, tmp_path)
    pretrained = own.path / "data/public/pretrained"
    if model == "lstm":
        shutil.copytree(pretrained, pretrained / "lstm")
    rows = [{"text": "It is late."}, {"text": f"It is late. My pin is {token}."}]
    (own.path / "known.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = str(pretrained) if model == "named" else model
    own.change("methods.crt", known="known.jsonl", model=named, epochs=2)
    with opened(own) as inside:
        before = uncapped_ledger(inside, LEDGER).entries()
    with pytest.raises(InputError, match=rf"known\.jsonl, row 2: contains '{re.escape(token)}'"):
        run_pipeline(own, "finetune")
    with opened(own) as inside:
        assert uncapped_ledger(inside, LEDGER).entries() == before
    (own.path / "known.jsonl").write_text(json.dumps(rows[0]) + "\n")
    with opened(own) as inside:
        method = method_of(inside)
        inputs = method_inputs(inside, method, stage="finetune", metadata=MetadataRelease())
        assert method.known_sentences(inputs) == {"It is late."}


def test_a_finished_model_is_restored_without_a_charge_and_its_texts_are_written_again(
    project: Checkout, tmp_path: Path
) -> None:
    """DVC runs finetune again if another method is added."""
    own = copied(project, tmp_path)
    stamp = own.path / "data/released/finetune/crt/private.json"

    def results() -> dict[str, bytes]:
        names = ("model.safetensors", "synthetic.jsonl")
        return {name: (own.path / RESULTS / name).read_bytes() for name in names}

    def charges() -> int:
        with opened(own) as inside:
            return len(uncapped_ledger(inside, LEDGER).entries())

    before, named = results(), stamp.read_text()
    run_pipeline(own, "finetune")
    assert stamp.read_text() != named  # else DVC would not run generate
    assert not (own.path / RESULTS / "synthetic.jsonl").exists()
    run_pipeline(own, "generate")
    assert (results(), charges()) == (before, 1)
    assert not list((own.path / "data/private/crt").rglob("*.pt"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment_for(new_draw=True).items():
            patch.setenv(name, value)
        run_pipeline(own, "finetune")
    assert charges() == 2


def test_a_model_is_restored_only_whole_and_with_its_charge(
    project: Checkout, tmp_path: Path
) -> None:
    own = copied(project, tmp_path)
    before = (own.path / RESULTS / "synthetic.jsonl").read_bytes()
    (model,) = own.state.rglob("generation-1/model")
    with opened(own) as inside:
        ledger = uncapped_ledger(inside, LEDGER).path
    for path, content in (
        (model / "model.safetensors", None),
        (model / "model.safetensors", (model / "config.json").read_bytes()),
        (model / "tokenizer.json", None),
        (model / "ledger_ids.json", b"{"),
        (ledger, None),
    ):
        kept = path.read_bytes()
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        error: type[Exception] = StorageError
        message = r"model: is damaged\. Restore it from a backup, or delete"
        if path == ledger:
            error, message = LedgerError, "missing"
        with pytest.raises(error, match=message):
            run_pipeline(own, "finetune")
        path.write_bytes(kept)
    assert (own.path / RESULTS / "synthetic.jsonl").read_bytes() == before
    own.change("training", device="cpu", checkpoint_every=9, micro_batch_tokens=2048)
    run_pipeline(own, "finetune")  # these settings change no model
    shutil.rmtree(model)
    run_pipeline(own, "finetune")
    with opened(own) as inside:
        assert len(uncapped_ledger(inside, LEDGER).entries()) == 2


def test_other_weights_of_a_first_model_are_another_run(tmp_path: Path) -> None:
    settings = CrtSettings(model=str(tmp_path))
    digests = []
    for weights in ("a", "b", "a"):
        (tmp_path / "model.safetensors").write_text(weights)
        digests.append(digest_of_start(tmp_path, settings))
    assert digests[0] == digests[2] != digests[1]


class KilledError(Exception):
    """Ends a training before a step, as a kill would."""


def test_an_old_copy_of_the_private_root_pays_for_no_step_twice(
    project: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of data/private with a checkpoint of step 2 is restored after later steps were drawn.

    These steps are drawn again, and the ledger must cover them.
    """
    own = copied(project, tmp_path)
    own.change("methods.crt", epochs=3, repeatable_steps=4)
    own.change("training", checkpoint_every=2)
    taken, draw = [], train_module.PoissonSampler.draw
    monkeypatch.setattr(
        train_module.PoissonSampler, "draw", lambda self: (taken.append(0), draw(self))[1]
    )

    def finetune(*, kill_before: int) -> None:
        begun, take = len(taken), train_module.NoisyStep.take

        def dying(self: train_module.NoisyStep) -> None:
            if len(taken) - begun == kill_before:
                raise KilledError
            take(self)

        with monkeypatch.context() as patch:
            patch.setattr(train_module.NoisyStep, "take", dying)
            run_pipeline(own, "finetune")

    private, copy = own.path / "data/private", tmp_path / "copy"
    with pytest.raises(KilledError):
        finetune(kill_before=3)
    shutil.copytree(private, copy)
    for _ in range(6):
        with contextlib.suppress(KilledError, PrivacyError):
            finetune(kill_before=3)
        shutil.rmtree(private)
        shutil.copytree(copy, private)
    with contextlib.suppress(PrivacyError):
        finetune(kill_before=99)
    with opened(own) as inside:
        *_, charged = uncapped_ledger(inside, LEDGER).entries()
    assert len(uncapped_ledger(inside, LEDGER).entries()) == 2
    assert isinstance(charged.event, ConfidentialTraining)
    assert 3 < len(taken) <= charged.event.count
    (count,) = own.state.rglob(f"draws-{charged.id}")
    assert count.stat().st_size <= charged.event.count
    assert not list(private.rglob("draws-*"))


def test_a_forced_run_that_died_at_once_leaves_no_checkpoint_without_its_count(
    project: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count of noisy steps is in the folder of the generation before the forced run."""
    own = copied(project, tmp_path)
    own.change("methods.crt", epochs=3)
    own.change("training", checkpoint_every=9)

    def die(self: train_module.NoisyStep) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(train_module.NoisyStep, "take", die)
        with pytest.raises(KilledError):
            run_pipeline(own, "finetune")
    with opened(own) as inside:
        *_, begun = uncapped_ledger(inside, LEDGER).entries()
    (count,) = own.state.rglob(f"draws-{begun.id}")
    second = count.parent.with_name("generation-2")
    second.mkdir(mode=0o700)
    (second / "run").write_text("another")
    run_pipeline(own, "finetune")
    assert json.loads((second / "model" / "ledger_ids.json").read_text()) != [begun.id]
    assert count.stat().st_size == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "row 1: is not JSON"),
        ('{"text": "a"}', "has no column 'spans'"),
        ('{"text": "a", "spans": [{}]}', "row 1: needs"),
        ('{"text": "a", "spans": [{"start": 0, "end": 1, "label": null}]}', "row 1: needs"),
    ],
)
def test_a_file_that_is_not_a_labelled_sample_is_refused(
    tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "labelled.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=said):
        load_labelled(tmp_path / "labelled.jsonl", text_column="text")


def test_a_flow_without_a_release_shows_its_stages_only(
    project: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    monkeypatch.setattr(
        "prefect.artifacts.create_table_artifact", lambda key, **fields: keys.append(key)
    )
    stages = PipelineStages(graph=nx.DiGraph(), needed=("prepare",))
    publish_artifacts(stages, ran=("prepare",), folder=project.path)
    assert keys == ["stages"]
