"""The `sugarbush` command in a checkout of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.integration.project import Project, as_lines, letters, make_project

pytestmark = pytest.mark.xdist_group("cli")
CANARY = "canary-7731"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "checkout", tmp_path / "state")


def test_check_says_what_is_in_order_and_spends_nothing(project: Project) -> None:
    told = project.run("sugarbush", "check").stdout
    for part in ("settings", "schema", "data", "generator", "budget"):
        assert re.search(rf"^{part} +ok", told, re.MULTILINE)
    assert not project.charges()
    assert not (project.path / "data" / "private").exists()


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("privacy.epsilon=0", "privacy.epsilon"),
        ("privacy.delta=1", "privacy.delta"),
        ("privacy.shares.metadata=0.5", "must add up to 1"),
        ("privacy.unit=user", "privacy.unit: user needs prepare.user_column"),
        ("privacy.epsilom=1", "did you mean epsilon"),
        ("evolve.maple.rounds=200000", "evolve.maple.rounds=200000"),
        ("prepare.text_column=body", "no column 'body'"),
        ("prepare.file=gone.csv", "gone.csv: not found (setting prepare.file)"),
        ("prepare.schema=gone.yaml", "gone.yaml"),
        ("methods=[]", "methods"),
    ],
)
def test_a_wrong_setting_is_exit_code_2_and_one_message(
    project: Project, assignment: str, expected: str
) -> None:
    finished = project.run("sugarbush", "check", "-S", assignment, code=2)
    assert expected in finished.stderr
    assert "Traceback" not in finished.stderr
    assert not project.charges()


def test_a_budget_that_its_cap_cannot_carry_is_exit_code_1(project: Project) -> None:
    before = (project.path / "params.yaml").read_bytes()
    finished = project.run("sugarbush", "check", "-S", "privacy.cap=0.5", code=1)
    assert "cap 0.5" in finished.stderr
    told = project.run("sugarbush", "budget", "-S", "privacy.cap=0.5").stdout
    assert "past the cap" in told
    assert (project.path / "params.yaml").read_bytes() == before


@pytest.mark.slow
def test_a_failing_stage_gives_the_run_its_exit_code_and_leaves_nothing(project: Project) -> None:
    bad = {"id": "x", "text": f"{CANARY}\0", "product": "lamp"}
    (project.path / "letters.jsonl").write_text(as_lines([*letters(140), bad]))
    finished = project.run("sugarbush", "run", code=2)
    assert "row 141" in finished.stderr
    assert "NUL" in finished.stderr
    assert CANARY not in finished.stdout + finished.stderr
    assert "continues from there" in finished.stderr
    assert not (project.path / "data" / "private" / "prepared").exists()
    assert not (project.path / "data" / "released").exists()
    assert not project.charges()


def test_the_demo_refuses_ones_own_data(project: Project) -> None:
    finished = project.run("sugarbush", "run", "--only-example", code=2)
    assert "your own data" in finished.stderr
    assert not project.charges()


def test_the_examples_purpose_is_refused_for_another_file(project: Project) -> None:
    path = project.path / "params.yaml"
    fields = yaml.safe_load(path.read_text())
    fields["privacy"]["purpose"] = "example"
    path.write_text(yaml.safe_dump(fields))
    finished = project.run("sugarbush", "run", "--only-example", code=2)
    assert "embedded corpus" in finished.stderr


def test_every_command_explains_itself(project: Project) -> None:
    for command in ("init", "run", "check", "report", "budget", "estimate", "cache", "show"):
        told = project.run("sugarbush", command, "--help").stdout
        assert f"sugarbush {command}" in told
