"""The tools that keep the house in order: ruff, mypy, import-linter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.settings import ROOT

COMMANDS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "imports": ["lint-imports"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_tree_is_in_order(name: str) -> None:
    program, *arguments = COMMANDS[name]
    finished = subprocess.run(
        [str(Path(sys.executable).parent / program), *arguments],
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
