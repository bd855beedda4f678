"""Finds out whether the operator forced this stage to run.

A stage that runs again with a known digest restores its earlier results. These commands draw new
results: `dvc repro -f`, `dvc exp run -f`, `sugarbush run --force`. DVC does not pass its flag to a
stage. So this module reads the flag from the command line of the DVC process. For a queued
experiment, this module reads the flag from the arguments that DVC stored in the experiment's copy.

If the flag is uncertain, the stage counts as not forced, because an unwanted new draw costs
epsilon. `--force-downstream` has no effect here, because this option names no stage.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePath

import psutil

_RUNS_IN_DVC = "DVC_STAGE"
_STORED_ARGUMENTS = "refs/exps/exec/EXEC_MERGE:./.dvc/tmp/repro.dat"


def was_forced() -> bool:
    """Return whether the operator's DVC command forces this stage."""
    arguments = dvc_arguments()
    return arguments is not None and asks_for_force(arguments, Path())


def runs_from_queue() -> bool:
    """Return whether this stage runs in a worker of DVC's queue. Such a worker has no terminal."""
    arguments = dvc_arguments()
    return arguments is not None and "exec-run" in arguments


def dvc_arguments() -> list[str] | None:
    """Return the arguments of the DVC process that runs this stage, or None without DVC."""
    if _RUNS_IN_DVC not in os.environ:
        return None
    for parent in psutil.Process().parents():
        try:
            arguments = arguments_to_dvc(parent.cmdline())
        except psutil.Error:
            continue
        if arguments is not None:
            return arguments
    return None


def arguments_to_dvc(command: Sequence[str]) -> list[str] | None:
    """Return the arguments after `dvc` on a command line, or None for another program."""
    for place, argument in enumerate(command[:4]):
        if PurePath(argument).name == "dvc" and (place < 2 or command[place - 1] == "-m"):
            return list(command[place + 1 :])
    return None


def asks_for_force(arguments: Sequence[str], base: Path) -> bool:
    """Return whether a DVC command with these arguments forces its stages."""
    if not any(argument.startswith("-") and "f" in argument for argument in arguments):
        return False  # without -f, --force and --infofile, the slow import of DVC is unnecessary
    from dvc.cli import parse_args

    parsed = parse_args(list(arguments))
    if getattr(parsed, "infofile", None) is not None:
        return _stored_force(base)
    return bool(getattr(parsed, "force", False))


def _stored_force(base: Path) -> bool:
    """Read the flag of a queued experiment from the pickled arguments that DVC commits."""
    shown = subprocess.run(
        ["git", "show", _STORED_ARGUMENTS], cwd=base, capture_output=True, check=False
    )
    if shown.returncode != 0:
        return False
    try:
        stored = _PlainUnpickler(io.BytesIO(shown.stdout)).load()
    except pickle.UnpicklingError:
        return False
    return bool(stored["kwargs"].get("force", False))


class _PlainUnpickler(pickle.Unpickler):
    """Unpickles plain values only, because a pickle in a commit must not run code."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"{module}.{name} is not a plain value")
