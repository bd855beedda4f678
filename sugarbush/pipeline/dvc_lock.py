"""Mends the files of DVC that a kill cut off: dvc.lock, and the list of running processes.

DVC writes dvc.lock in place, so a kill can leave it empty or cut off, and DVC then refuses to run.
Each stage therefore copies the file that DVC has just read to .dvc/tmp, which is in no commit. A
copy lacks the entry of the last stage only. That stage runs again and restores its stored results.
DVC's list of running processes is written in place, too. It needs no copy: without it, none runs.
"""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from pathlib import Path

from sugarbush.paths import atomic_file

LOCK = "dvc.lock"
COPY = ".dvc/tmp/dvc.lock"
RUNNING = ".dvc/tmp/rwlock"


def copy_lock(base: Path) -> None:
    """Copy dvc.lock to .dvc/tmp, in a stage, while DVC does not write the file."""
    lock, copy = base / LOCK, base / COPY
    if lock.exists() and copy.parent.is_dir():
        with atomic_file(copy) as temporary:
            temporary.write_bytes(lock.read_bytes())


def code_of_last_run(base: Path) -> str | None:
    """Return the digest of the code that wrote the present results, or None without a result."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        stages = YAML(typ="safe").load((base / LOCK).read_text(encoding="utf-8"))["stages"]
        found = stages["prepare"]["params"]["data/stamps/settings.json"]["code"]
    except (OSError, ValueError, YAMLError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def restore_lock(base: Path) -> None:
    """Replace a dvc.lock that DVC cannot read by its copy. Delete an empty one without a copy.
    A file with a merge conflict stays, and so does each file while another DVC process runs. Delete
    a list of running processes that DVC cannot read."""
    _remove_cut_list(base / RUNNING)
    lock, copy = base / LOCK, base / COPY
    if not lock.exists() or _readable(lock):
        return
    from dvc.lock import LockError
    from dvc.repo import Repo

    try:
        with Repo(str(base)) as repo, repo.lock:
            content = lock.read_bytes()
            if _readable(lock) or b"\n<<<<<<< " in b"\n" + content:
                return
            if copy.exists() and _readable(copy):
                with atomic_file(lock, public=True) as temporary:
                    temporary.write_bytes(copy.read_bytes())
                warnings.warn(f"{LOCK} was cut off. Its last copy replaces it", stacklevel=2)
            elif not content:
                lock.unlink()
    except LockError:
        return


def _remove_cut_list(path: Path) -> None:
    if not path.exists() or _is_json(path):
        return
    from dvc.lock import LockError, make_lock

    # DVC holds this lock while it writes the list, and another process waits for it.
    with suppress(LockError), make_lock(f"{path}.lock", tmp_dir=str(path.parent)):
        if not _is_json(path):
            path.unlink(missing_ok=True)


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError:
        return True
    except ValueError:
        return False
    return True


def _readable(path: Path) -> bool:
    """Return whether DVC accepts the file as a dvc.lock."""
    from dvc.exceptions import DvcException
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from dvc.utils.strictyaml import load

    try:
        load(str(path), COMPILED_LOCKFILE_SCHEMA)
    except DvcException:
        return False
    return True
