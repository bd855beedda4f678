"""Divides the tests: `make test` runs what guards the promises and is quick, `make test-all` the
rest.

`--selection quick` keeps the tests outside tests/integration that are not slow, the tests outside
it that a mutant names (these hold a promise), and the whole runs in WHOLE. `--selection rest` keeps
all others, so that both together run each test once. `--shard 1/2` keeps a half of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from zlib import crc32

import pytest

FOLDERS = ("tests/unit/", "tests/property/")
# One case of the API against the stages, one project under DVC, and one flow of Prefect.
WHOLE = (
    "tests/unit/pipeline/test_api_equals_stages.py::test_the_api_gives_what_the_stages_give[mosaic]",
    "tests/integration/test_pipeline_dvc.py::test_two_methods_together_run_their_own_stages_and_share_one_budget",
    "tests/integration/test_flow.py::test_a_first_run_runs_the_needed_stages_and_shows_what_is_public",
)


@lru_cache(maxsize=1)
def named_by_mutants() -> tuple[str, ...]:
    """Return the functions of the tests that mutants name, without whole files."""
    from tests.mutants.__main__ import load

    return tuple({test for mutant in load() for test in mutant.tests if "::" in test})


def is_quick(item: pytest.Item) -> bool:
    """Whether `make test` runs a test."""
    name = item.nodeid.partition("@")[0]
    if name in WHOLE:
        return True
    if not name.startswith(FOLDERS):
        return False
    if not item.get_closest_marker("slow"):
        return True
    return any(name == test or name.startswith(f"{test}[") for test in named_by_mutants())


def in_shard(item: pytest.Item, shard: str) -> bool:
    """Whether a test is in a shard, such as 1/2. The tests of a file are in one shard."""
    number, count = map(int, shard.split("/"))
    return crc32(item.nodeid.partition("::")[0].encode()) % count == number - 1


def kept(selection: str | None, shard: str | None) -> Callable[[pytest.Item], bool]:
    """Return a function that says whether the options keep a test."""
    return lambda item: (
        (selection is None or is_quick(item) == (selection == "quick"))
        and (shard is None or in_shard(item, shard))
    )


def select(items: list[pytest.Item], keep: Callable[[pytest.Item], bool]) -> Sequence[pytest.Item]:
    """Remove items that `keep` refuses from the list, and return them."""
    removed = [item for item in items if not keep(item)]
    items[:] = [item for item in items if keep(item)]
    return removed
