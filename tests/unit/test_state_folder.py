"""Tests that git never adds a key or a ledger, wherever the state folder is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sugarbush.errors import StorageError
from sugarbush.paths import make_state


def staged(folder: Path) -> set[str]:
    command = ["git", "-C", str(folder), "ls-files", "--others", "--exclude-standard"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("/data/private\n")
    (tmp_path / "params.yaml").write_text("methods: [mosaic]\n")
    (tmp_path / "data/public").mkdir(parents=True)
    (tmp_path / "data/public/schema.yaml").write_text("subject: letters\n")
    return tmp_path


@pytest.mark.parametrize("name", [".", "data"])
def test_a_folder_of_the_project_is_no_state_folder(project: Path, name: str) -> None:
    before = staged(project)
    with pytest.raises(StorageError, match="SUGARBUSH_STATE"):
        make_state(project / name)
    assert staged(project) == before


def test_git_adds_nothing_of_a_state_folder_in_the_project(project: Path) -> None:
    before = staged(project)
    for _ in range(2):
        make_state(project / ".state")
        (project / ".state/key").write_bytes(b"secret")
    assert staged(project) == before
