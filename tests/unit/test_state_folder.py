"""Tests that git never adds a key or a ledger, wherever the state folder is."""

from __future__ import annotations

import subprocess
import threading
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
    (tmp_path / "params.yaml").write_text("methods: {mosaic: {}}\n")
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


def test_no_process_reads_an_unfinished_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes that start at once: the second reads while the first writes."""
    half_written, go_on = threading.Event(), threading.Event()
    write = Path.write_text

    def slow_write(path: Path, text: str, *args: object, **kwargs: object) -> int:
        write(path, "")
        half_written.set()
        go_on.wait(10)
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", slow_write)
    first = threading.Thread(target=make_state, args=(tmp_path / "state",))
    first.start()
    assert half_written.wait(10)
    monkeypatch.setattr(Path, "write_text", write)
    try:
        make_state(tmp_path / "state")
    finally:
        go_on.set()
        first.join()
    assert (tmp_path / "state/.gitignore").read_text() == "*\n"
