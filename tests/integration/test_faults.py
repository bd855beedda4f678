"""A few of the faults of `make stress`, so that the script keeps working."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.settings import ROOT

pytestmark = pytest.mark.slow


def test_a_few_faults_at_random_moments_break_no_promise() -> None:
    command = ("-m", "tests.stress", "--kills", "6", "--others", "1", "--only", "stage", "llm")
    finished = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    table = [line for line in finished.stdout.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0].strip("| ") for line in table[1:]] == [
        "stage, first release", "stage, restored release", "LLM server", "no network",
    ]  # fmt: skip
