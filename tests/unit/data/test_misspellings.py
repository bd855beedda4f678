"""Tests that values which differ only in spelling are shown with --internal, and never else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from sugarbush.cli.checks import run_checks
from sugarbush.cli.main import app
from sugarbush.data.misspellings import Misspelling, misspellings
from sugarbush.data.records import Record
from sugarbush.data.schema import Schema
from sugarbush.project import check as checks
from sugarbush.project.checked import Checked
from sugarbush.run.context import Project
from tests.integration.project import SCHEMA, TINY_ENCODER, as_lines, letters
from tests.unit.pipeline.small_project import write_project


def found(written: list[Any], **attribute: Any) -> list[Misspelling]:
    schema = Schema.model_validate(
        {"subject": "letters", "attributes": [{"name": "kind", "column": "k"} | attribute]}
    )
    rows = [Record(i, str(i), "text", (value,)) for i, value in enumerate(written)]
    return misspellings(rows, schema)


@pytest.mark.parametrize(
    ("listed", "written"),
    [
        ("lamp", "Lamps"), ("lamp", "lamps"), ("boxes", "box"), ("mobile app", "mobile-app"),
        ("mobile app", "MobileApp"), ("delivery", "deliveries"), ("house", "houses"),
        ("5", "5."),
    ],
)  # fmt: skip
def test_a_value_that_differs_only_in_spelling_is_found(listed: str, written: str) -> None:
    (one,) = found([written, written, "chair", None], values=[listed, "chair"])
    assert (one.attribute, one.listed, one.found, one.records) == ("kind", listed, written, 2)


def test_a_value_that_a_row_has_or_that_is_just_another_word_is_not_found() -> None:
    assert found(["lamp", "Lamp"], values=["lamp"]) == []
    assert found(["cafe\u0301"], values=["caf\u00e9"]) == []
    assert found(["table"], values=["lamp", "chair"]) == []
    assert found(["lamp", "lamps"], values=["lamp", "lamps", "Lamps"]) == []
    assert found([1, 2.0, "x"], bins=[2, 4]) == []


def test_raw_values_of_groups_are_compared() -> None:
    (one,) = found(["cas", "NY"], groups={"west": ["CA"], "east": ["NY"]})
    assert (one.listed, one.found) == ("CA", "cas")
    assert found(["ca", "NY"], groups={"west": ["CA"], "east": ["NY"]}) == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project in which all rows have `lamps` and the schema lists `lamp`."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(TINY_ENCODER)
    project = write_project(tmp_path / "project", embedding__model="tiny")
    monkeypatch.chdir(project.base)
    monkeypatch.setattr(checks, "checked_budget", lambda *_: Checked(text=""))
    rows = [row | {"product": row["product"].replace("lamp", "lamps")} for row in letters(140)]
    (project.base / "letters.jsonl").write_text(as_lines(rows))
    (project.base / "letters.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    return project


def test_check_shows_a_misspelling_only_with_internal(project: Project) -> None:
    said = {}
    for internal in (False, True):
        console = Console(file=io.StringIO(), width=200)
        run_checks(project, console, internal=internal)
        said[internal] = console.file.getvalue()  # type: ignore[attr-defined]
    assert "lamps" not in said[False] and "misspelt" not in said[False]
    assert "no row has these listed values of 'product': 'lamp'. " in said[False]
    assert "not DP: do not share" in said[True]
    assert "'product': no row has the listed value 'lamp', but " in said[True]
    assert "row(s) have 'lamps'" in said[True]


def test_the_command_has_the_option(project: Project) -> None:
    done = CliRunner().invoke(app, ["check", "--internal"])
    assert done.exit_code == 0, done.output
    assert "'lamps'" in done.output
    done = CliRunner().invoke(app, ["check"])
    assert "'lamps'" not in done.output
