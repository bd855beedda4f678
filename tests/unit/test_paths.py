"""Folders that are replaced as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sugarbush.paths import atomic_directory


def left_by(pid: int, folder: Path) -> Path:
    path = folder / f".metadata.{pid}-abc"
    path.mkdir()
    return path


def test_folders_of_killed_writers_are_removed_and_those_of_living_ones_are_not(
    tmp_path: Path,
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, alive = left_by(gone.pid, tmp_path), left_by(os.getpid(), tmp_path)
    other = tmp_path / f".metadata2.{gone.pid}-abc"
    other.mkdir()
    with atomic_directory(tmp_path / "metadata") as folder:
        (folder / "rows").write_text("new")
    assert (tmp_path / "metadata/rows").read_text() == "new"
    assert not dead.exists()
    assert alive.exists()
    assert other.exists()


def test_a_failure_keeps_the_old_folder_and_nothing_beside_it(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "metadata") as folder:
        (folder / "rows").write_text("old")
    with pytest.raises(ValueError, match="stopped"), atomic_directory(tmp_path / "metadata") as f:
        (f / "rows").write_text("half")
        raise ValueError("stopped")
    assert [path.name for path in tmp_path.iterdir()] == ["metadata"]
    assert (tmp_path / "metadata/rows").read_text() == "old"
