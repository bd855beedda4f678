"""Checks that every pitfall in docs/pitfalls.md names tests that exist."""

import ast
import re

from tests.settings import ROOT

GUARD = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
SECTION = re.compile(r"^## ", re.MULTILINE)


def functions(path):
    return {n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)}


def test_every_trap_is_guarded_by_tests_that_exist():
    _, *sections = SECTION.split((ROOT / "docs/pitfalls.md").read_text())
    assert len(sections) == 8
    for section in sections:
        guards = GUARD.findall(section)
        assert guards, section.splitlines()[0]
        assert all(name in functions(ROOT / file) for file, name in guards)
