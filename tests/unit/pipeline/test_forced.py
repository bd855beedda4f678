"""The flag of a queued experiment, which DVC commits as a pickle."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sugarbush.pipeline.forced import asks_for_force

QUEUED = ["exp", "exec-run", "--infofile", "info.json"]


def commit(base: Path, stored: bytes) -> None:
    """Commit the stored arguments where DVC has them."""
    file = base / ".dvc/tmp/repro.dat"
    file.parent.mkdir(parents=True)
    file.write_bytes(stored)
    name = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for arguments in (
        ["init", "--quiet"],
        ["add", "--force", "--all"],
        [*name, "commit", "--quiet", "--message=start"],
        ["update-ref", "refs/exps/exec/EXEC_MERGE", "HEAD"],
    ):
        subprocess.run(["git", *arguments], cwd=base, check=True, capture_output=True)


@pytest.mark.parametrize("forced", [True, False])
def test_the_stored_flag_decides(tmp_path: Path, forced: bool) -> None:
    commit(tmp_path, pickle.dumps({"args": [], "kwargs": {"force": forced}}))
    assert asks_for_force(QUEUED, tmp_path) is forced


def test_a_flag_that_cannot_be_read_does_not_force_a_charge(tmp_path: Path) -> None:
    assert not asks_for_force(QUEUED, tmp_path)  # without a repository
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    assert not asks_for_force(QUEUED, tmp_path)


class Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.marker,))


def test_a_pickle_in_a_commit_runs_no_code(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    commit(tmp_path, pickle.dumps({"kwargs": {"force": True}, "bomb": Bomb(marker)}))
    assert not asks_for_force(QUEUED, tmp_path)
    assert not marker.exists()
