"""Tests with real DVC processes that a stage detects whether its run is forced.

DVC does not pass the flag `-f` to stages.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sugarbush.pipeline.forced import arguments_to_dvc, asks_for_force
from tests.settings import ROOT

pytestmark = pytest.mark.xdist_group("dvc")

STAGE = """
stages:
  ask:
    cmd: python ask.py
    params: [x]
    outs: [out.txt]
"""
ASK = """
from pathlib import Path
from sugarbush.pipeline.forced import runs_from_queue, was_forced
with open({answers!r}, "a") as file:
    print(was_forced(), runs_from_queue(), file=file)
Path("out.txt").write_text("the same")
"""


class Asked:
    """A checkout with one stage, which records whether its run was forced."""

    def __init__(self, path: Path) -> None:
        self.path, self.answers = path, path.parent / "answers"
        path.mkdir()
        (path / "dvc.yaml").write_text(STAGE)
        (path / "params.yaml").write_text("x: 1\n")
        (path / "ask.py").write_text(ASK.format(answers=str(self.answers)))
        (path / ".gitignore").write_text("/out.txt\n")
        for command in (
            "git init --quiet",
            "git config user.name test",
            "git config user.email test@example.org",
            "dvc init --quiet",
            "dvc config core.analytics false",
            "git add --all",
            "git commit --quiet --message=start",
        ):
            self.run(*command.split())

    def run(self, *command: str) -> None:
        """Run a command in the checkout, with the `dvc` of this Python environment."""
        if command[0] == "dvc":
            command = (sys.executable, "-m", *command)
        python = str(Path(sys.executable).parent)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DVC_")} | {
            "PATH": os.pathsep.join([python, os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "DVC_NO_ANALYTICS": "1",
        }
        subprocess.run(command, cwd=self.path, env=environment, check=True, capture_output=True)

    def answers_to(self, *command: str) -> list[str]:
        """Run a command, and return what the stage recorded in each of its runs.

        The result is empty if the stage did not run.
        """
        self.answers.write_text("")
        self.run(*command)
        return self.answers.read_text().splitlines()


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    project = Asked(tmp_path_factory.mktemp("forced") / "checkout")
    assert project.answers_to("dvc", "repro") == ["False False"]
    return project


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("dvc repro", []),
        ("dvc repro -f", ["True False"]),
        ("dvc --wait-for-lock repro -sf ask", ["True False"]),
        ("dvc exp run -f", ["True False"]),
        ("dvc exp run -S x=2", ["False False"]),
        ("dvc exp run --temp -S x=3", ["False False"]),
        ("dvc exp run --temp --force", ["True False"]),
    ],
)
def test_a_stage_knows_whether_it_was_forced(asked: Asked, command: str, said: list[str]) -> None:
    assert asked.answers_to(*command.split()) == said


@pytest.mark.slow
def test_a_queued_experiment_remembers_whether_it_was_forced(asked: Asked) -> None:
    asked.run("dvc", "exp", "run", "--queue", "--force", "-S", "x=1")
    asked.run("dvc", "exp", "run", "--queue", "-S", "x=9")
    assert asked.answers_to("dvc", "exp", "run", "--run-all") == ["True True", "False True"]


@pytest.mark.slow
def test_a_stage_run_by_hand_is_not_forced(asked: Asked) -> None:
    assert asked.answers_to("python", "ask.py") == ["False False"]


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (["/venv/bin/python", "/venv/bin/dvc", "repro", "-f"], ["repro", "-f"]),
        (["/venv/bin/python", "-m", "dvc", "repro"], ["repro"]),
        (["/usr/bin/dvc", "exp", "run"], ["exp", "run"]),
        (["/bin/bash", "-c", "dvc repro -f"], None),
        (["vim", "notes/on", "dvc"], None),
    ],
)
def test_dvc_is_known_by_its_command_line(command: list[str], arguments: list[str] | None) -> None:
    assert arguments_to_dvc(command) == arguments


@pytest.mark.parametrize(
    ("arguments", "forced"),
    [
        ("repro --force-downstream", False),
        ("repro -s evolve@maple -f", True),
        ("exp run -S a=-f", False),
        ("exp run --queue --name force", False),
    ],
)
def test_the_flag_is_read_by_dvcs_own_parser(arguments: str, forced: bool, tmp_path: Path) -> None:
    assert asks_for_force(arguments.split(), tmp_path) is forced
