"""Runs the command of a stage in this process, with DVC's variables and folder for the stage."""

from __future__ import annotations

import os
import runpy
import shlex
import sys

from dvc.stage.exceptions import StageCmdFailedError

from sugarbush.pipeline import parent_death


def run(cmd: str, *, cwd: str, env: dict[str, str]) -> None:
    """Run `exec python -m tasks.<name> ...`, which is the form of every command in dvc.yaml."""
    *how, module = shlex.split(cmd)[:4]
    assert how == ["exec", "python", "-m"], cmd
    before, folder, arguments = dict(os.environ), os.getcwd(), sys.argv  # noqa: PTH109
    parent_death.die_with_dvc = lambda: None  # this process is DVC itself
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = [module, *shlex.split(cmd)[4:]]
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise StageCmdFailedError(cmd, end.code) from None
    finally:
        sys.argv = arguments
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)
