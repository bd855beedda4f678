"""Tests that `check` and `budget` find what a run would refuse or drop, without a charge."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

import sugarbush as sb
from sugarbush.cli.budgets import show_budget
from sugarbush.cli.checks import run_checks
from sugarbush.cli.runs import print_dropped_rows
from sugarbush.errors import InputError, LedgerError
from sugarbush.pipeline import dvc
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import prepare
from sugarbush.preparation.findings import corpus_findings, known_corpus
from sugarbush.privacy.events import GaussianDp
from sugarbush.project import budget as budgets
from sugarbush.project import check as checks
from sugarbush.project import run as runs
from sugarbush.run.context import Project
from sugarbush.run.records import private_store
from tests.settings import params

ROWS = [
    {
        "text": f"Order {i} of the lamp with number {i * 7919} has not arrived yet",
        "who": f"u{i % 150}",
    }
    for i in range(200)
]
SCHEMA = """subject: letters
attributes:
  - {name: topic, values: [lamp], keywords: {lamp: [lamp]}}
"""


def project(folder: Path, *, rows: Any = ROWS, **changes: Any) -> Project:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "letters.jsonl").write_text(lines)
    (folder / "schema.yaml").write_text(SCHEMA)
    fields: dict[str, Any] = {
        "privacy__purpose": "release",
        "privacy__dataset": "letters",
        "prepare__file": "letters.jsonl",
        "prepare__schema": "schema.yaml",
        "prepare__donated": None,
    }
    return open_project(folder, settings=params(**(fields | changes)))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("SUGARBUSH_STATE", str(folder))
    for module in (budgets, checks):
        monkeypatch.setattr(module, "would_spend", lambda project: True)
        monkeypatch.setattr(module, "require_current_stages", lambda base: None)
    return folder


def charged(own: Project) -> Project:
    """Charge the corpus of a project, as a run does."""
    fingerprint = corpus_findings(own).fingerprint
    own.ledger().charge(
        GaussianDp(mu=0.1), stage="evolve", run="r", dataset_fingerprint=fingerprint
    )
    return own


def budget_of(own: Project) -> str:
    printed = io.StringIO()
    show_budget(own, Console(file=printed, width=200))
    return printed.getvalue()


def test_check_and_budget_find_a_corpus_with_another_name_and_charge_nothing(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged(project(tmp_path / "first"))
    other = project(tmp_path / "second", privacy__dataset="post")
    before = {path: path.read_bytes() for path in state.rglob("*.jsonl")}
    assert "known to the ledger as 'letters'" in str(known_corpus(other, corpus_findings(other)))
    assert "A run would be refused: the corpus of dataset 'post' is known" in budget_of(other)
    monkeypatch.setattr(checks, "restore_lock", lambda base: None)
    monkeypatch.setattr(checks, "check_generator", lambda project: None)
    with pytest.raises(LedgerError, match="known to the ledger as 'letters'"):
        run_checks(other, Console(file=io.StringIO()))
    assert {path: path.read_bytes() for path in state.rglob("*.jsonl")} == before
    same = project(tmp_path / "first")
    assert known_corpus(same, corpus_findings(same)) is None
    assert "would be refused" not in budget_of(same)


def test_budget_finds_private_records_in_a_pool_and_bad_rows(tmp_path: Path) -> None:
    pool = tmp_path / "pool.jsonl"
    pool.write_text("".join(json.dumps({"text": row["text"].upper()}) + "\n" for row in ROWS[:50]))
    changes = {
        "generator__provider": "pool",
        "generator__pool__sources": [{"file": str(pool), "text_column": "text"}],
    }
    own = project(tmp_path / "own", **changes)
    with pytest.raises(InputError, match="contains copies of private records"):
        corpus_findings(own)
    assert "A run would be refused: generator.pool: contains copies" in budget_of(own)
    bad = project(tmp_path / "bad", rows=[*ROWS, {"text": " ", "who": "a"}])
    assert "A run would be refused: " in budget_of(bad) and "row 201" in budget_of(bad)


def test_a_run_refuses_the_corpus_before_it_requests_first_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def requested(project: Project, *, accept: bool) -> None:
        raise AssertionError("a request before the corpus was read")

    monkeypatch.setattr(runs, "would_spend", lambda project: True)
    monkeypatch.setattr(runs, "require_good_rehearsal", requested)
    (tmp_path / "pool.jsonl").write_text(json.dumps({"text": "a public text"}) + "\n")
    pool = [{"file": str(tmp_path / "pool.jsonl"), "text_column": "text"}]
    changes = {"generator__provider": "pool", "generator__pool__sources": pool}
    options: dict[str, Any] = {"force": False, "accept_poor": False, "reads_corpus": True}
    bad = project(tmp_path / "bad", rows=[*ROWS, {"text": " ", "who": "a"}], **changes)
    with pytest.raises(InputError, match="row 201"):
        runs.rehearse_before_run(bad, print, **options)
    charged(project(tmp_path / "first"))
    other = project(tmp_path / "second", privacy__dataset="post", **changes)
    with pytest.raises(LedgerError, match="known to the ledger as 'letters'"):
        runs.rehearse_before_run(other, print, **options)
    with pytest.raises(AssertionError, match="a request"):  # Prefect stores the errors of a flow
        runs.rehearse_before_run(bad, print, force=False, accept_poor=False)


def test_budget_finds_stages_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "require_current_stages", dvc.require_current_stages)
    assert "A run would be refused: " in (said := budget_of(project(tmp_path / "own")))
    assert "dvc.yaml: not found" in said


def test_dropped_rows_are_counted_on_the_terminal_and_not_by_the_stage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = project(
        tmp_path / "own",
        rows=[*ROWS, {"text": " ", "who": "a"}, {"text": None, "who": "a"}],
        prepare__bad_rows="drop",
        prepare__user_column="who",
        privacy__unit="user",
    )
    print_dropped_rows(private_store(own))  # before the first run
    prepare.run(own)
    assert capfd.readouterr() == ("", "")
    print_dropped_rows(private_store(own))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "rows (not DP: do not share): 150 of 202 rows are used",
        "  50 not used: more than privacy.records_per_user of one user",
        "  1 not used: the text is empty",
        "  1 not used: has no text in column 'text'",
    ]


def test_a_corpus_in_memory_says_which_rows_it_does_not_use(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)
    frame.loc[7, "text"] = " "
    corpus = sb.prepare(
        frame,
        text="text",
        schema={
            "subject": "x",
            "attributes": [{"name": "a", "values": ["b"], "keywords": {"b": ["b"]}}],
        },
        privacy=sb.Privacy(dataset="letters"),
        settings={"prepare": {"bad_rows": "drop"}},
        state=tmp_path,
    )
    assert corpus.dropped == ("199 of 200 rows are used", "1 not used: the text is empty")
    assert "199" not in repr(corpus)
