"""Tests that DVC and its stage end if their flow or `sugarbush run` is killed with -9."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

from tests.settings import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("dvc"),
    pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's kernel"),
]

STAGE = """
stages:
  wait:
    cmd: >-
      exec python -c "import pathlib, os, time;
      from sugarbush.pipeline.parent_death import die_with_dvc; die_with_dvc(); {then}"
    outs: [never.txt]
"""
FLOW = "from sugarbush.pipeline.flow import run_dvc; run_dvc('repro', say=print)"
RUN = """
from pathlib import Path
from sugarbush.project.run import _reproduce
from sugarbush.run.settings import ProjectSettings
_reproduce(Path(), ProjectSettings(), force=False, go_on=False, say=print)
"""


def wait_until(found: Callable[[], object]) -> None:
    """Wait until `found()` returns true. There is no time limit except the limit of the test."""
    while not found():
        time.sleep(0.05)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize("starts", [FLOW, RUN], ids=["flow", "run"])
def test_killing_the_starter_ends_dvc_and_its_stage(
    tmp_path: Path, shell: str, starts: str
) -> None:
    started = tmp_path / "started"
    then = f"pathlib.Path('{started}').write_text(str(os.getpid())); time.sleep(36000)"
    (tmp_path / "dvc.yaml").write_text(STAGE.format(then=then))
    (tmp_path / "params.yaml").write_text("{}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DVC_")} | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "DVC_NO_ANALYTICS": "1",
        "SHELL": shell,
    }
    subprocess.run(
        [sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"],
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    starter = subprocess.Popen([sys.executable, "-c", starts], cwd=tmp_path, env=environment)
    try:
        wait_until(lambda: has_ended(starter) or (started.exists() and started.read_text()))
        assert not has_ended(starter)
        stage = psutil.Process(int(started.read_text()))
        family = [stage, *stage.parents()]
        family = family[: [p.pid for p in family].index(starter.pid)]
        assert any("dvc" in part for process in family for part in process.cmdline())
        starter.kill()
        starter.wait()
        wait_until(lambda: not any(is_alive(process) for process in family))
    finally:
        starter.kill()


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def is_alive(process: psutil.Process) -> bool:
    """Return whether the process still runs. A zombie process does not count as running."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_dvc_does_not_start_for_a_parent_that_is_gone() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "sugarbush.pipeline.run_with_parent", "1", "dvc", "version"],
        cwd=ROOT,
        check=False,
        capture_output=True,
    )
    assert finished.returncode == 1
    assert not finished.stdout


def test_no_stage_has_a_shell_above_it() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    commands = [fields.get("do", fields)["cmd"] for fields in stages.values()]
    assert all(command.startswith("exec python -m tasks.") for command in commands)
