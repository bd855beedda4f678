"""Tests that a command and its stages go on if the reader of their output ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.settings import ROOT

# A stage prints on both streams before and after the reader has ended, and then writes its output.
STAGE = """
import os, pathlib, sys, time
from sugarbush.closed_output import output_may_close
with output_may_close():
    print("first line", flush=True)
    while not pathlib.Path("closed").exists():
        time.sleep(0.01)
    for number in range(20_000):
        print("line", number, flush=number % 100 == 0)
        print("warning", number, file=sys.stderr)
    pathlib.Path("result.txt").write_text("whole")
"""
RUN = """
import sys
from pathlib import Path
from sugarbush.project.run import _reproduce
from sugarbush.cli.printing import say
from sugarbush.closed_output import output_may_close
from sugarbush.run.settings import ProjectSettings
with output_may_close():
    code = _reproduce(Path(), ProjectSettings(), force=False, go_on=False, say=say)
    print("finished", flush=True)
sys.exit(code)
"""


def read_one_line(arguments: list[str], folder: Path) -> tuple[str, int]:
    """Run a program, and close both of its streams after its first line, as `2>&1 | head -1`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DVC_")} | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "DVC_NO_ANALYTICS": "1",
    }
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.stdout.close()
        (folder / "closed").touch()
        return line, process.wait()


def test_a_program_goes_on_after_its_reader_has_ended(tmp_path: Path) -> None:
    assert read_one_line(["-c", STAGE], tmp_path) == ("first line\n", 0)
    assert (tmp_path / "result.txt").read_text() == "whole"


@pytest.mark.slow
@pytest.mark.xdist_group("dvc")
def test_a_run_whose_output_is_cut_by_head_finishes_its_stages_and_the_lock(
    tmp_path: Path,
) -> None:
    (tmp_path / "stage.py").write_text(STAGE)
    (tmp_path / "dvc.yaml").write_text(
        "stages:\n  own:\n    cmd: exec python stage.py\n    outs: [result.txt]\n"
        "  next:\n    cmd: exec cp result.txt copy.txt\n    deps: [result.txt]\n"
        "    outs: [copy.txt]\n"
    )
    (tmp_path / "params.yaml").write_text("{}")
    init = [sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"]
    subprocess.run(init, cwd=tmp_path, check=True)
    _, code = read_one_line(["-c", RUN], tmp_path)
    assert code == 0
    assert (tmp_path / "copy.txt").read_text() == "whole"
    status = subprocess.run(
        [sys.executable, "-m", "dvc", "status"], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "up to date" in status.stdout


def test_a_command_may_be_read_by_head(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("{}")
    line, code = read_one_line(["-m", "sugarbush", "settings"], tmp_path)
    assert line and code == 0
