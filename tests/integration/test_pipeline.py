"""Tests of a finished pipeline: its card, its artifacts, and the cost of a second run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from sugarbush.errors import LedgerError, MissingInputError
from sugarbush.evolution.population import load_population
from sugarbush.paths import Roots
from sugarbush.pipeline.artifacts import Artifacts
from tests.integration.project import LOOK, PRODUCTS, Checkout, as_lines, letters
from tests.pipelines import FinishedPipelines, copied, run_pipeline
from tests.settings import ROOT
from tests.unit.report.test_page import content_of

SYNTHETIC = Path("data/released/enlarge/maple/synthetic.jsonl")


@pytest.fixture
def project(finished: FinishedPipelines) -> Checkout:
    """The project after all stages have run on a small corpus. Tests only read it."""
    return finished("maple")


@pytest.fixture
def own(project: Checkout, tmp_path: Path) -> Checkout:
    """A copy of the finished project that a test may change."""
    return copied(project, tmp_path)


def test_one_table_and_one_vote_are_charged(project: Checkout) -> None:
    assert [e.stage for e in project.charges()] == [*LOOK, "synthesize_metadata", "evolve@maple"]


def test_the_card_lists_the_charges(project: Checkout) -> None:
    card = json.loads((project.path / "reports/public/release_card.json").read_text())
    assert [e["id"] for e in card["budget"]["events"]] == [e.id for e in project.charges()]
    assert 0.98 < card["promise"]["epsilon"] <= 1.0
    assert card["publishable"] is True


def test_the_loaders_read_what_every_stage_released(project: Checkout) -> None:
    opened = Artifacts(project.path)
    assert list(opened.donated()["product"]) == [row["product"] for row in letters(6)]
    metadata, first, evolved = opened.metadata(), opened.initial("maple"), opened.lineage("maple")
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


def test_the_loaders_name_the_stage_that_has_not_run(project: Checkout) -> None:
    with pytest.raises(MissingInputError, match="evolve@augpe"):
        Artifacts(project.path).lineage("augpe")


@pytest.mark.slow
def test_the_notebook_opens_every_stage_without_private_files_and_keeps_no_output(
    own: Checkout,
) -> None:
    """A new Python process runs the cells of the notebook in order."""
    cells = json.loads((ROOT / "docs/inspect.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    shutil.rmtree(own.path / "data/private")
    script = "\n".join("".join(cell["source"]) for cell in code)
    assert "8 candidates, 8 calls" in own.run(sys.executable, "-c", script).stdout


def test_no_public_report_depends_on_the_private_texts(project: Checkout, own: Checkout) -> None:
    """The test replaces private texts, held-out texts, codes and figures.

    The internal page must change, and every public file must stay equal byte for byte.
    """
    before, other = Roots(project.path), Roots(own.path)
    for path in (other.private / "prepared").glob("*/*.parquet"):
        rows = pd.read_parquet(path)
        rows.assign(text=[f"quagga {text[::-1]}" for text in rows["text"]]).to_parquet(path)
    for path in (other.private / "metadata").glob("*.parquet"):
        pd.read_parquet(path).assign(product=0, wish=1).to_parquet(path)
    run_pipeline(own, "evaluate", "report")
    public, other_public = (contents(roots.published) for roots in (before, other))
    assert public == other_public
    assert "index.html" in public
    assert contents(before.internal)["index.html"] != contents(other.internal)["index.html"]


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, by path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_only_the_owner_can_enter_private_folders(project: Checkout) -> None:
    for name in ("data/private", "data/private/prepared", "reports/internal"):
        assert (project.path / name).stat().st_mode & 0o077 == 0


def test_a_second_clone_restores_every_result_and_spends_nothing(own: Checkout) -> None:
    before, texts = own.charges(), (own.path / SYNTHETIC).read_bytes()
    for name in ("data", "reports"):
        shutil.rmtree(own.path / name)
    run_pipeline(own)
    assert own.charges() == before
    assert (own.path / SYNTHETIC).read_bytes() == texts


def test_a_known_corpus_keeps_the_name_of_its_dataset(own: Checkout) -> None:
    before = own.charges()
    own.change("privacy", dataset="fresh")
    shutil.rmtree(own.path / "data/released")
    with pytest.raises(LedgerError, match="known to the ledger as 'letters'"):
        run_pipeline(own, "fingerprint", "synthesize_metadata")
    assert own.charges() == before


def test_a_changed_corpus_is_charged_again(own: Checkout) -> None:
    before = len(own.charges())
    (own.path / "letters.jsonl").write_text(as_lines(letters(170)[6:]))
    run_pipeline(own)
    assert [e.stage for e in own.charges()[before:]] == [
        *LOOK,
        "synthesize_metadata",
        "evolve@maple",
    ]


def test_the_page_lists_the_texts_with_the_row_and_the_examples_of_each(own: Checkout) -> None:
    """The release is larger than the survivors, so texts were written after the votes. A variation
    has a parent in place of examples."""
    own.change("release", texts=12)
    run_pipeline(own, "enlarge", "report")
    public = own.path / "reports/public"
    page = (public / "index.html").read_text()
    content = content_of(page)
    rows = [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]
    shown = [row for row in rows if row["final"]]
    file = own.path / "data/released/enlarge/maple/synthetic.jsonl"
    released = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["text"] for row in shown] == [each["text"] for each in released]
    domains = dict(content["attributes"])
    donated = [
        json.loads(line)["text"] for line in (own.path / "donated.jsonl").read_text().splitlines()
    ]
    lineage = load_population(file.with_name("lineage.parquet"), list(domains))
    place_of = {int(own): place for place, own in enumerate(lineage.ids)}
    for row, each in zip(shown, released, strict=True):
        asked = zip(domains, row["codes"], strict=True)
        assert {name: domains[name][code] for name, code in asked} == {n: each[n] for n in domains}
        assert row["examples"] == list(lineage.examples[place_of[each["id"]]])
        for place in row["examples"]:
            assert content["donated"][str(place)] == donated[place]
    counts = json.loads((public / "release_card.json").read_text())["made_by"]["texts"]["maple"]
    later = [row for row in shown if content["origins"][row["origin"]] == "after the last round"]
    assert len(later) == counts["written_afterwards"] > 0
    assert all(row["examples"] for row in rows if row["parent"] is None)
    assert f"and {len(later)} were written afterwards" in page
