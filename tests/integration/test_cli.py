"""Tests of the `sugarbush` command in a separate checkout."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sugarbush.cli.main import app
from sugarbush.pipeline.flow import only_run
from sugarbush.project.run import STOPPED
from tests.integration.project import Checkout, as_lines, letters, make_project
from tests.pipelines import environment_of, opened
from tests.settings import ROOT

pytestmark = pytest.mark.filterwarnings(
    "ignore:_NoneStep:DeprecationWarning", "ignore:unclosed:ResourceWarning"
)  # a warning inside DVC
CANARY = "canary-7731"
WITH_SIGINT = str(ROOT / "tests" / "with_sigint.py")
Command = Callable[..., Result]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    folder = tmp_path_factory.mktemp("cli")
    return make_project(folder / "checkout", folder / "state", embedding__model="tiny")


@pytest.fixture
def project(made: Checkout) -> Checkout:
    """Return a checkout in which no stage has run. Tests share it, and must undo their changes."""
    assert not (made.path / "data" / "private").exists()
    return made


@pytest.fixture
def command(project: Checkout, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function: `command("check", ..., code=2)` runs `sugarbush check` in this process."""

    def run(*arguments: str, code: int = 0) -> Result:
        with environment_of(project), monkeypatch.context() as patch:
            patch.chdir(project.path)
            result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


def test_check_says_what_is_in_order_and_spends_nothing(
    project: Checkout, command: Command
) -> None:
    shown = command("check").stdout
    for part in ("settings", "schema", "data", "generator", "budget"):
        assert re.search(rf"^{part} +ok", shown, re.MULTILINE)
    assert not project.charges()
    assert not (project.path / "data" / "private").exists()


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("privacy.epsilon=0", "privacy.epsilon"),
        ("privacy.delta=1", "privacy.delta"),
        ("privacy.metadata_share=1", "less than 1"),
        ("privacy.unit=user", "`privacy.unit: user` needs prepare.user_column"),
        ("privacy.epsilom=1", "did you mean epsilon"),
        ("methods.maple.rounds=200000", "methods.maple.rounds=200000"),
        ("prepare.text_column=body", "no column 'body'"),
        ("prepare.file=gone.csv", "gone.csv: not found (setting prepare.file)"),
        ("prepare.schema=gone.yaml", "gone.yaml"),
        ("methods=[]", "methods"),
    ],
)
def test_a_wrong_setting_is_exit_code_2_and_one_message(
    project: Checkout, command: Command, assignment: str, expected: str
) -> None:
    result = command("check", "-S", assignment, code=2)
    assert expected in result.stderr
    assert "Traceback" not in result.stderr
    assert not project.charges()


def test_a_budget_beyond_its_cap_is_exit_code_1(project: Checkout, command: Command) -> None:
    before = (project.path / "params.yaml").read_bytes()
    assert "cap 0.5" in command("check", "-S", "privacy.cap=0.5", code=1).stderr
    assert "past the cap" in command("budget", "-S", "privacy.cap=0.5").stdout
    assert (project.path / "params.yaml").read_bytes() == before


@pytest.mark.slow
@pytest.mark.xdist_group("dvc")
def test_a_failing_stage_gives_the_run_its_exit_code_and_leaves_nothing(tmp_path: Path) -> None:
    """The test runs the installed command, as a user does."""
    project = make_project(tmp_path / "checkout", tmp_path / "state")
    bad = {"id": "x", "text": f"{CANARY}\0", "product": "lamp"}
    (project.path / "letters.jsonl").write_text(as_lines([*letters(140), bad]))
    finished = project.run("sugarbush", "run", code=2)
    assert "row 141" in finished.stderr
    assert "NUL" in finished.stderr
    assert CANARY not in finished.stdout + finished.stderr
    assert "`sugarbush run` continues from there" in finished.stderr
    assert not (project.path / "data" / "private" / "prepared").exists()
    assert not (project.path / "data" / "released").exists()
    assert not project.charges()


def test_ctrl_c_stops_a_run_with_one_line(tmp_path: Path) -> None:
    own = make_project(tmp_path / "checkout", tmp_path / "state", embedding__model="tiny")
    with subprocess.Popen(
        [sys.executable, WITH_SIGINT, str(Path(sys.executable).with_name("sugarbush")), "run"],
        cwd=own.path,
        env=own.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        while ": running" not in process.stdout.readline():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the whole group
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == f"sugarbush: {STOPPED}"
    assert "Traceback" not in errors


def test_a_second_run_is_refused(project: Checkout, command: Command) -> None:
    with opened(project), only_run(project.path):
        message = command("run", code=1).stderr
    assert "another run on dataset" in message
    assert "rwlock" not in message
    assert not project.charges()


def test_the_demo_refuses_ones_own_data(project: Checkout, command: Command) -> None:
    assert "your own data" in command("run", "--only-example", code=2).stderr
    assert not project.charges()


def test_the_examples_purpose_is_refused_for_another_file(
    project: Checkout, command: Command
) -> None:
    path = project.path / "params.yaml"
    before = path.read_text()
    try:
        project.change("privacy", purpose="example")
        result = command("run", "--only-example", code=2)
    finally:
        path.write_text(before)
    assert "embedded corpus" in result.stderr


@pytest.mark.parametrize(
    "name", ["init", "run", "check", "report", "budget", "estimate", "cache", "show"]
)
def test_every_command_explains_itself(command: Command, name: str) -> None:
    assert f"{name} [OPTIONS]" in command(name, "--help").stdout
