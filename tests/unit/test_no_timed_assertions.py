"""Tests that no test asserts how long something takes, because another machine may be busy."""

from __future__ import annotations

import ast

import pytest

from tests.settings import ROOT

CLOCKS = {
    f"time.{name}{unit}"
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "time")
    for unit in ("", "_ns")
}


def reads_a_clock(node: ast.AST) -> bool:
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(ast.unparse(call.func) in CLOCKS for call in calls)


def timed_assertions(code: str) -> list[str]:
    """Return the asserts that read a clock, or a name that was computed from a clock."""
    tree = ast.parse(code)
    timed = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and reads_a_clock(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
        and (
            reads_a_clock(node.test)
            or any(isinstance(n, ast.Name) and n.id in timed for n in ast.walk(node.test))
        )
    ]


def test_no_test_asserts_on_a_clock() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): timed
        for path in (ROOT / "tests").rglob("*.py")
        if (timed := timed_assertions(path.read_text()))
    }
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        "import time\nassert time.monotonic() - began < 5",
        "import time\ntook = time.perf_counter() - began\nassert took < 5",
        "import time\nends = time.time() + 60\nassert x < ends",
    ],
)
def test_a_timed_assertion_is_found(code: str) -> None:
    assert timed_assertions(code)
