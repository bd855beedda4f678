"""Files and folders that are replaced as a whole, also in folders of other users."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sugarbush.errors import StorageError
from sugarbush.paths import atomic_directory, atomic_file, atomic_stream, open_owner_only


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


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes | None]]:
    """The files that were synced to the disk: inode, and the content of `target` at this time."""
    found: list[tuple[int, bytes | None]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        target = next((p for p in path.parents if p.name == "project"), path) / "target"
        if target.is_dir():
            target /= "rows"
        found.append((os.fstat(descriptor).st_ino, content_of(target)))

    monkeypatch.setattr(os, "fsync", watched)
    return found


def content_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


@pytest.mark.parametrize("earlier", [None, b"old"])
def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, synced: list[tuple[int, bytes | None]], earlier: bytes | None
) -> None:
    """Otherwise a power failure could leave an empty file with the name of a finished one."""
    target = tmp_path / "project" / "target"
    target.parent.mkdir()
    if earlier is not None:
        target.write_bytes(earlier)
    with atomic_file(target) as temporary:
        temporary.write_bytes(b"new")
    assert (target.stat().st_ino, earlier) in synced
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("earlier", [None, b"old"])
def test_the_files_of_a_folder_are_on_the_disk_before_it_has_its_name(
    tmp_path: Path, synced: list[tuple[int, bytes | None]], earlier: bytes | None
) -> None:
    target = tmp_path / "project" / "target"
    if earlier is not None:
        target.mkdir(parents=True)
        (target / "rows").write_bytes(earlier)
    with atomic_directory(target) as folder:
        (folder / "rows").write_bytes(b"new")
        (folder / "below").mkdir()
        (folder / "below" / "more").write_bytes(b"new")
    for name in ("rows", "below/more"):
        assert ((target / name).stat().st_ino, earlier) in synced
    assert (target.parent.stat().st_ino, b"new") in synced  # the rename itself


OTHER_USER = 12345


def as_other_user(path: Path) -> None:
    """Give a file to another user, if the tests run as root."""
    if os.geteuid() == 0:
        os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)


def test_nothing_is_written_through_a_file_that_another_user_made(tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "out.csv", tmp_path / "elsewhere"
    elsewhere.write_text("")
    planted, linked = tmp_path / f".other.{os.getpid()}", tmp_path / f".out.csv.{os.getpid()}"
    for file in (planted, elsewhere):
        file.touch()
        file.chmod(0o666)
        as_other_user(file)
    linked.symlink_to(elsewhere)
    as_other_user(linked)
    for name in ("other", "out.csv"):
        with atomic_file(tmp_path / name) as temporary:
            temporary.write_text("private")
    assert elsewhere.read_text() == ""
    assert linked.is_symlink()
    assert planted.read_text() == ""
    for name in ("other", "out.csv"):
        status = (tmp_path / name).lstat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (os.geteuid(), 0o600)
    assert target.read_text() == "private"


def test_a_temporary_file_is_new_random_and_for_its_owner_only(tmp_path: Path) -> None:
    names = set()
    for _ in range(20):
        with atomic_file(tmp_path / "out") as temporary:
            names.add(temporary.name)
            assert stat.S_IMODE(temporary.lstat().st_mode) == 0o600
            assert temporary.parent == tmp_path
    assert len(names) == 20


def test_a_temporary_name_that_exists_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", lambda size: b"guessed!")
    for make in (lambda p: p.touch(0o666), lambda p: p.symlink_to(tmp_path / "elsewhere")):
        planted = tmp_path / f".out.{b'guessed!'.hex()}"
        make(planted)
        with pytest.raises(StorageError, match="File exists"), atomic_file(tmp_path / "out"):
            pytest.fail("the file was opened")
        planted.unlink()  # the file of the other user is still there
    assert list(tmp_path.iterdir()) == []


def test_a_replaced_temporary_file_gives_no_output_and_receives_no_text(tmp_path: Path) -> None:
    """Another user of the folder can rename files there, if the folder has no sticky bit."""
    planted = tmp_path / "planted"
    planted.write_text("")
    with pytest.raises(StorageError, match="replaced"), atomic_stream(tmp_path / "out") as stream:
        (temporary,) = tmp_path.glob(".out.*")
        planted.replace(temporary)
        stream.write(b"private")
    assert [path.read_text() for path in tmp_path.iterdir()] in ([], [""])
    assert not (tmp_path / "out").exists()


def test_a_public_file_has_the_usual_mode_and_a_private_folder_is_closed(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with atomic_file(tmp_path / "params.yaml", public=True) as temporary:
            temporary.write_text("")
        with atomic_directory(tmp_path / "own/output", private=True) as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "params.yaml").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700


def test_no_private_file_is_opened_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        open_owner_only(tmp_path / "link", os.O_WRONLY)
    assert not (tmp_path / "elsewhere").exists()
