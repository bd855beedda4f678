"""`sugarbush check` and `estimate` report errors of the endpoint before any budget is spent."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.errors import BudgetExceededError, GeneratorError, ParamsError, PoorRehearsalError
from sugarbush.evolution.starts import METADATA
from sugarbush.generators.openai.cost import journal_path, read_journal
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import extract_metadata, fingerprint, prepare, synthesize_metadata
from sugarbush.rehearsal.rehearse import TEXTS
from tests.integration.llm.conftest import Bench
from tests.integration.llm.server import Reply, completion, failure, letter
from tests.integration.project import SCHEMA, SMALL, TINY_ENCODER, as_lines, letters
from tests.settings import ROOT, settings

# Warnings from inside DVC.
pytestmark = pytest.mark.filterwarnings(
    "ignore:_NoneStep:DeprecationWarning", "ignore:unclosed:ResourceWarning"
)
Start = Callable[..., Bench]
LABELS = "extract_metadata__llm"
OPENAI = "generator__openai__"
ONE_TEXT = "Dear shop, my lamp of order 77 arrived late. I would like another one."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    base = tmp_path / "corpus"
    base.mkdir()
    (base / "letters.jsonl").write_text(as_lines(letters(66)[6:]))
    (base / "donated.jsonl").write_text(as_lines(letters(6)))
    (base / "dvc.yaml").write_bytes((ROOT / "dvc.yaml").read_bytes())
    shutil.copytree(ROOT / "tasks", base / "tasks")
    (base / ".dvc").mkdir()
    (base / ".dvc" / "config").write_text("[core]\n    no_scm = true\n")
    monkeypatch.chdir(base)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return base


def told(
    command: str, run: Bench, *, labels: bool | dict[str, Any] = False, **changes: Any
) -> tuple[int, str]:
    """Run a command with the server of `run` as generator. Return the exit code and the output."""
    attributes = list(SCHEMA["attributes"])
    if labels:
        attributes.append({"name": "mood", "values": ["angry", "calm"], "source": "llm"})
    Path("letters.schema.yaml").write_text(yaml.safe_dump(SCHEMA | {"attributes": attributes}))
    endpoint = {
        "generator__provider": "openai",
        f"{OPENAI}base_url": run.server.base_url,
        f"{OPENAI}key_variable": "OPENAI_API_KEY",
        f"{OPENAI}model": "tiny",
        f"{OPENAI}max_retries": 0,
        LABELS: {
            "base_url": run.server.base_url, "model": "tiny", "key_variable": "OPENAI_API_KEY",
        } | (labels if isinstance(labels, dict) else {}),
    }  # fmt: skip
    Path("params.yaml").write_text(yaml.safe_dump(settings(**(SMALL | endpoint | changes))))
    result = CliRunner().invoke(app, [command], catch_exceptions=False)
    return result.exit_code, " ".join((result.stdout + result.stderr).split())


def test_what_is_in_order_is_said_and_costs_one_call_and_the_rehearsal(
    bench: Start, folder: Path
) -> None:
    listed = {"object": "list", "data": [{"id": "tiny", "max_model_len": 8192}]}
    run = bench(models=Reply(content=json.dumps(listed).encode()), behave=letter)
    code, said = told("check", run)
    assert code == 0, said
    assert "generator ok: openai" in said
    assert [body["max_tokens"] for body in run.server.asked] == [16, *[512] * TEXTS]


def test_a_context_that_no_list_states_is_tried_at_the_length_of_the_longest_prompt(
    bench: Start, folder: Path
) -> None:
    run = bench(behave=letter)
    assert told("check", run)[0] == 0
    body = run.server.asked[0]
    assert body["max_tokens"] == 512
    longest = max(len(letter["text"]) for letter in letters(6))
    # the prompt contains two examples and the instructions
    assert len(body["messages"][0]["content"]) > 2 * longest


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"key_variable": "NO_SUCH_KEY"}, "no key: environment variable NO_SUCH_KEY"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "cannot be reached"),
        ({"context_tokens": 600, "max_tokens": 500}, "max_tokens"),
        ({"max_cost": 1.0}, "prices has none for model 'tiny'"),
        ({"temperature": 3.0}, "generator.openai.temperature"),
    ],
)
def test_a_wrong_setting_of_the_generator_is_said_before_anything_is_asked(
    bench: Start, folder: Path, change: dict[str, Any], expected: str
) -> None:
    run = bench()
    code, said = told("check", run, **{OPENAI + name: value for name, value in change.items()})
    assert code != 0
    assert expected in said
    assert not run.server.asked


def test_a_first_text_that_the_context_cannot_hold_is_said(bench: Start, folder: Path) -> None:
    run = bench()
    length = {"words": 3000, "attribute": None, "words_by_value": None}
    context = {f"{OPENAI}context_tokens": 2000, "initialise__length": length}
    code, said = told("check", run, **context)
    assert code != 0
    assert "initialise.length" in said
    assert not run.server.asked


def test_answers_that_would_all_be_cut_off_are_said(bench: Start, folder: Path) -> None:
    run = bench(behave=letter)
    length = {"words": 450, "attribute": None, "words_by_value": None}
    code, said = told("check", run, initialise__length=length)
    assert code == 2
    assert "450 words, which need at least 540 tokens, but generator.openai.max_tokens=512" in said
    assert not run.server.asked
    assert told("check", run, initialise__length=length | {"words": 420})[0] == 0


def test_an_unknown_model_is_said_with_those_there_are(bench: Start, folder: Path) -> None:
    run = bench(behave=lambda number, body: failure(404, "no such model", code="model_not_found"))
    code, said = told("check", run, **{f"{OPENAI}model": "tinny"})
    assert code != 0
    assert "does not offer the model 'tinny'" in said
    assert '"tiny"' in said


def test_a_wrong_path_is_said(bench: Start, folder: Path) -> None:
    run = bench()
    address = run.server.base_url.removesuffix("/v1")
    code, said = told("check", run, **{f"{OPENAI}base_url": address})
    assert code != 0
    assert "usually ends in /v1" in said


def test_a_context_that_the_endpoint_does_not_have_is_said(bench: Start, folder: Path) -> None:
    offer = {"id": "tiny", "object": "model", "max_model_len": 512}
    models = json.dumps({"object": "list", "data": [offer]}).encode()
    run = bench(models=Reply(content=models))
    code, said = told("check", run)
    assert code != 0
    assert "context_tokens=8192, but the context of 'tiny' has 512 tokens" in said
    assert not run.server.asked


def test_attributes_asked_of_an_endpoint_that_is_not_trusted(bench: Start, folder: Path) -> None:
    run = bench()
    code, said = told("check", run, labels=True)
    assert code == 2
    assert "extract_metadata.llm.trusted is false" in said
    assert "mood" in said
    assert "Nothing was sent" in said
    assert not run.server.raw


def test_a_run_with_an_endpoint_that_is_not_trusted_ends_before_any_charge(
    bench: Start, folder: Path
) -> None:
    run = bench()
    told("estimate", run, labels=True)
    project = open_project(Path())
    for stage in (fingerprint, prepare):
        stage.run(project)
    with pytest.raises(ParamsError, match="Nothing was sent"):
        extract_metadata.run(project)
    assert not run.server.raw
    assert not Path("data/stamps/extract_metadata.json").exists()
    assert not project.ledger().entries()


def test_an_endpoint_for_labels_that_is_away(bench: Start, folder: Path) -> None:
    away = {"trusted": True, "base_url": "http://127.0.0.1:9/v1"}
    code, said = told("check", bench(), labels=away)
    assert code != 0
    assert "(extract_metadata.llm.base_url) cannot be reached" in said


def test_an_endpoint_for_labels_in_order_is_sent_nothing_private(
    bench: Start, folder: Path
) -> None:
    run = bench(behave=letter)
    code, said = told("check", run, labels={"trusted": True})
    assert code == 0, said
    assert "labels ok" in said
    private = letters(66)[6:]  # the donated texts before them are in the prompts
    assert not any(own["text"].encode() in run.server.raw for own in private)


def test_an_estimate_sends_nothing_and_counts_labels_too(bench: Start, folder: Path) -> None:
    run = bench()
    prices = {"tiny": {"input": 1.0, "output": 2.0, "date": "2026-11-01"}}
    code, said = told("estimate", run, labels=True, **{f"{OPENAI}prices": prices})
    assert code == 0, said
    assert "extract_metadata labels 66 " in said
    assert "initialise@maple first texts" in said
    assert said.count("Cost: about") == 2
    assert said.count("at the prices of 2026-11-01") == 2
    code, said = told("estimate", run, labels=True)
    assert said.count("has no price of this model") == 2
    assert not run.server.raw


def test_an_estimate_says_which_cap_would_stop_a_run(bench: Start, folder: Path) -> None:
    run = bench()
    prices = {"tiny": {"input": 1.0, "output": 2.0, "date": "2026-11-01"}}
    caps = {f"{OPENAI}max_calls": 10, f"{OPENAI}max_cost": 1e-4, f"{OPENAI}prices": prices}
    _, said = told("estimate", run, **caps)
    assert "generator.openai.max_calls=10 is less" in said
    assert "generator.openai.max_cost=0.0001 is less" in said
    ample = {f"{OPENAI}max_calls": 10_000, f"{OPENAI}max_cost": 10.0, f"{OPENAI}prices": prices}
    _, said = told("estimate", run, **ample)
    assert "is less" not in said


def test_a_check_counts_against_the_caps(bench: Start, folder: Path, tmp_path: Path) -> None:
    run = bench(behave=letter)
    code, said = told("check", run, **{f"{OPENAI}max_calls": 1})
    assert code != 0
    assert "generator.openai.max_calls=1 is reached" in said
    assert len(run.server.asked) == 1
    assert len(read_journal(journal_path(tmp_path / "state", "letters"))) == 1


def test_a_run_whose_generator_is_away_ends_before_the_first_charge(
    bench: Start, folder: Path, tmp_path: Path
) -> None:
    """If `sugarbush check` was not run, the first stage that spends budget checks the same."""
    run = bench(behave=letter)
    told("estimate", run, **{f"{OPENAI}base_url": "http://127.0.0.1:9/v1"})
    project = open_project(Path())
    for stage in (fingerprint, prepare, extract_metadata):
        stage.run(project)
    with pytest.raises(GeneratorError, match="cannot be reached"):
        synthesize_metadata.run(project)
    assert not project.ledger().entries()
    assert not Path("data/released").exists()
    told("estimate", bench(behave=lambda number, body: completion(ONE_TEXT)))
    with pytest.raises(PoorRehearsalError, match="repeat another text"):
        synthesize_metadata.run(open_project(Path()))
    assert not project.ledger().entries()
    told("estimate", run)
    synthesize_metadata.run(open_project(Path()))
    assert len(run.server.asked) == 1 + TEXTS
    assert len(project.ledger().entries()) == 1
    run.server.asked.clear()
    synthesize_metadata.run(open_project(Path()))
    assert not run.server.asked  # restored results need no generator


def test_a_run_that_the_cap_cannot_carry_to_its_end_draws_nothing(
    bench: Start, folder: Path
) -> None:
    """The second run of a project is refused: the cap has room for its metadata, but not for its
    metadata and votes.
    """
    run = bench(behave=letter)
    told("estimate", run, privacy__epsilon=1.0, privacy__cap=1.3)
    project = open_project(Path())
    for stage in (fingerprint, prepare, extract_metadata):
        stage.run(project)
    ledger, plan = project.ledger(), project.plan
    for allocation in plan.allocations:
        ledger.charge(allocation.event, stage=allocation.name, run="last week")
    spent = ledger.entries()
    run.server.asked.clear()  # the rehearsal before the first charge
    assert ledger.total(plan.of(METADATA).event) < 1.3
    with pytest.raises(BudgetExceededError, match="this run would bring epsilon"):
        synthesize_metadata.run(project)
    assert ledger.entries() == spent
    assert not Path("data/released").exists()
    assert not run.server.asked


def test_the_ten_lines_of_the_readme_need_no_key_for_the_local_server_that_they_name(
    bench: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.syspath_prepend(TINY_ENCODER)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    rows = pd.DataFrame(letters(200)).rename(columns={"text": "message"})
    rows.to_csv("tickets.csv", index=False)
    run = bench(key=None, behave=letter)
    page = (ROOT / "README.md").read_text()
    (lines,) = re.findall(r"## The library in ten lines\n\n```python\n(.*?)```", page, re.DOTALL)
    for written, here in {
        "http://localhost:8000/v1": f"http://localhost:{run.server.port}/v1",
        "texts=2000": "texts=12, accept_poor=True, settings={'embedding': {'model': 'tiny'}}",
    }.items():
        assert written in lines
        lines = lines.replace(written, here)
    exec(compile(lines, "README.md", "exec"), {})
    assert (tmp_path / "out/synthetic.jsonl").exists()
    assert b"authorization: bearer none" in run.server.raw.lower()
