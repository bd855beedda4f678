"""The pipeline under DVC: what runs again, what is charged, what leaves. In the order written."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from sugarbush.errors import MissingInputError
from sugarbush.paths import Roots
from sugarbush.pipeline import artifacts
from tests.integration.project import PRODUCTS, Project, as_lines, letters, make_project
from tests.settings import ROOT

pytestmark = pytest.mark.xdist_group("dvc")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A small corpus, run once: one table and one vote are charged."""
    folder = tmp_path_factory.mktemp("pipeline")
    made = make_project(folder / "checkout", folder / "state")
    made.dvc("repro")
    assert [e.stage for e in made.charges()] == ["synthesize_metadata", "evolve@maple"]
    return made


def test_a_second_run_does_nothing_and_charges_nothing(project: Project) -> None:
    before = project.charges()
    assert project.stages_run(project.dvc("repro")) == ["fingerprint"]
    assert project.charges() == before


def test_the_card_promises_what_was_charged(project: Project) -> None:
    card = json.loads((project.path / "reports/public/release_card.json").read_text())
    assert [e["id"] for e in card["budget"]["events"]] == [e.id for e in project.charges()]
    assert 0.98 < card["promise"]["epsilon"] <= 1.0
    assert card["publishable"] is True


def test_the_loaders_read_what_every_stage_released(project: Project) -> None:
    opened = artifacts.Project(project.path)
    assert list(opened.donated()["product"]) == [row["product"] for row in letters(6)]
    metadata, first, evolved = opened.metadata(), opened.initial("maple"), opened.evolution("maple")
    assert metadata.rows is not None
    assert metadata.label_counts is None
    assert set(metadata.rows["product"]) <= {*PRODUCTS, "other"}
    assert len(first.candidates) == first.usage.calls == 8
    (only,) = evolved.rounds
    survivors = only.candidates[only.candidates["survived"]]
    assert list(evolved.synthetic["id"].sort_values()) == list(survivors["id"].sort_values())
    assert only.votes.is_monotonic_decreasing
    assert {*metadata.note.ledger_ids, *evolved.note.ledger_ids} == {
        entry.id for entry in project.charges()
    }
    assert opened.card()["publishable"] is True


def test_the_loaders_name_the_stage_that_has_not_run(project: Project) -> None:
    with pytest.raises(MissingInputError, match="evolve@augpe"):
        artifacts.Project(project.path).evolution("augpe")


def test_the_notebook_opens_every_stage_and_keeps_no_output(project: Project) -> None:
    """Its cells, run in order by a fresh Python without anything private in sight."""
    cells = json.loads((ROOT / "docs/inspect.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    private = project.path / "data/private"
    hidden = private.rename(private.with_name("hidden"))
    try:
        script = "\n".join("".join(cell["source"]) for cell in code)
        told = project.run(sys.executable, "-c", script).stdout
    finally:
        hidden.rename(private)
    assert "8 candidates, 8 calls" in told


def test_no_public_report_changes_with_the_texts_that_are_private(project: Project) -> None:
    """Other private and held-out texts, codes and figures in the same place: the internal page
    shows them, and what is handed out is the same to the byte."""
    before = Roots(project.path)
    other = Roots(shutil.copytree(project.path, project.path.parent / "other", symlinks=True))
    for path in (other.private / "prepared").glob("*.parquet"):
        rows = pd.read_parquet(path)
        rows.assign(text=[f"quagga {text[::-1]}" for text in rows["text"]]).to_parquet(path)
    for path in (other.private / "metadata").glob("*.parquet"):
        pd.read_parquet(path).assign(product=0, wish=1).to_parquet(path)
    for stage in ("evaluate", "report"):
        Project(other.base, project.state).run(sys.executable, "-m", f"tasks.{stage}")
    told, other_told = (contents(roots.published) for roots in (before, other))
    assert told == other_told and "index.html" in told
    assert contents(before.internal)["index.html"] != contents(other.internal)["index.html"]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_dvc_holds_nothing_of_the_private_texts(project: Project) -> None:
    """Not a line of them in its files and cache, and no hash or size that could test a guess."""
    private = project.path / "letters.jsonl"
    lines = [row["text"].encode() for row in letters(146)[6:]]
    kept = [p for p in (project.path / ".dvc").rglob("*") if p.is_file()]
    kept.append(project.path / "dvc.lock")
    for path in kept:
        content = path.read_bytes()
        assert not [line for line in lines if line in content], path
    lock = (project.path / "dvc.lock").read_text()
    for path in (private, *(project.path / "data/private").rglob("*.parquet")):
        assert hashlib.md5(path.read_bytes()).hexdigest() not in lock
        assert f"size: {path.stat().st_size}\n" not in lock


def test_private_folders_are_closed_to_others(project: Project) -> None:
    for name in ("data/private", "data/private/prepared", "reports/internal"):
        assert (project.path / name).stat().st_mode & 0o077 == 0


def test_a_setting_of_evaluate_reruns_no_stage_that_spends(project: Project) -> None:
    before = project.charges()
    ran = project.stages_run(project.dvc("exp", "run", "-S", "evaluate.seed=2"))
    assert "evaluate" in ran
    assert not {"synthesize_metadata", "initialise@maple", "evolve@maple"} & set(ran)
    assert project.charges() == before


def test_going_back_to_old_settings_brings_back_both_halves_of_a_report(project: Project) -> None:
    project.git("checkout", "--quiet", "params.yaml")
    internal = project.path / "reports/internal/index.html"
    with_seed_2 = internal.read_bytes()
    ran = project.stages_run(project.dvc("repro"))
    assert {"evaluate", "report"} <= set(ran)
    assert (project.path / "data/stamps/evaluate.json").exists()
    assert internal.exists()
    assert with_seed_2  # it was there before, and has been made anew with its public half


def test_a_second_clone_restores_every_draw_and_spends_nothing(project: Project) -> None:
    before = project.charges()
    clone = Project(project.path.parent / "clone", project.state)
    shutil.rmtree(clone.path, ignore_errors=True)
    project.git("clone", "--quiet", ".", str(clone.path))
    for name in ("letters.jsonl", "donated.jsonl"):
        shutil.copy(project.path / name, clone.path)
    clone.dvc("repro")
    assert clone.charges() == before
    final = Path("data/released/evolve/maple/synthetic.jsonl")
    assert (clone.path / final).read_bytes() == (project.path / final).read_bytes()


def test_an_experiment_in_a_copy_charges_the_same_ledger(project: Project) -> None:
    before = len(project.charges())
    project.dvc("exp", "run", "--temp", "-S", "privacy.epsilon=2.0")
    assert [e.stage for e in project.charges()[before:]] == ["synthesize_metadata", "evolve@maple"]


def test_a_forced_stage_draws_and_charges_again(project: Project) -> None:
    before = len(project.charges())
    votes = project.path / "data/released/evolve/maple/round_001/votes.npy"
    first = votes.read_bytes()
    project.dvc("repro", "-s", "-f", "evolve@maple")
    assert [e.stage for e in project.charges()[before:]] == ["evolve@maple"]
    assert votes.read_bytes() != first


def test_another_corpus_is_drawn_on_and_a_known_one_keeps_its_name(project: Project) -> None:
    before = len(project.charges())
    (project.path / "letters.jsonl").write_text(as_lines(letters(170)[6:]))
    project.dvc("repro")
    assert len(project.charges()) == before + 2
    told = project.dvc("exp", "run", "-S", "privacy.dataset=fresh", code=None)
    assert "known to the ledger as 'letters'" in told
    assert len(project.charges()) == before + 2


def test_a_stage_spends_again_on_what_it_reads_and_on_nothing_else(tmp_path: Path) -> None:
    """Records keep their ids and parts: first held-out ones change, then the others' texts."""
    made = make_project(tmp_path / "checkout", tmp_path / "state", prepare__id_column="id")
    path, rows = made.path / "letters.jsonl", letters(146)[6:]
    made.dvc("repro", "evolve@maple")
    before = made.charges()
    heldout = set(pd.read_parquet(made.path / "data/private/prepared/heldout.parquet")["text"])
    assert heldout
    changed = [
        r | {"text": f"Another {r['id']}", "product": PRODUCTS[0]} if r["text"] in heldout else r
        for r in rows
    ]
    path.write_text(as_lines(changed))
    ran = made.stages_run(made.dvc("repro", "evolve@maple"))
    assert {"prepare", "extract_metadata"} <= set(ran)
    assert made.charges() == before
    path.write_text(as_lines([r | {"text": r["text"].replace("Dear", "Hello")} for r in rows]))
    ran = made.stages_run(made.dvc("repro", "evolve@maple"))
    assert "synthesize_metadata" not in ran
    assert [e.stage for e in made.charges()[len(before) :]] == ["evolve@maple"]
