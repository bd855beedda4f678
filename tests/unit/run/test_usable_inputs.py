"""Tests that a run with which no release can be good is refused before it charges anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import sugarbush as sb
from sugarbush.attributes.placeholders import TONE, placeholders
from sugarbush.cli.main import app
from sugarbush.data.schema import Schema, schema_of
from sugarbush.errors import ParamsError, SchemaError, SugarbushError
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.run_stage import execute
from sugarbush.pipeline.stage import Stage
from sugarbush.project import run as runs
from sugarbush.run.context import Project
from sugarbush.run.settings import parse_params
from sugarbush.run.usable_inputs import require_generator_for_texts, require_usable_inputs
from tests.integration.project import SCHEMA, letters
from tests.unit.pipeline.small_project import write_project

PRODUCT: dict[str, Any] = SCHEMA["attributes"][0]
DRAFTS = {
    "the subject": {**SCHEMA, "subject": "texts"},
    "the subject in capitals": {**SCHEMA, "subject": " Texts "},
    "tone alone": {"subject": "texts", "attributes": [TONE.model_dump(exclude_none=True)]},
    "placeholder values": {
        **SCHEMA,
        "attributes": [PRODUCT | {"values": ["first value", "second value"]}],
    },
    "one placeholder value": {
        **SCHEMA,
        "attributes": [PRODUCT | {"values": ["lamp", "second value"]}],
    },
}
SPENDING = [stage for stage in STAGES if stage.spends]
FRAME = pd.DataFrame(letters(140)).drop(columns="id")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def refusal(stage: Stage, project: Project) -> str:
    """Return the error of the stage, which may not charge anything."""
    (first, *_) = project.settings.chosen
    with pytest.raises(SugarbushError) as refused:
        execute(stage, project, first if stage.by_method else None)
    assert not list(project.state.rglob("ledgers"))
    return str(refused.value)


def project_with(base: Path, *, schema: dict[str, Any] = SCHEMA, **changes: Any) -> Project:
    project = write_project(base, **changes)
    (base / "letters.schema.yaml").write_text(yaml.safe_dump(schema))
    return project


def methods_of(stage: Stage) -> list[str]:
    return ["dpft"] if stage.name in ("finetune", "generate") else ["maple"]


@pytest.mark.parametrize("stage", SPENDING, ids=lambda stage: stage.name)
@pytest.mark.parametrize("draft", DRAFTS)
def test_no_stage_charges_for_an_unedited_draft(
    tmp_path: Path, state: Path, stage: Stage, draft: str
) -> None:
    methods = methods_of(stage)
    project = project_with(
        tmp_path / "project", schema=DRAFTS[draft], methods=methods, evaluate__public=True
    )
    message = refusal(stage, project)
    assert "letters.schema.yaml: this is an unedited draft" in message
    assert "no budget was spent" in message


@pytest.mark.parametrize(
    "stage", [s for s in SPENDING if methods_of(s) == ["maple"]], ids=lambda s: s.name
)
def test_no_stage_charges_for_the_simulator_on_own_texts(
    tmp_path: Path, state: Path, stage: Stage
) -> None:
    project = project_with(
        tmp_path / "project",
        methods=["maple"],
        generator__simulator={"any_texts": False},
        evaluate__public=True,
    )
    message = refusal(stage, project)
    for way in ("openai", "huggingface", "pool", "any_texts", "No budget was spent"):
        assert way in message


def test_check_and_run_refuse_a_project_as_init_wrote_it(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` must refuse before it starts any stage."""

    def fails(*_: Any, **__: Any) -> Any:
        raise AssertionError("a stage was started")

    monkeypatch.setattr(runs, "_reproduce", fails)
    FRAME.to_csv(tmp_path / "letters.csv", index=False)
    monkeypatch.chdir(tmp_path)
    command("init", "own", "--from", "letters.csv", code=0)
    monkeypatch.chdir(tmp_path / "own")
    path = Path("data/public/schema.yaml")
    for name in ("check", "run"):
        assert "data/public/schema.yaml: this is an unedited draft" in command(name, code=2)
    path.write_text(yaml.safe_dump(SCHEMA))
    changed = ("-S", "generator.provider=simulator")
    for name in ("check", "run"):
        said = command(name, *changed, code=2)
        assert "generator.provider: simulator writes texts of one fixed" in said
    assert not list(state.rglob("ledgers"))


def command(*arguments: str, code: int) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def settings_of(methods: list[str], purpose: str, **generator: Any) -> Any:
    fields: dict[str, Any] = {
        "methods": {name: {} for name in methods},
        "privacy": {"dataset": "letters", "purpose": purpose},
        "generator": generator,
    }
    if purpose != "example":
        fields["prepare"] = {"file": "letters.jsonl", "schema": "s.yaml", "donated": None}
    return parse_params(fields)


@pytest.mark.parametrize(
    ("methods", "purpose", "generator", "refused"),
    [
        (["mosaic"], "release", {}, True),
        (["mosaic"], "release", {"provider": "simulator"}, True),
        (["dpft", "mosaic"], "release", {}, True),
        (["mosaic"], "release", {"simulator": {"any_texts": True}}, False),
        (["mosaic"], "benchmark", {}, False),
        (["mosaic"], "example", {}, False),
        (["dpft"], "release", {}, False),
        (["mosaic"], "release", {"provider": "pool", "pool": {"sources": []}}, False),
    ],
)
def test_the_simulator_writes_for_the_example_and_for_public_data_only(
    methods: list[str], purpose: str, generator: dict[str, Any], refused: bool
) -> None:
    settings = settings_of(methods, purpose, **generator)
    if refused:
        with pytest.raises(ParamsError, match="one fixed domain"):
            require_generator_for_texts(settings)
    else:
        require_generator_for_texts(settings)


def test_the_setting_for_any_texts_changes_no_cache_key() -> None:
    assert sb.Simulator(any_texts=True).identity() == sb.Simulator().identity()


def test_a_draft_with_a_subject_is_edited_and_crt_needs_no_schema() -> None:
    assert placeholders(Schema(subject="letters to a shop", attributes=(TONE,))) == ()
    draft = Schema(subject="texts", attributes=(TONE,))
    assert len(placeholders(draft)) == 2
    require_usable_inputs(settings_of(["crt"], "release"), draft, source="the schema")


# --- in Python

PRIVACY = sb.Privacy(dataset="letters")
SIMULATOR = sb.Simulator(any_texts=True)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the frame is read."""

    def fails(*_: Any, **__: Any) -> Any:
        raise AssertionError("the frame was read")

    monkeypatch.setattr("sugarbush.api.frame_arguments.prepare_corpus", fails)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"generator": sb.Simulator()}, ParamsError, "one fixed domain"),
        ({"settings": {"generator": {"provider": "simulator"}}}, ParamsError, "one fixed domain"),
        *(
            ({"generator": SIMULATOR, "schema": draft}, SchemaError, "the schema: this is an uned")
            for draft in DRAFTS.values()
        ),
    ],
)
def test_prepare_refuses_before_the_frame_is_read(
    tmp_path: Path, changes: dict[str, Any], error: type[SugarbushError], message: str
) -> None:
    fields: dict[str, Any] = {"schema": SCHEMA, "privacy": PRIVACY, "state": tmp_path} | changes
    with pytest.raises(error, match=message):
        sb.prepare(FRAME, donated=FRAME[:6], **fields)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("settings", [{}, {"generator": {"max_dropped_share": 0.5}}])
def test_a_method_without_its_generator_is_refused(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    corpus = sb.prepare(
        FRAME,
        schema=SCHEMA,
        privacy=PRIVACY,
        donated=FRAME[:6],
        settings=settings,
        state=tmp_path,
    )
    before = set(tmp_path.rglob("*"))
    for name, method in (("mosaic", None), ("maple", sb.Maple())):
        with pytest.raises(ParamsError, match=f"generator: method {name} needs a generator"):
            sb.synthesize(corpus, method=method)
    with pytest.raises(ParamsError, match="one fixed domain"):
        sb.synthesize(corpus, settings={"generator": {"provider": "simulator"}})
    assert set(tmp_path.rglob("*")) == before


def test_a_method_that_trains_needs_no_generator() -> None:
    schema = schema_of(dict(SCHEMA), source="s")
    require_usable_inputs(settings_of(["dpft"], "release"), schema, source="s")
