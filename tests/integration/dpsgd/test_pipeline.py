"""The stages of fine-tuning, from a small corpus to a released one. In the order written.

They run in this process, in DVC's order, so that the libraries are loaded once; the training that
is killed has a process of its own.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
import yaml
from rich.console import Console

from sugarbush.cli.budgets import show_budget
from sugarbush.cli.checks import check
from sugarbush.cli.estimates import show_estimate
from sugarbush.cli.shows import show
from sugarbush.errors import ParamsError
from sugarbush.pipeline import skipping as where_needed
from sugarbush.pipeline.settings import Method, ProjectSettings, load_params
from sugarbush.privacy.events import GaussianDp, PoissonGaussian
from tests.integration.project import Project, letters, make_project

BEFORE = ("fingerprint", "prepare", "extract_metadata", "synthesize_metadata")
TRAINING = ("pretrain", "finetune", "generate")
FINETUNE = (sys.executable, "-m", "sugarbush.pipeline.skipping", "finetune")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A small corpus, run once: one table and one training are charged."""
    folder = tmp_path_factory.mktemp("dpft")
    made = make_project(folder / "checkout", folder / "state", methods=["dpft"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(made.state))
        patch.setenv("HF_HUB_OFFLINE", "1")
        run_stages(made, *BEFORE)
        for name in ("initialise", "evolve"):
            params = load_params(made.path / "params.yaml")
            import_module(f"sugarbush.pipeline.stages.{name}").run(made.path, params, Method.DPFT)
        run_training(made, *TRAINING)
        run_stages(made, "evaluate", "report")
        yield made


def run_stages(project: Project, *names: str) -> None:
    for name in names:
        import_module(f"sugarbush.pipeline.stages.{name}").run(
            project.path, load_params(project.path / "params.yaml")
        )


def run_training(project: Project, *names: str) -> None:
    for name in names:
        where_needed.run(project.path, load_params(project.path / "params.yaml"), name)


def test_one_table_and_one_training_are_charged(project: Project) -> None:
    assert [e.stage for e in project.charges()] == ["synthesize_metadata", "finetune"]


def test_the_first_model_has_read_the_donated_examples_twice(project: Project) -> None:
    public = project.path / "data/public"
    donated = len(pd.read_parquet(public / "donated/donated.parquet"))
    told = json.loads((public / "pretrained/pretrain.json").read_text())
    assert donated > 0
    assert told["examples"] == 60 - 6 + 2 * donated  # six of the simulator's are to try it on


def test_the_training_is_charged_as_a_whole_with_its_repeatable_steps(project: Project) -> None:
    table, training = (e.event for e in project.charges())
    assert isinstance(table, GaussianDp)
    assert isinstance(training, PoissonGaussian)
    card = json.loads((project.path / "data/released/finetuned/model_card.json").read_text())
    assert training.count == card["steps"] + card["repeatable_steps"]
    assert card["repeatable_steps"] == 10
    assert training.noise_multiplier == card["noise_multiplier"]


def test_the_release_card_lists_what_was_charged(project: Project) -> None:
    card = json.loads((project.path / "reports/public/release_card.json").read_text())
    assert [e["id"] for e in card["budget"]["events"]] == [e.id for e in project.charges()]
    assert 0.98 < card["promise"]["epsilon"] <= 1.0
    assert card["publishable"] is True
    assert card["made_by"]["generator"] == {"fine-tuned": "tiny"}
    assert any("fine-tuning starts from (tiny)" in item for item in card["assumed_public"])


def test_there_is_a_text_for_every_row_of_the_dp_table(project: Project) -> None:
    released = project.path / "data/released"
    rows = pd.read_parquet(released / "metadata/rows.parquet")
    texts = pd.read_json(released / "generated/synthetic.jsonl", lines=True)
    assert len(texts) == len(rows)
    assert texts["text"].str.strip().all()
    schema = yaml.safe_load((project.path / "letters.schema.yaml").read_text())
    products = [*schema["attributes"][0]["values"], "other"]
    asked = texts["product"].value_counts().to_dict()
    assert asked == {products[code]: n for code, n in rows["product"].value_counts().items()}


def test_nothing_private_stays_behind_but_under_the_private_root(project: Project) -> None:
    """No line of a text and no checkpoint outside; no checkpoint at all once the run has ended."""
    lines = [row["text"].encode() for row in letters(146)[6:]]
    for root in ("data/released", "data/public/pretrained", "reports/public"):
        for path in (project.path / root).rglob("*"):
            if path.is_file():
                assert not [line for line in lines if line in path.read_bytes()], path
    assert not list(project.path.rglob("step-*.pt"))
    cut = project.path / "reports/internal/finetune.json"
    assert set(json.loads(cut.read_text())) == {"texts_cut"}


def test_a_training_that_is_finished_is_restored_and_charges_nothing(project: Project) -> None:
    before = project.charges()
    weights = project.path / "data/released/finetuned/model.safetensors"
    first = weights.read_bytes()
    shutil.rmtree(weights.parent)
    run_training(project, "finetune")
    assert weights.read_bytes() == first
    assert project.charges() == before


def test_equal_seeds_give_equal_texts_and_another_costs_nothing(project: Project) -> None:
    before = project.charges()
    texts = project.path / "data/released/generated/synthetic.jsonl"
    first = texts.read_bytes()
    run_training(project, "generate")
    assert texts.read_bytes() == first
    _set(project, "generate", seed=2)
    run_training(project, "generate")
    assert texts.read_bytes() != first
    assert project.charges() == before


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # DVC's own
@pytest.mark.parametrize("ask", [check, show_budget, show_estimate])
def test_the_command_knows_the_method(
    project: Project, ask: Callable[[Path, ProjectSettings, Console], None]
) -> None:
    told = Console(record=True, width=200, quiet=True)
    ask(project.path, load_params(project.path / "params.yaml"), told)


def test_texts_that_the_model_cannot_read_are_refused_before_the_charge(project: Project) -> None:
    before, settings = project.charges(), _dpft(project)
    _set(project, "finetune", dpft={**settings, "max_length": 65})
    with pytest.raises(ParamsError, match="64 tokens"):
        run_training(project, "finetune")
    assert project.charges() == before
    _set(project, "finetune", dpft=settings)


def test_the_model_is_shown_and_what_is_private_of_it_only_when_asked(project: Project) -> None:
    told = []
    for internal in (False, True):
        console = Console(record=True, width=200, file=io.StringIO())
        show(project.path, "model", method=None, rows=1, internal=internal, console=console)
        told.append(console.export_text())
    assert all('"noise_multiplier"' in text for text in told)
    assert ["texts_cut" in text for text in told] == [False, True]


def test_a_killed_training_goes_on_with_the_charge_that_it_began_with(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed by the operating system between its checkpoints, at whatever line it was."""
    before, began = len(project.charges()), time.time()
    _set(project, "finetune", dpft={**_dpft(project), "epochs": 6, "repeatable_steps": 30})
    _set(project, "finetune", checkpoint_every=5)
    private = project.path / "data/private/finetune"
    with subprocess.Popen(
        FINETUNE, cwd=project.path, env=project.environment, stdout=subprocess.DEVNULL
    ) as training:
        _wait_for_draws(project.state, 8, after=began)
        os.kill(training.pid, signal.SIGKILL)
    drawn = _draws(project.state)
    assert list(private.rglob("step-*.pt"))
    run_training(project, "finetune")
    (charged,) = project.charges()[before:]
    assert isinstance(charged.event, PoissonGaussian)
    steps = charged.event.count - 30
    assert drawn < charged.event.count
    assert f"step {steps} of {steps}" in capsys.readouterr().out
    assert not list(private.rglob("step-*.pt"))
    release = json.loads((project.path / "data/released/finetuned/release.json").read_text())
    assert charged.id in release["ledger_ids"]
    card = json.loads((project.path / "data/released/finetuned/model_card.json").read_text())
    assert card["steps_taken"] == steps


@pytest.mark.slow
def test_two_processes_train_one_model_on_one_charge(project: Project) -> None:
    """The stage as DVC starts it; it becomes torchrun by itself."""
    before = len(project.charges())
    _set(project, "finetune", processes=2, dpft={**_dpft(project), "epochs": 3})
    try:
        told = subprocess.run(
            FINETUNE, cwd=project.path, env=project.environment, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
    finally:
        _set(project, "finetune", processes=1)  # or the next test itself becomes torchrun
    assert told.returncode == 0, told.stderr
    assert len(project.charges()) == before + 1
    told_steps = [int(step) for step in re.findall(r"step (\d+) of", told.stdout)]
    assert told_steps, "no progress"
    assert told_steps == sorted(set(told_steps))  # by one process, each once
    release = json.loads((project.path / "data/released/finetuned/release.json").read_text())
    assert project.charges()[-1].id in release["ledger_ids"]


@pytest.mark.parametrize("preset", ["yue2023", "lora"])
def test_a_preset_trains_a_model_that_is_given_by_its_path(project: Project, preset: str) -> None:
    """Four steps in place of tens of thousands, from a folder as any checkpoint is saved in."""
    model = project.path / "gpt2"
    shutil.copytree(project.path / "data/public/pretrained", model, dirs_exist_ok=True)
    settings = yaml.safe_load((project.path / "params.yaml").read_text())["finetune"][preset]
    _set(project, "finetune", preset=preset,
         **{preset: {**settings, "model": str(model), "epochs": 4, "max_length": 48}})  # fmt: skip
    run_training(project, "finetune", "generate")
    card = json.loads((project.path / "data/released/finetuned/model_card.json").read_text())
    assert (card["starts_from"], card["steps_taken"], card["sampling_rate"]) == ("gpt2", 4, 1.0)
    assert ("low-rank" in card["trained"]) == (preset == "lora")
    charged = project.charges()[-1].event
    assert isinstance(charged, PoissonGaussian)
    assert (charged.count, charged.noise_multiplier) == (4, card["noise_multiplier"])
    _set(project, "finetune", preset="dpft")


def test_for_methods_that_train_nothing_the_stage_leaves_a_note(project: Project) -> None:
    _set(project, None, methods=["public"])
    run_training(project, "finetune")
    left = (project.path / "data/released/finetuned").iterdir()
    assert [path.name for path in left] == ["not_needed.txt"]


def _dpft(project: Project) -> dict[str, object]:
    fields = yaml.safe_load((project.path / "params.yaml").read_text())
    return dict(fields["finetune"]["dpft"])


def _set(project: Project, section: str | None, **changes: object) -> None:
    path = project.path / "params.yaml"
    fields = yaml.safe_load(path.read_text())
    (fields if section is None else fields[section]).update(changes)
    path.write_text(yaml.safe_dump(fields, sort_keys=False))


def _draws(state: Path) -> int:
    """Of the run whose count was written last."""
    counts = sorted(state.rglob("draws-*"), key=lambda path: path.stat().st_mtime)
    return counts[-1].stat().st_size


def _wait_for_draws(state: Path, count: int, *, after: float) -> None:
    deadline = time.monotonic() + 120
    while not [p for p in state.rglob("draws-*") if p.stat().st_mtime > after] or (
        _draws(state) < count
    ):
        assert time.monotonic() < deadline, "the training did not get under way"
        time.sleep(0.005)
