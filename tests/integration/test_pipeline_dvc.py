"""Tests of the pipeline under DVC: which stages run again, what is charged again, and what DVC's
files contain."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from sugarbush.privacy.events import GaussianDp
from tests.integration.project import LOOK, PRODUCTS, Checkout, as_lines, letters, make_project
from tests.pipelines import FinishedPipelines, copied, run_pipeline

pytestmark = [pytest.mark.xdist_group("dvc"), pytest.mark.slow]
NEW_RELEASE = {
    "make_example", "fingerprint", "prepare", "look", "extract_metadata", "synthesize_metadata",
    "initialise@maple", "evolve@maple",
}  # fmt: skip
PUBLIC = ("data/stamps", "data/public", "data/released", "reports/public")
ALWAYS = {"make_example", "fingerprint"}  # `make_example` reads params.yaml


@pytest.fixture
def finished_by_dvc(finished: FinishedPipelines) -> Checkout:
    """A project with a small corpus, an id column and two methods, after `dvc repro`. Tests only
    read it."""
    return finished("dvc")


@pytest.fixture
def project(finished_by_dvc: Checkout, tmp_path: Path) -> Checkout:
    """A copy of the finished project that a test may change."""
    return copied(finished_by_dvc, tmp_path)


def test_two_methods_together_run_their_own_stages_and_share_one_budget(
    finished_by_dvc: Checkout,
) -> None:
    """A stage that no chosen method needs writes a marker."""
    project = finished_by_dvc
    charged = [entry.stage for entry in project.charges()]
    assert sorted(charged) == ["evolve@maple", "finetune", *LOOK, "synthesize_metadata"]
    assert project.ledger.total() <= 1.0
    released = project.path / "data/released"
    for stage in ("initial/dpft", "evolve/dpft", "finetune/maple", "generate/maple"):
        assert [path.name for path in (released / stage).iterdir()] == ["not_needed.txt"]
    figures = pd.read_csv(project.path / "reports/internal/figures.csv")
    assert {"maple", "dpft", "real"} <= set(figures["method"])


def test_a_second_run_with_settings_that_affect_no_output_does_and_charges_nothing(
    project: Checkout,
) -> None:
    before = project.charges()
    project.change("training", checkpoint_every=7, micro_batch_tokens=512)
    assert set(project.repro()) == ALWAYS
    assert project.charges() == before


def test_a_setting_of_evaluate_reruns_evaluate_and_report_and_its_old_value_both_again(
    project: Checkout,
) -> None:
    """DVC must not restore the public files of a report from its cache without the internal
    files."""
    before = project.charges()
    ran = project.stages_run(project.dvc_in_one_process("exp", "run", "-S", "evaluate.bootstrap=2"))
    assert set(ran) - ALWAYS == {"evaluate", "report"}
    project.git("checkout", "--quiet", "params.yaml")
    ran = project.repro()
    assert set(ran) - ALWAYS == {"evaluate", "report"}
    assert (project.path / "data/stamps/evaluate.json").exists()
    assert (project.path / "reports/internal/index.html").exists()
    assert project.charges() == before


def test_dvc_keeps_nothing_of_the_private_texts(finished_by_dvc: Checkout) -> None:
    """DVC's files and cache contain no line of the texts.

    They also contain no hash and no size with which somebody could check a guess of a text: every
    size in dvc.lock is the size of a public path. A public file may have the size of a private one
    by chance.
    """
    project = finished_by_dvc
    private = project.path / "letters.jsonl"
    lines = [row["text"].encode() for row in letters(146)[6:]]
    kept = [p for p in (project.path / ".dvc").rglob("*") if p.is_file()]
    kept.append(project.path / "dvc.lock")
    for path in kept:
        content = path.read_bytes()
        assert not [line for line in lines if line in content], path
    lock = (project.path / "dvc.lock").read_text()
    files = [private, *(project.path / "data/private").rglob("*.parquet")]
    files = [path for path in files if path.is_file()]
    assert len(files) > 3
    for path in files:
        assert hashlib.md5(path.read_bytes()).hexdigest() not in lock
    stages = yaml.safe_load(lock)["stages"].values()
    entries = [
        each for stage in stages for kind in ("deps", "outs") for each in stage.get(kind, ())
    ]
    assert len(entries) > 20
    for entry in entries:
        path = project.path / entry["path"]
        assert path.name == "params.yaml" or entry["path"].startswith(PUBLIC), entry["path"]
        parts = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        assert entry["size"] == sum(part.stat().st_size for part in parts), entry["path"]


def test_an_experiment_in_a_copy_charges_the_same_ledger(project: Checkout) -> None:
    """DVC deletes the copy of an experiment, so the ledger must not be in the copy, also if
    `SUGARBUSH_STATE` is a relative path.
    """
    before = len(project.charges())
    relative = os.path.relpath(project.state, project.path)
    project.dvc_in_one_process(
        *("exp", "run", "--temp", "-S", "privacy.epsilon=2.0", "evolve@maple"),
        SUGARBUSH_STATE=relative,
    )
    assert [e.stage for e in project.charges()[before:]] == [
        *LOOK,
        "synthesize_metadata",
        "evolve@maple",
    ]


def test_a_new_draw_is_charged_and_dvcs_own_force_restores(project: Checkout) -> None:
    before = len(project.charges())
    votes = project.path / "data/released/evolve/maple/round_001/scores.npy"
    first = votes.read_bytes()
    project.dvc("repro", "-s", "-f", "evolve@maple")
    assert len(project.charges()) == before
    assert votes.read_bytes() == first
    project.dvc("repro", "-s", "-f", "evolve@maple", SUGARBUSH_NEW_DRAW="1")
    assert [e.stage for e in project.charges()[before:]] == ["evolve@maple"]
    assert votes.read_bytes() != first


def test_every_change_of_the_file_is_a_new_release(project: Checkout) -> None:
    """First the texts of held-out records change, and then the texts of all records.

    Ids do not change, so each record stays in its split. If a stage were skipped, DVC's files would
    show that the input of this stage did not change.
    """
    path, rows = project.path / "letters.jsonl", letters(146)[6:]
    before = project.charges()
    prepared = project.path / "data/private/prepared"
    heldout = set(pd.read_parquet(prepared / "heldout.parquet")["text"])
    assert heldout
    changed = [
        r | {"text": f"Another {r['id']}", "product": PRODUCTS[0]} if r["text"] in heldout else r
        for r in rows
    ]
    path.write_text(as_lines(changed))
    assert set(project.repro("evolve@maple")) == NEW_RELEASE
    spent = [entry.stage for entry in project.charges()[len(before) :]]
    assert spent == [*LOOK, "synthesize_metadata", "evolve@maple"]
    path.write_text(as_lines([r | {"text": r["text"].replace("Dear", "Hello")} for r in rows]))
    assert set(project.repro("evolve@maple")) == NEW_RELEASE
    assert [entry.stage for entry in project.charges()[len(before) :]] == 2 * spent


def test_a_card_that_dvc_restores_after_a_charge_of_another_program_is_old(
    project: Checkout,
) -> None:
    """The restored files are newer than the ledger, and DVC calls the stage up to date."""
    assert "sugarbush:" not in project.run("sugarbush", "report").stderr
    project.ledger.charge(GaussianDp(mu=0.2), stage="count", run="r")
    shutil.rmtree(project.path / "reports/public")
    project.dvc("checkout")
    for command in (["report"], ["show", "card"], ["show", "metrics"]):
        assert "this card is older than the ledger" in project.run("sugarbush", *command).stderr
    assert set(project.repro()) - ALWAYS == {"report"}
    card = json.loads((project.path / "reports/public/release_card.json").read_text())
    assert card["budget"]["dataset_total_epsilon"] == project.ledger.total()
    assert set(project.repro()) <= ALWAYS


def test_a_clone_without_the_ledger_of_its_dvc_lock_is_refused(
    project: Checkout, tmp_path: Path
) -> None:
    """git has dvc.lock, but neither data/released nor the ledger."""
    before = project.charges()
    project.git("add", "dvc.lock")
    project.git("commit", "--quiet", "--message=release")
    clone = Checkout(tmp_path / "clone", tmp_path / "another_state")
    project.git("clone", "--quiet", str(project.path), str(clone.path))
    for name in ("letters.jsonl", "donated.jsonl"):
        shutil.copy(project.path / name, clone.path / name)
    for command in (
        ("sugarbush", "check"),
        ("sugarbush", "run"),
        (sys.executable, "-m", "tasks.fingerprint"),
        (sys.executable, "-m", "tasks.evolve", "--method", "maple"),
        (sys.executable, "-m", "dvc", "repro"),
    ):
        refused = clone.run(*command, code=None)
        assert refused.returncode != 0
        assert "SUGARBUSH_STATE" in refused.stdout + refused.stderr, command
    assert clone.charges() == ()
    clone.change("privacy", dataset="parcels")
    assert "budget     ok" in clone.run("sugarbush", "check").stdout
    clone.change("privacy", dataset="letters")
    known = Checkout(clone.path, project.state)
    assert "synthesize_metadata" in known.repro()
    assert project.charges() == before


def test_an_older_commit_and_a_copy_on_the_same_machine_are_accepted(
    project: Checkout, tmp_path: Path
) -> None:
    project.git("add", "dvc.lock")
    project.git("commit", "--quiet", "--message=first")
    path = project.path / "letters.jsonl"
    path.write_text(path.read_text().replace("Dear", "Hello"))
    project.repro()
    project.git("commit", "--quiet", "--all", "--message=second")
    project.git("checkout", "--quiet", "HEAD~")
    copy = Checkout(shutil.copytree(project.path, tmp_path / "copy"), project.state)
    for checkout in (project, copy):
        assert "budget     ok" in checkout.run("sugarbush", "check").stdout


def test_another_dataset_in_one_project_is_refused(project: Checkout) -> None:
    """The releases of both would lie in data/released, and the card would count one of them."""
    project.change("privacy", dataset="parcels")
    for command in (
        ("sugarbush", "check"),
        ("sugarbush", "run"),
        (sys.executable, "-m", "tasks.report"),
        (sys.executable, "-m", "dvc", "repro", "-s", "-f", "evolve@maple"),
    ):
        refused = project.run(*command, code=None)
        assert refused.returncode != 0
        assert "mv data/released ../old-releases" in refused.stdout + refused.stderr, command
    assert not list(project.state.glob("ledgers/*/parcels.jsonl"))
    project.run("mv", "data/released", "../old-releases")
    known = project.run("sugarbush", "check", code=1)  # what a run would refuse
    assert "known to the ledger as 'letters'" in known.stdout + known.stderr


def test_a_short_params_yaml_is_enough(tmp_path: Path) -> None:
    """A params.yaml with methods, files, dataset, encoder and generator is enough. All other
    settings have defaults.
    """
    made = make_project(tmp_path / "checkout", tmp_path / "state")
    files = {"file": "letters.jsonl", "donated": "donated.jsonl", "schema": "letters.schema.yaml"}
    short = {
        "methods": {"maple": {}},
        "prepare": files,
        "embedding": {"model": "tiny"},
        "privacy": {"dataset": "letters"},
        "generator": {"simulator": {"any_texts": True}},
    }
    (made.path / "params.yaml").write_text(yaml.safe_dump(short))
    made.repro("prepare")
    run_pipeline(made)
    assert made.charges()[0].stage == "look"
    assert (made.path / "reports/public/index.html").exists()
