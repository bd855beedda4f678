"""Tests of the stages of fine-tuning, from a small corpus to released texts.

The stages run in this process, except the training that is killed and the training by torchrun.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from rich.console import Console

from sugarbush.cli.budgets import show_budget
from sugarbush.cli.checks import run_checks
from sugarbush.cli.estimates import show_estimate
from sugarbush.cli.shows import show_stage
from sugarbush.errors import ParamsError
from sugarbush.privacy.accounting import within
from sugarbush.privacy.events import DpSgdBound, GaussianDp, PoissonGaussian
from sugarbush.run.context import Project
from tests.integration.project import Checkout, letters
from tests.pipelines import FinishedPipelines, copied, opened, run_pipeline

FINETUNE = (sys.executable, "-m", "tasks.finetune", "--method", "dpft")
MODEL, TEXTS = "data/released/finetune/dpft", "data/released/generate/dpft/synthetic.jsonl"


@pytest.fixture
def project(finished: FinishedPipelines) -> Checkout:
    """The project after all stages have run on a small corpus. Tests only read it."""
    return finished("dpft")


@pytest.fixture
def own(project: Checkout, tmp_path: Path) -> Checkout:
    """Return a copy of the finished project, which a test may change."""
    return copied(project, tmp_path)


def test_one_table_and_one_training_are_charged(project: Checkout) -> None:
    assert [e.stage for e in project.charges()] == ["synthesize_metadata", "finetune"]


def test_the_first_model_has_read_the_donated_examples_twice(project: Checkout) -> None:
    public = project.path / "data/public"
    donated = len(pd.read_parquet(public / "donated/donated.parquet"))
    told = json.loads((public / "pretrained/pretrain.json").read_text())
    assert donated > 0
    # six texts of the simulator are held out to test the model
    assert told["examples"] == 60 - 6 + 2 * donated


def test_the_training_is_charged_as_a_whole_with_its_repeatable_steps(project: Checkout) -> None:
    table, training = (e.event for e in project.charges())
    assert isinstance(table, GaussianDp)
    assert isinstance(training, DpSgdBound)
    card = json.loads((project.path / "data/released/finetune/dpft/model_card.json").read_text())
    assert card["repeatable_steps"] == 10
    ran = PoissonGaussian(
        noise_multiplier=card["noise_multiplier"],
        rate=card["sampling_rate"],
        count=card["steps"] + card["repeatable_steps"],
    )
    assert within(ran, training)
    assert not within(replace(ran, count=ran.count + 1), training)


def test_the_release_card_lists_what_was_charged(project: Checkout) -> None:
    card = json.loads((project.path / "reports/public/release_card.json").read_text())
    assert [e["id"] for e in card["budget"]["events"]] == [e.id for e in project.charges()]
    # Sampling rate and steps depend on the DP count, and the charge holds for every count.
    assert 0.98 < card["budget"]["planned_epsilon"] <= 1.0
    spent = pytest.approx(card["budget"]["planned_epsilon"], rel=1e-9)
    assert card["promise"]["epsilon"] == spent
    model = json.loads((project.path / "data/released/finetune/dpft/model_card.json").read_text())
    assert model["epsilon"] == spent
    assert card["publishable"] is True
    assert card["made_by"]["generator"] == {"fine-tuned": "tiny"}
    assert any("fine-tuning starts from (tiny)" in item for item in card["assumed_public"])


def test_every_text_is_written_for_a_row_of_the_dp_table(project: Checkout) -> None:
    released = project.path / "data/released"
    rows = pd.read_parquet(released / "metadata/rows.parquet")
    texts = pd.read_json(released / "generate/dpft/synthetic.jsonl", lines=True)
    wanted = yaml.safe_load((project.path / "params.yaml").read_text())["release"]["texts"]
    assert len(texts) == wanted < len(rows)
    assert texts["text"].str.strip().all()
    schema = yaml.safe_load((project.path / "letters.schema.yaml").read_text())
    products = [*schema["attributes"][0]["values"], "other"]
    asked = Counter(texts["product"])
    assert asked <= Counter(products[code] for code in rows["product"])


def test_nothing_private_stays_outside_the_private_root(project: Checkout) -> None:
    """No file outside data/private contains a line of a text or a checkpoint.

    After the run, no checkpoint is left in any folder.
    """
    lines = [row["text"].encode() for row in letters(146)[6:]]
    for root in ("data/released", "data/public/pretrained", "reports/public"):
        for path in (project.path / root).rglob("*"):
            if path.is_file():
                assert not [line for line in lines if line in path.read_bytes()], path
    assert not list(project.path.rglob("step-*.pt"))
    cut = project.path / "reports/internal/finetune.json"
    assert set(json.loads(cut.read_text())) == {"texts_cut"}


def test_a_finished_training_is_restored_and_charges_nothing(own: Checkout) -> None:
    before = own.charges()
    weights = own.path / MODEL / "model.safetensors"
    first = weights.read_bytes()
    shutil.rmtree(weights.parent)
    run_pipeline(own, "finetune")
    assert weights.read_bytes() == first
    assert own.charges() == before


def test_equal_seeds_give_equal_texts_and_another_costs_nothing(own: Checkout) -> None:
    before = own.charges()
    texts = own.path / TEXTS
    first = texts.read_bytes()
    run_pipeline(own, "generate")
    assert texts.read_bytes() == first
    own.change(seed=2)
    run_pipeline(own, "generate")
    assert texts.read_bytes() != first
    assert own.charges() == before


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # a warning inside DVC
@pytest.mark.parametrize("ask", [run_checks, show_budget, show_estimate])
def test_the_command_knows_the_method(
    own: Checkout, ask: Callable[[Project, Console], None]
) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    with opened(own) as inside:
        ask(inside, console)
    assert console.export_text().strip()


def test_texts_that_the_model_cannot_read_are_refused_before_the_charge(own: Checkout) -> None:
    before = own.charges()
    own.change("methods.dpft", max_length=65)
    with pytest.raises(ParamsError, match="64 tokens"):
        run_pipeline(own, "finetune")
    assert own.charges() == before


def test_the_model_is_shown_and_its_private_figures_only_when_asked(project: Checkout) -> None:
    shown = []
    for internal in (False, True):
        console = Console(record=True, width=200, file=io.StringIO())
        show_stage(project.path, "model", method=None, rows=1, internal=internal, console=console)
        shown.append(console.export_text())
    assert all('"noise_multiplier"' in text for text in shown)
    assert ["texts_cut" in text for text in shown] == [False, True]


@pytest.mark.slow
def test_a_killed_training_resumes_on_the_charge_that_it_began_with(own: Checkout) -> None:
    """The training is killed between two checkpoints, at an arbitrary line.

    With a DP count of under 30 records it would end before it is killed.
    """
    before, began = len(own.charges()), time.time()
    own.change("methods.dpft", epochs=6, records=119, repeatable_steps=30)
    own.change("training", checkpoint_every=5)
    private = own.path / "data/private/finetune"
    with subprocess.Popen(
        FINETUNE, cwd=own.path, env=own.environment, stdout=subprocess.DEVNULL
    ) as training:
        _wait_for_draws(own.state, 8, after=began, process=training)
        os.kill(training.pid, signal.SIGKILL)
    drawn = _draws(own.state)
    assert list(private.rglob("step-*.pt"))
    run_pipeline(own, "finetune")
    (charged,) = own.charges()[before:]
    assert isinstance(charged.event, PoissonGaussian)
    steps = charged.event.count - 30
    assert drawn < charged.event.count
    assert not list(private.rglob("step-*.pt"))
    release = json.loads((own.path / MODEL / "release.json").read_text())
    assert charged.id in release["ledger_ids"]
    card = json.loads((own.path / MODEL / "model_card.json").read_text())
    assert card["steps_taken"] == steps


@pytest.mark.slow
def test_two_processes_train_one_model_on_one_charge(own: Checkout) -> None:
    """The stage is started as DVC starts it. It replaces its own process by torchrun."""
    before = len(own.charges())
    own.change("methods.dpft", epochs=3)
    own.change("training", processes=2)
    own.run(*FINETUNE)
    assert len(own.charges()) == before + 1
    card = json.loads((own.path / MODEL / "model_card.json").read_text())
    assert card["steps_taken"] == card["steps"]  # only process 0 counts
    release = json.loads((own.path / MODEL / "release.json").read_text())
    assert own.charges()[-1].id in release["ledger_ids"]


@pytest.mark.parametrize("preset", ["yue2023", "lora"])
def test_a_preset_trains_a_model_that_is_given_by_its_path(own: Checkout, preset: str) -> None:
    """The model is a folder in the format of transformers.

    The training makes four steps, where the preset would make tens of thousands.
    """
    model = own.path / "gpt2"
    shutil.copytree(own.path / "data/public/pretrained", model)
    changed = {"model": str(model), "epochs": 4, "max_length": 48}
    own.change(methods={"dpft": {"preset": preset, **changed}})
    run_pipeline(own, "finetune", "generate")
    card = json.loads((own.path / MODEL / "model_card.json").read_text())
    assert (card["starts_from"], card["steps_taken"], card["sampling_rate"]) == ("gpt2", 4, 1.0)
    assert ("low-rank" in card["trained"]) == (preset == "lora")
    assert isinstance(own.charges()[-1].event, DpSgdBound)


def test_a_method_that_trains_nothing_gets_a_marker(own: Checkout) -> None:
    own.change(methods={"public": {}})
    run_pipeline(own, "finetune")
    written = (own.path / "data/released/finetune/public").iterdir()
    assert [path.name for path in written] == ["not_needed.txt"]


def _draws(state: Path) -> int:
    """Return the number of drawn steps, from the newest file with such a count."""
    counts = sorted(state.rglob("draws-*"), key=lambda path: path.stat().st_mtime)
    return counts[-1].stat().st_size


def _wait_for_draws(
    state: Path, count: int, *, after: float, process: subprocess.Popen[bytes]
) -> None:
    while not [p for p in state.rglob("draws-*") if p.stat().st_mtime > after] or (
        _draws(state) < count
    ):
        assert process.poll() is None, "the training ended before it was killed"
        time.sleep(0.005)
