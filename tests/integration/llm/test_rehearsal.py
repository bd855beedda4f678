"""The rehearsal refuses poor texts before any charge, and reuses its answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.pipeline.opening import open_project
from sugarbush.project import run as runs
from sugarbush.rehearsal.rehearse import TEXTS, stored_rehearsal
from tests.integration.llm.conftest import Bench
from tests.integration.llm.server import Body, Reply, chosen, completion, letter, random_words
from tests.integration.project import SCHEMA, SMALL, as_lines, letters
from tests.settings import ROOT, settings

# Warnings from inside DVC.
pytestmark = pytest.mark.filterwarnings(
    "ignore:_NoneStep:DeprecationWarning", "ignore:unclosed:ResourceWarning"
)
Start = Callable[..., Bench]
DONATED = 20
OPENAI = "generator__openai__"


def refusal_of_model(number: int, body: Body) -> Reply:
    return completion("I'm sorry, but I cannot help with that request.")


def one_text(number: int, body: Body) -> Reply:
    return completion("Dear shop, my lamp of order 77 arrived late. I would like another one.")


def about_stars(number: int, body: Body) -> Reply:
    words = " ".join(chosen(body, *[("star", "comet", "planet", "moon", "galaxy", "orbit")] * 9))
    return completion(f"The telescope shows {words}, said the astronomer of that night {number}.")


def cut(number: int, body: Body) -> Reply:
    return completion("Dear shop, my lamp of", finish_reason="length")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    base = tmp_path / "corpus"
    base.mkdir()
    (base / "letters.jsonl").write_text(as_lines(letters(90)[DONATED:]))
    (base / "donated.jsonl").write_text(as_lines(letters(DONATED)))
    (base / "letters.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    (base / "dvc.yaml").write_bytes((ROOT / "dvc.yaml").read_bytes())
    (base / "tasks").symlink_to(ROOT / "tasks")
    (base / ".dvc").mkdir()
    (base / ".dvc" / "config").write_text("[core]\n    no_scm = true\n")
    monkeypatch.chdir(base)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))

    def no_stage(*_: Any, **__: Any) -> int:
        (base / "started").touch()
        return 1

    monkeypatch.setattr(runs, "_reproduce", no_stage)
    return base


def command(*words: str, bench: Bench | None = None, **changes: Any) -> tuple[int, str]:
    """Run a command with the server of `bench` as generator. Return exit code and output."""
    if bench is not None:
        endpoint = {
            "generator__provider": "openai",
            f"{OPENAI}base_url": bench.server.base_url,
            f"{OPENAI}key_variable": "OPENAI_API_KEY",
            f"{OPENAI}model": "tiny",
            f"{OPENAI}max_retries": 0,
            f"{OPENAI}requests_per_minute": 1e6,
            f"{OPENAI}tokens_per_minute": 1e9,
        }
        Path("params.yaml").write_text(yaml.safe_dump(settings(**(SMALL | endpoint | changes))))
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    return result.exit_code, " ".join((result.stdout + result.stderr).split())


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (refusal_of_model, "refusal"),
        (one_text, "repeat another text"),
        (about_stars, "unlike every donated text"),
        (random_words, "unlike every donated text"),
        (cut, "truncated"),
    ],
)
def test_poor_texts_end_check_and_run_before_any_charge(
    bench: Start, folder: Path, behave: Callable[[int, Body], Reply], reason: str
) -> None:
    server = bench(behave=behave)
    for name in ("check", "run"):
        code, said = command(name, bench=server)
        assert code == 2, said
        assert "rehearsal is poor:" in said
        assert reason in said
        assert "No budget was spent. What to change:" in said
    assert not open_project(Path()).ledger().entries()
    assert not (folder / "started").exists()
    assert not (folder / "data/private/prepared").exists()


def test_texts_like_the_donated_ones_are_not_poor_and_are_requested_once(
    bench: Start, folder: Path
) -> None:
    server = bench(behave=letter)
    code, said = command("check", bench=server)
    assert code == 0, said
    assert "rehearsal good:" in said or "rehearsal fair:" in said
    assert f"{TEXTS} requests: {TEXTS} usable answers" in said
    assert "a run sends up to" in said
    assert re.search(
        r"about [\d.]+ min to the end: [\d.]+ for the requests, [\d.]+ for the embed", said
    )
    sent = len(server.server.asked)
    assert TEXTS <= sent <= TEXTS + 1
    assert command("check")[0] == 0
    assert command("run")[0] == 1  # the stages are replaced by a failure
    assert (folder / "started").exists()
    assert len(server.server.asked) == sent
    assert not open_project(Path()).ledger().entries()


def test_a_stored_verdict_is_for_its_own_inputs_only(bench: Start, folder: Path) -> None:
    server = bench(behave=letter)
    command("check", bench=server)
    assert stored_rehearsal(open_project(Path())) is not None
    (folder / "donated.jsonl").write_text(as_lines(letters(DONATED + 1)))
    assert stored_rehearsal(open_project(Path())) is None


def test_yes_goes_on_and_is_remembered(bench: Start, folder: Path) -> None:
    server = bench(behave=one_text)
    assert command("run", bench=server)[0] == 2
    assert not (folder / "started").exists()
    code, said = command("run", "--yes")
    assert code == 1 and "rehearsal poor" in said
    assert (folder / "started").exists()
    assert command("check")[0] == 0  # weekly runs go on too
    assert command("check", "-S", "release.texts=9")[0] == 2


def test_without_donated_texts_quality_is_not_judged(bench: Start, folder: Path) -> None:
    changes = {"prepare__donated": None, "methods__maple__prompt": "metadata"}
    code, said = command("check", bench=bench(behave=letter), **changes)
    assert code == 0, said
    assert "rehearsal fair: quality cannot be judged without donated texts" in said
    assert "there are no donated texts (prepare.donated)" in said
    code, said = command("check", bench=bench(behave=about_stars), **changes)
    assert code == 2
    assert "nearer to other subjects" in said
