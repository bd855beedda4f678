"""mypy refuses every way for private text to an endpoint that is not trusted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.settings import ROOT

PROGRAM = """
from pathlib import Path

from sugarbush.generators.interface import RandomRequest, Request
from sugarbush.attributes.llm_labels import Labeller
from sugarbush.generators.openai.generator import OpenAiGenerator
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.privacy.data_types import Private, Released


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
"""


@pytest.mark.slow
def test_private_text_reaches_an_endpoint_by_a_trusted_labeller_alone(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    finished = subprocess.run(
        [str(Path(sys.executable).with_name("mypy")), str(program)],
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    found = {
        int(n) for n in re.findall(r"program\.py:(\d+): error: .*\[arg-type\]", finished.stdout)
    }
    lines = PROGRAM.splitlines()
    assert found == {n for n, line in enumerate(lines, start=1) if line.endswith("# refused")}
    assert len(found) == 6
