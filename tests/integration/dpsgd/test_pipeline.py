"""The stages of fine-tuning, from a small corpus to a released one. In the order written.

They run in this process, in DVC's order, so that the libraries are loaded once; the training that
is killed has a process of its own.
"""

from __future__ import annotations

import json
import os
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

from cli.budgets import show_budget
from cli.checks import check
from cli.estimates import show_estimate
from sugarbush.params import Method, Params, load_params
from sugarbush.privacy.events import GaussianDp, PoissonGaussian
from tasks import where_needed
from tests.integration.project import Project, letters, make_project

BEFORE = ("fingerprint", "prepare", "extract_metadata", "synthesize_metadata")
TRAINING = ("pretrain", "finetune", "generate")
FINETUNE = (sys.executable, "-m", "tasks.where_needed", "finetune")


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
            import_module(f"tasks.{name}").run(made.path, params, Method.DPFT)
        run_training(made, *TRAINING)
        run_stages(made, "evaluate", "report")
        yield made


def run_stages(project: Project, *names: str) -> None:
    for name in names:
        import_module(f"tasks.{name}").run(project.path, load_params(project.path / "params.yaml"))


def run_training(project: Project, *names: str) -> None:
    for name in names:
        where_needed.run(project.path, load_params(project.path / "params.yaml"), name)


def test_one_table_and_one_training_are_charged(project: Project) -> None:
    assert [e.stage for e in project.charges()] == ["synthesize_metadata", "finetune"]


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
    project: Project, ask: Callable[[Path, Params, Console], None]
) -> None:
    told = Console(record=True, width=200, quiet=True)
    ask(project.path, load_params(project.path / "params.yaml"), told)


def test_a_killed_training_goes_on_with_the_charge_that_it_began_with(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed by the operating system between its checkpoints, at whatever line it was."""
    before = len(project.charges())
    _set(project, "finetune", dpft={**_dpft(project), "epochs": 6, "repeatable_steps": 30})
    _set(project, "finetune", checkpoint_every=5)
    private = project.path / "data/private/finetune"
    with subprocess.Popen(
        FINETUNE, cwd=project.path, env=project.environment, stdout=subprocess.DEVNULL
    ) as training:
        _wait_for_draws(private, 8)
        os.kill(training.pid, signal.SIGKILL)
    drawn = _draws(private)
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


def _draws(private: Path) -> int:
    return sum(path.stat().st_size for path in private.rglob("draws"))


def _wait_for_draws(private: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while _draws(private) < count:
        assert time.monotonic() < deadline, "the training did not get under way"
        time.sleep(0.005)
