"""Tests that the two selections and the shards run each test once, and that promises are quick."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.selection import WHOLE, is_quick, kept, named_by_mutants, select
from tests.settings import ROOT

NAMED = next(name for name in sorted(named_by_mutants()) if name.startswith("tests/unit/"))


def item(name: str, *, slow: bool = False) -> Any:
    marker = pytest.mark.slow.mark if slow else None
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda wanted: marker)


ITEMS = [
    item("tests/unit/test_a.py::test_b"),
    item("tests/property/test_a.py::test_b"),
    item("tests/unit/test_a.py::test_slow", slow=True),
    item(NAMED, slow=True),
    item(f"{NAMED}[case]@group", slow=True),
    item("tests/integration/test_a.py::test_b"),
    *(item(name, slow=True) for name in WHOLE),
]


def test_quick_tests_are_those_that_guard_promises_or_take_no_time() -> None:
    quick = [True, True, False, True, True, False, *(True for _ in WHOLE)]
    assert [is_quick(each) for each in ITEMS] == quick


@pytest.mark.parametrize("shards", [[None], ["1/2", "2/2"], ["1/3", "2/3", "3/3"]])
def test_every_test_is_in_one_selection_and_in_one_shard(shards: list[str | None]) -> None:
    found = []
    for selection in ("quick", "rest"):
        for shard in shards:
            items = list(ITEMS)
            removed = select(items, kept(selection, shard))
            assert len(items) + len(removed) == len(ITEMS)
            found += [each.nodeid for each in items]
    assert sorted(found) == sorted(each.nodeid for each in ITEMS)


def test_the_whole_runs_exist() -> None:
    for name in WHOLE:
        path, _, function = name.partition("::")
        assert f"def {function.partition('[')[0]}(" in Path(ROOT / path).read_text()
