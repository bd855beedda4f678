"""Runs mypy on a program that must not pass. `make lint` runs it on the library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.settings import ROOT

pytestmark = pytest.mark.slow
# A program with lines that mypy must refuse. Each of these lines has a mark.
PROGRAM = """
from pathlib import Path

from sugarbush.generators.interface import RandomRequest, Request
from sugarbush.attributes.llm_labels import Labeller
from sugarbush.generators.openai.generator import OpenAiGenerator
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.privacy.data_types import Private, Released
from sugarbush.training import Screened


def allowed(
    generator: OpenAiGenerator,
    released: Released[tuple[Request, ...]],
    labels: LabelEndpoint,
    texts: Private[str],
) -> None:
    generator.generate(released)
    labeller = Labeller(labels, (), folder=Path(), account="letters")
    found: Private[tuple[int, ...]] = texts.map_batch(labeller.codes)


def refused(
    generator: OpenAiGenerator,
    requests: Private[tuple[Request, ...]],
    settings: OpenAI,
    labeller: Labeller,
    texts: Private[str],
) -> None:
    generator.generate(requests)  # refused
    generator.generate(requests.map_batch(list))  # refused
    generator.generate((RandomRequest(subject="letters"),))  # refused
    RandomRequest(subject="letters", examples=texts)  # refused
    Labeller(settings, (), folder=Path(), account="letters")  # refused
    labeller.codes(texts)  # refused


def no_such_name(screened: Screened) -> None:
    screened.parts()  # refused
"""


def run_tool(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / program), *arguments],
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip


def test_types_keep_private_text_from_an_endpoint_that_is_not_trusted(
    tmp_path: Path,
) -> None:
    """mypy must report exactly the marked lines of the program."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    finished = run_tool("mypy", str(program))
    errors = [line for line in finished.stdout.splitlines() if ": error: " in line]
    refusal = re.compile(r"program\.py:(\d+): error: .*\[(arg-type|attr-defined)\]")
    found = [refusal.search(line) for line in errors]
    assert all(found), finished.stdout + finished.stderr
    lines = PROGRAM.splitlines()
    refused = {n for n, line in enumerate(lines, start=1) if line.endswith("# refused")}
    assert {int(one[1]) for one in found if one} == refused
    assert len(refused) == 7
