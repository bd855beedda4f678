"""Checks every command of `benchmarks` and `research` that a page, a docstring or a file prints.

Nothing is imported and nothing runs here: a script must exist, and its parser must have the
options. Logs are left out: they report what was run on a day, partly with scripts that are gone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.settings import ROOT

SCRIPTS = sorted(
    path for room in ("benchmarks", "research") for path in (ROOT / room).rglob("*.py")
)
SETTINGS = sorted((ROOT / "research/settings").glob("*.yaml"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "research/README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "docs/log" not in page.as_posix()),
]
COMMAND = re.compile(r"(?<!tests/)\b(benchmarks|research)(?:\.(\w+)|/(\w+)\.py)((?: +[^\s`#;|]+)*)")


def faults(text: str) -> Iterator[str]:
    """Yield the scripts of a text that do not exist, and the options that they do not have."""
    for room, dotted, path, arguments in COMMAND.findall(re.sub(r"\\\n[ #]*", " ", text)):
        name = dotted or path
        file = ROOT / room / f"{name}.py"
        if not file.exists():
            if not file.with_suffix("").is_dir():
                yield f"{room}.{name}"
            continue
        given = set(re.findall(r"--[\w-]+", arguments))
        yield from (f"{room}.{name} {option}" for option in sorted(given - options_of(file)))


def options_of(file: Path) -> set[str]:
    """Return the options that a script gives to its parser."""
    calls = (n for n in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(n, ast.Call))
    return {
        str(argument.value)
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }


def texts() -> Iterator[tuple[Path, str]]:
    """Yield the pages and settings, and the docstring of each script."""
    for file in (*PAGES, *SETTINGS):
        yield file, file.read_text("utf-8")
    for file in SCRIPTS:
        yield file, ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""


def test_a_printed_script_exists_and_has_the_printed_options() -> None:
    assert [
        f"{file.relative_to(ROOT)}: {fault}" for file, text in texts() for fault in faults(text)
    ] == []


def test_a_script_that_is_gone_and_an_option_that_is_gone_are_found() -> None:
    printed = "`python -m research.page --none a.csv`, `benchmarks/gone.py` and research.leakage"
    assert list(faults(printed)) == ["research.page --none", "benchmarks.gone"]
    continued = "python -m benchmarks.scale --records 1 \\\n#   --gone 2 | sort --unique"
    assert list(faults(continued)) == ["benchmarks.scale --gone"]
