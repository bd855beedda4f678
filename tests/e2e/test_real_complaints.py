"""Runs the whole pipeline on 500 real complaints, with a pool of other real texts as generator.

The encoder is the bundled model.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.integration.project import LOOK, Checkout
from tests.pipelines import copied, run_pipeline
from tests.settings import ROOT, settings

SHARED = ROOT.parent / "shared" / "data"
COMPLAINTS = SHARED / "cfpb_complaints" / "cfpb_complaints.parquet"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("complaints"),
    pytest.mark.skipif(
        not COMPLAINTS.exists(),
        reason="the real text sets (../shared/data) are not on this machine",
    ),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The project after all stages have run. Its settings contain paths of the real texts."""
    folder = tmp_path_factory.mktemp("complaints")
    frame = pd.read_parquet(COMPLAINTS)
    frame = frame[frame["full_metadata"]].sort_values("id")
    frame[:560].to_parquet(folder / "complaints.parquet")
    frame[560:600].to_parquet(folder / "donated.parquet")
    shutil.copy(ROOT / "research/settings/cfpb_complaints.schema.yaml", folder / "schema.yaml")
    sources = [
        {"file": str(SHARED / name / f"{name}.parquet"), "text_column": "text", "rows": 60,
         "share": None}
        for name in ("yelp", "airline_tweets", "it_tickets")
    ]  # fmt: skip
    frame[700:900].to_parquet(folder / "public.parquet")
    sources.append({"file": "public.parquet", "text_column": "text", "rows": None, "share": None})
    fields = settings(
        methods=["maple", "public"],
        privacy__dataset="complaints", privacy__purpose="benchmark",
        privacy__epsilon=4.0, privacy__cap=100.0,
        prepare__file="complaints.parquet", prepare__donated="donated.parquet",
        prepare__schema="schema.yaml",
        generator__provider="pool", generator__pool__sources=sources,
        embedding__max_tokens=64,
        methods__maple__candidates=80, methods__public__candidates=20,
        evaluate__bootstrap=0,
    )  # fmt: skip
    (folder / "params.yaml").write_text(yaml.safe_dump(fields))
    checkout = Checkout(folder, folder / "state")
    run_pipeline(checkout)
    return checkout


@pytest.fixture
def finished(project: Checkout) -> Path:
    """Return the project folder. Tests share the folder, and only read it."""
    return project.path


def test_the_promise_is_kept_and_written_down(finished: Path) -> None:
    card = json.loads((finished / "reports/public/release_card.json").read_text())
    assert 3.9 < card["promise"]["epsilon"] <= 4.0
    assert card["publishable"] is False
    assert [e["stage"] for e in card["budget"]["events"]] == [
        *LOOK, "synthesize_metadata", "evolve@maple", "evolve@maple",
    ]  # fmt: skip


def test_maple_starts_nearer_to_complaints_than_public_text_does(finished: Path) -> None:
    figures = pd.read_csv(finished / "reports/internal/figures.csv")
    frechet = figures[(figures.metric == "frechet") & (figures.space == "encoder")]
    final = frechet[frechet["round"] == -1].set_index("method")["value"]
    assert final["maple"] < 0.9 * final["public"]


def test_every_method_is_measured_on_as_many_texts(finished: Path) -> None:
    """Metrics of two methods are comparable only for equal numbers of texts."""
    figures = pd.read_csv(finished / "reports/internal/figures.csv")
    final = figures[(figures.metric == "texts") & (figures["round"] == -1)]
    assert set(final.method) == {"real", "maple", "public"}
    assert final["value"].nunique() == 1


def test_no_private_text_and_no_exact_count_is_released(finished: Path) -> None:
    private = finished / "data" / "private" / "prepared"
    texts = pd.read_parquet(private / "train.parquet")["text"]
    tally = json.loads((private / "tally.json").read_text())
    released = "\n".join(
        path.read_text(errors="replace")
        for root in ("data/released", "reports/public")
        for path in (finished / root).rglob("*")
        if path.suffix in {".json", ".jsonl", ".md", ".html", ".csv"}
    )
    # Complaints share forms and letter templates, so an equal beginning of 80 characters does not
    # show a copy; 200 equal characters from the middle do.
    middles = {text[300:500] for text in texts if len(text) > 600}
    public = " ".join(pd.read_parquet(finished / "public.parquet")["text"])
    middles = {middle for middle in middles if middle not in public}
    assert len(middles) > 100
    assert not [middle for middle in middles if json.dumps(middle)[1:-1] in released]
    for name in ("train", "heldout"):
        assert f": {tally[name]}," not in released


def test_a_second_run_of_stages_that_spend_restores_and_spends_nothing(
    project: Checkout, tmp_path: Path
) -> None:
    own = copied(project, tmp_path)
    ledger = own.state / "ledgers" / "benchmark" / "complaints.jsonl"
    before = ledger.read_bytes()
    lineage = own.path / "data/released/evolve/maple/lineage.parquet"
    texts = pd.read_parquet(lineage)
    shutil.rmtree(own.path / "data" / "released")
    run_pipeline(own, "synthesize_metadata", "initialise@maple", "evolve@maple")
    assert ledger.read_bytes() == before
    pd.testing.assert_frame_equal(pd.read_parquet(lineage), texts)
