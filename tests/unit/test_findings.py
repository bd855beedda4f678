"""Tests that each script of findings/ states what it shows, and is listed. The tests run none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.settings import ROOT

SCRIPTS = sorted((ROOT / "findings").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_states_guess_truth_versions_and_output(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    for field in ("Guess", "Truth", "Packages", "Date", "Source", "Output seen"):
        assert re.search(rf"^# {field}: \S", text, re.MULTILINE), field
    (installed,) = re.findall(r"pip\" install [^\n]*\\\n  ([^\n]+)\n", text)
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", name) for name in installed.split())
    assert "mktemp -d" in text and "trap 'rm -rf" in text and "diff expected seen" in text
    assert "set -euo pipefail" in text and "sugarbush" not in text
    assert script.stat().st_mode & 0o111


def test_each_script_is_listed_once() -> None:
    listed = re.findall(
        r"^- `([\w.-]+)`: \S", (ROOT / "findings/README.md").read_text(), re.MULTILINE
    )
    assert listed == [script.name for script in SCRIPTS] and len(listed) > 7


def test_the_installed_package_and_the_tests_do_not_contain_findings() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    assert 'include = ["sugarbush*"]' in settings and 'testpaths = ["tests"]' in settings
    assert "findings" not in (ROOT / "Makefile").read_text() + (ROOT / ".ci/run").read_text()
