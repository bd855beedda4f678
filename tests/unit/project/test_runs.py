"""Tests of the output of `sugarbush run` and `sugarbush report`."""

from __future__ import annotations

import io
import webbrowser
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.cli.runs import print_results
from sugarbush.paths import Roots
from sugarbush.pipeline.flow import is_needed
from sugarbush.project.run import StageLines, results, texts_rows
from sugarbush.release.folders import method_folder
from tests.settings import params

COMMON = (
    "make_example", "fingerprint", "prepare", "pretrain", "extract_metadata", "synthesize_metadata",
    "evaluate", "report",
)  # fmt: skip
EACH = ("initialise", "evolve", "enlarge", "finetune", "generate")


def lines(*methods: str, added: tuple[str, ...] = ()) -> StageLines:
    settings = params(methods=list(methods))
    own = [f"{stage}@{method}" for method in methods for stage in EACH]
    names = [*COMMON, *own, *added]
    return StageLines(settings, [name for name in names if is_needed(name, settings)])


def test_a_stage_that_no_method_needs_is_not_shown_and_not_counted() -> None:
    run = lines("maple")
    for name in ("pretrain", "finetune@maple", "generate@maple"):
        assert run.shortened(f"Running stage '{name}':") is None
        assert run.shortened(f"Stage '{name}' didn't change, skipping") is None
    assert run.shortened("Running stage 'prepare':") == "stage 1 of 10  prepare: running"
    skipped = run.shortened("Stage 'report' didn't change, skipping")
    assert skipped == "stage 2 of 10  report: up to date"


def test_users_see_the_stages_that_they_add() -> None:
    run = lines("dpft", added=("my_own",))
    for number, name in enumerate(("make_example", "pretrain", "finetune@dpft", "my_own"), start=1):
        shown = run.shortened(f"Running stage '{name}':")
        assert shown is not None
        assert shown.startswith(f"stage {number} of ")
        assert shown.endswith(f"  {name}: running")
    assert run.shortened("Running stage 'evolve@dpft':") is None


def test_stages_without_a_result_are_not_shown() -> None:
    for name in ("evaluate", "report"):
        line = f"Running stage '{name}':"
        assert lines("crt").shortened(line) is None
        assert (lines("crt", "maple").shortened(line) or "").endswith(f"{name}: running")


def test_lines_of_a_stage_are_shown_and_those_of_dvc_are_not() -> None:
    run = lines("maple")
    assert run.shortened("round 1: 20 calls") == "round 1: 20 calls"
    assert run.shortened("> exec python -m tasks.report") is None
    assert run.shortened("") is None


def test_a_run_that_releases_nothing_shows_where_its_texts_are(tmp_path: Path) -> None:
    roots, console = Roots(tmp_path), Console(file=io.StringIO(), width=40)
    settings = params(methods=["crt"])
    folder = method_folder(roots, settings.method("crt"), "generate")
    folder.mkdir(parents=True)
    (folder / "synthetic.jsonl").write_text('{"text": "secret"}\n')
    print_results(results(tmp_path, settings), console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert str(folder) in said
    assert str(roots.internal) in said
    assert "secret" not in said


def test_the_files_of_histories_have_people_and_records(tmp_path: Path) -> None:
    (tmp_path / "synthetic_mosaic.jsonl").write_text('{"id": 1}\n')
    file = f"{tmp_path}/synthetic_mosaic.jsonl"
    assert list(texts_rows(tmp_path, "mosaic")) == [("synthetic (mosaic)", f"{file}  (1 text)")]
    (tmp_path / "records_mosaic.jsonl").write_text('{"person": 1}\n' * 2)
    (_, people), (_, records) = texts_rows(tmp_path, "mosaic")
    assert people.endswith("(1 person)")
    assert records == f"{tmp_path}/records_mosaic.jsonl  (2 records)"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    pages: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda page: not pages.append(page))
    return pages


def report(*options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["report", *options])
    return done.exit_code, done.output


def test_without_a_report_the_command_says_how_to_write_it(opened: list[str]) -> None:
    code, said = report("--open")
    assert code == 2
    assert "sugarbush run" in said
    assert not opened


def test_the_internal_page_is_opened_only_when_asked_for(tmp_path: Path, opened: list[str]) -> None:
    roots = Roots(tmp_path)
    for folder in (roots.published, roots.internal):
        folder.mkdir(parents=True)
        (folder / "index.html").touch()
    assert "reports/public/release_card.md" in report()[1]
    assert not opened
    assert "internal" not in report("--open")[1]
    assert opened.pop().endswith("/reports/public/index.html")
    assert "not DP" in report("--open", "--internal")[1]
    assert opened.pop().endswith("/reports/internal/index.html")


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.output.startswith("sugarbush 0.")
