"""Was this stage forced to run?

A stage that is run at a known digest restores what was drawn before. Whoever wants new draws says
so: `sugarbush run --force`, `dvc repro -f`, `dvc exp run -f`. DVC does not hand its flag to a
stage, so it is read off the command line of the DVC process that the stage descends from.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath

import psutil

FORCE_VARIABLE = "SUGARBUSH_FORCE"
_COMMANDS = {("repro",), ("exp", "run"), ("experiments", "run")}
# Short options of these commands that take a value: what follows them is no flag.
_WITH_VALUE = frozenset("-S --set-param -n --name -j --jobs -r --rev".split())


def was_forced() -> bool:
    """Whether the operator asked for new draws."""
    if os.environ.get(FORCE_VARIABLE):
        return True
    return any(asks_for_force(_command(parent)) for parent in psutil.Process().parents())


def asks_for_force(command: Sequence[str]) -> bool:
    """Whether a process's arguments are a forced `dvc repro` or `dvc exp run`."""
    for place, argument in enumerate(command):
        is_dvc = PurePath(argument).name == "dvc"
        is_module = argument == "dvc" and place > 0 and command[place - 1] == "-m"
        if is_dvc or is_module:
            return _forced(list(command[place + 1 :]))
    return False


def _forced(arguments: list[str]) -> bool:
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[1:]
    named = next((c for c in _COMMANDS if tuple(arguments[: len(c)]) == c), None)
    if named is None:
        return False
    skip = False
    for argument in arguments[len(named) :]:
        if skip:
            skip = False
        elif argument in _WITH_VALUE:
            skip = True
        elif argument == "--force":
            return True
        elif argument.startswith("-") and not argument.startswith("--") and "f" in argument:
            return True
    return False


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
