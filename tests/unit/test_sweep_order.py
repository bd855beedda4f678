"""Which points of a sweep run alone."""

from __future__ import annotations

from pathlib import Path

from flows.sweep import first_of_each_group


def test_the_first_of_every_group_runs_alone() -> None:
    points = [Path(name) for name in ("a/public", "b/public", "a/maple", "b/maple", "c/maple")]
    assert first_of_each_group(points) == [Path("a/public"), Path("b/public"), Path("c/maple")]
