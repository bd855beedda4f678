"""The folders of a project, and atomic writing of folders and files.

data/private/     mode 0700; never a DVC output, never pushed
data/released/    DP output; every folder has a release.json
data/public/      schema, donated examples, the embedded example
data/stamps/      random names, which DVC compares instead of private files
reports/internal/ private results, computed on real texts
reports/public/   results that may be published
<state>           ledger, key, finished results, caches; outside the checkout
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import platformdirs

from sugarbush.errors import MissingInputError, StorageError

STATE_VARIABLE = "SUGARBUSH_STATE"
OWN_LABELS = Path("data/private/redaction/labels.jsonl")  # the file of `sugarbush label`


def last_part(name: str) -> str:
    """Return the last part of a path or of a model's name, because other folders are private.

    >>> last_part("/home/ann/models/encoder/"), last_part("org/model"), last_part("llama3:8b")
    ('encoder', 'model', 'llama3:8b')
    """
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1]


class Roots:
    """The paths of a project, relative to the folder that contains params.yaml."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.private = base / "data" / "private"
        self.released = base / "data" / "released"
        self.public = base / "data" / "public"
        self.stamps = base / "data" / "stamps"
        self.internal = base / "reports" / "internal"
        self.published = base / "reports" / "public"


def state_root(base: Path, *, example: bool = False) -> Path:
    """Return the state folder, which contains everything that must survive a run.

    SUGARBUSH_STATE names the folder; a relative path starts at the checkout. The default is the
    user's state folder. The default for the public example is `.state` in the checkout. DVC deletes
    the temporary copy of an experiment (under .dvc/tmp/exps), so an experiment uses the state of
    the checkout around the copy.
    """
    if named := os.environ.get(STATE_VARIABLE):
        return named_state(base, named)
    if example:
        return checkout_root(base) / ".state"
    return Path(platformdirs.user_state_dir("sugarbush"))


def named_state(base: Path, name: Path | str) -> Path:
    """Return the path of a state folder. A relative `name` starts at the checkout of `base`."""
    return checkout_root(base) / Path(name).expanduser()


def checkout_root(base: Path) -> Path:
    """Return the folder of the checkout that corresponds to `base`.

    If `base` is not in the copy of a DVC experiment, the result is `base`. DVC copies the whole git
    repository, and the project may be a subfolder of the repository.
    """
    base = base.absolute()
    for parent in base.parents:
        if parent.parts[-3:] == (".dvc", "tmp", "exps"):
            below = base.relative_to(parent).parts  # tmpabc/..., or standalone/tmpabc/... (--temp)
            around, inside = parent.parents[2], below[2 if below[0] == "standalone" else 1 :]
            if inside:
                repositories = (f for f in (around, *around.parents) if (f / ".git").exists())
                around = next(repositories, around)
            return around.joinpath(*inside)
    return base


def find_input(base: Path, name: str) -> Path:
    """Find a file in `base`. In the copy of a DVC experiment, also search the checkout.

    The copy contains only tracked files, and a corpus is usually not tracked by git.
    """
    path = base / name
    around = checkout_root(base) / name
    return path if path.exists() or not around.exists() else around


def require(path: Path, *, left_by: str) -> Path:
    """Return `path`. If the path is missing, MissingInputError names the stage that writes it."""
    if not path.exists():
        raise MissingInputError(f"{path}: not found. Run stage '{left_by}', which writes the file")
    return path


def make_owner_only(folder: Path) -> None:
    """Make a folder and its missing parents, accessible to the owner only. Raises OSError.

    An existing folder keeps its mode, because the user may share it on purpose.
    """
    if folder.exists():
        return
    for each in [each for each in (*reversed(folder.parents), folder) if not each.exists()]:
        each.mkdir(mode=0o700, exist_ok=True)


_OF_A_PROJECT = (
    ".git", ".dvc", "params.yaml", "dvc.yaml", "private", "released", "public", "internal",
)  # fmt: skip


def make_state(state: Path) -> None:
    """Make the state folder, accessible to the owner only. Raises OSError.

    The folder may be inside a git repository. So its .gitignore names every file, and `git add`
    adds no key, ledger or result. Raises StorageError for a folder of a project, because that
    .gitignore would also cover the project's files.
    """
    ignored = state / ".gitignore"
    try:  # the file is read once, because another process may write it now
        names = ignored.read_text("utf-8", "replace").split()
    except FileNotFoundError:
        names = None
    is_state = names is not None and "*" in names
    others = [name for name in _OF_A_PROJECT if (state / name).exists()]
    if not is_state and (others or names is not None):
        raise StorageError(
            f"{state}: SUGARBUSH_STATE names a folder with other files "
            f"({', '.join(others or [ignored.name])}), and git could add the key of the ledger. "
            "Choose a folder that contains nothing else"
        )
    make_owner_only(state)
    if not is_state:
        with atomic_file(ignored) as temporary:  # another process never reads an empty file
            temporary.write_text("*\n")


def make_private(folder: Path) -> Path:
    """Make a folder. The folder and its next parent `private` or `internal` get mode 0700."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in (folder, *folder.parents):
            if each.name in {"private", "internal"} or each == folder:
                each.chmod(0o700)
            if each.name in {"private", "internal"}:
                break
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}") from None
    return folder


@contextmanager
def reading(path: Path, *, advice: str) -> Iterator[None]:
    """Convert any error of a block that reads a file of an earlier run to a StorageError.

    The message says that the file is damaged, and gives `advice`.
    """
    try:
        yield
    except Exception:
        raise StorageError(f"{path}: is damaged. {advice}") from None


@contextmanager
def atomic_directory(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside `target`, which replaces `target` when the block succeeds.

    After an error, `target` is unchanged and the temporary folder is removed. A killed process
    leaves folders with names that start with a dot. After a kill between the two renames, such a
    folder contains the complete old `target`. The next successful write of `target` removes the
    folders of killed processes. Raises StorageError if a file cannot be written.
    """
    temporary: Path | None = None
    old: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if private:
            make_private(target.parent)
        prefix = f".{target.name}."
        temporary = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=target.parent))
        if not private:
            temporary.chmod(0o755)
        yield temporary
        for path in sorted(temporary.rglob("*")):
            if path.is_file():
                _sync(path)
        if target.exists():
            old = target.replace(temporary.with_name(f"{temporary.name}.old"))
        temporary.replace(target)
        _sync(target.parent)
        remove_leftovers(target.parent, prefix)
    except OSError as error:
        if old is not None and not target.exists():
            old.replace(target)
        raise StorageError(f"{target}: could not be written: {error.strerror or error}") from None
    finally:
        for left in (temporary, old):
            if left is not None and left.exists():
                shutil.rmtree(left, ignore_errors=True)


def remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove the temporary folders of killed processes.

    A folder is removed if its name has the prefix and the id of a process that does not exist.
    """
    import psutil

    for path in folder.iterdir():
        pid = path.name.removeprefix(prefix).partition("-")[0]
        if path.name.startswith(prefix) and pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def atomic_file(target: Path, *, public: bool = False) -> Iterator[Path]:
    """Yield a temporary file beside `target`, which replaces `target` when the block succeeds.

    Only the owner can read the file. A `public` file gets the usual mode for new files. Raises
    StorageError if the file cannot be written.
    """
    with _temporary_file(target, public=public) as (_, temporary):
        yield temporary


@contextmanager
def atomic_stream(target: Path) -> Iterator[BinaryIO]:
    """Like `atomic_file`, but yield the open file, for a private file in a folder of other users.

    Nothing opens the file by its name. So another user who replaces the name receives no text.
    """
    with (
        _temporary_file(target, public=False) as (descriptor, _),
        os.fdopen(descriptor, "wb", closefd=False) as file,
    ):
        yield file


@contextmanager
def _temporary_file(target: Path, *, public: bool) -> Iterator[tuple[int, Path]]:
    # The name is random and the file is new. Otherwise another user of the folder could make the
    # file, or a link, before.
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    descriptor = -1
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_owner_only(temporary, os.O_RDWR | os.O_EXCL, public=public)
        yield descriptor, temporary
        os.fsync(descriptor)
        if not os.path.samestat(os.fstat(descriptor), temporary.lstat()):
            raise StorageError(
                f"{target}: another process replaced the temporary file {temporary.name}. Name a "
                "file in a folder that only you can change"
            )
        temporary.replace(target)
    except OSError as error:
        raise StorageError(f"{target}: could not be written: {error.strerror or error}") from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)


def open_owner_only(path: Path, flags: int, *, public: bool = False) -> int:
    """Open a file, or create it with mode 0600. Follows no link. Returns the descriptor.

    A new `public` file gets the usual mode. Raises OSError.
    """
    mode = 0o666 if public else 0o600
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
