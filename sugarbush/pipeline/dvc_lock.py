"""Repairs the files of DVC that a kill cut off: dvc.lock, and the list of running processes.

DVC writes dvc.lock in place, so a kill can leave it empty or cut off. DVC then refuses to run, or
an entry lacks the names by which this machine knows its own release. Each run and each stage
therefore copies the file that DVC has just read to .dvc/tmp, which is in no commit. A copy lacks
the entry of the last stage only. That stage runs again and restores its stored results. DVC's list
of running processes is written in place, too. It needs no copy: without it, none runs.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sugarbush.paths import atomic_file
from sugarbush.pipeline.graph import STAGES

LOCK = "dvc.lock"
COPY = ".dvc/tmp/dvc.lock"
RUNNING = ".dvc/tmp/rwlock"
_SPENDING = tuple(stage.name.encode() for stage in STAGES if stage.spends)


def copy_lock(base: Path) -> None:
    """Copy dvc.lock to .dvc/tmp, in a stage, while DVC does not write the file."""
    lock, copy = base / LOCK, base / COPY
    if lock.exists() and copy.parent.is_dir():
        with atomic_file(copy) as temporary:
            temporary.write_bytes(lock.read_bytes())


def code_of_last_run(base: Path) -> str | None:
    """Return the digest of the code that wrote the present results, or None without a result."""
    found = _settings_of_last_run(base).get("prepare", {}).get("code")
    return found if isinstance(found, str) else None


def stages_of_new_version(base: Path) -> list[str]:
    """Return the stages that spend and whose results are of another version of their mechanism."""
    last = _settings_of_last_run(base)
    return [
        stage.name
        for stage in STAGES
        if stage.spends
        and any(
            settings.get(f"versions.{stage.name}", stage.version) != stage.version
            for name, settings in last.items()
            if name.partition("@")[0] == stage.name
        )
    ]


def _settings_of_last_run(base: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of each stage in dvc.lock, or {} for a file that cannot be read."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        stages = YAML(typ="safe").load((base / LOCK).read_text(encoding="utf-8"))["stages"]
        entries = {name: entry.get("params", {}) for name, entry in stages.items()}
        return {name: dict(e.get("data/stamps/settings.json", {})) for name, e in entries.items()}
    except (OSError, ValueError, YAMLError, KeyError, TypeError, AttributeError):
        return {}


def restore_lock(base: Path) -> None:
    """Replace a dvc.lock that is cut off by its copy, or delete it if it names no release and has
    no copy. Copy a whole one, because DVC may write it before the first stage can copy it.

    A file with a merge conflict stays, and so does each file while another DVC process runs. Remove
    ended processes from DVC's list of running processes.
    """
    _forget_ended_processes(base / RUNNING)
    lock, copy = base / LOCK, base / COPY
    if not lock.exists():
        return
    if _is_whole(lock):
        copy_lock(base)
        return
    from dvc.lock import LockError
    from dvc.repo import Repo

    try:
        with Repo(str(base)) as repo, repo.lock:
            content = lock.read_bytes()
            if _is_whole(lock) or b"\n<<<<<<< " in b"\n" + content:
                return
            if copy.exists() and _is_whole(copy):
                with atomic_file(lock, public=True) as temporary:
                    temporary.write_bytes(copy.read_bytes())
                warnings.warn(f"{LOCK} was cut off. Its last copy replaces it", stacklevel=2)
            elif not any(name in content for name in _SPENDING):
                lock.unlink()
    except LockError:
        return


def _forget_ended_processes(path: Path) -> None:
    """Remove the processes that have ended from DVC's list, or delete a list that is cut off.

    DVC removes an ended process itself, but not if its number belongs to another program by now, as
    it does after the restart of a container.
    """
    if not path.exists():
        return
    running = _only_running(path)
    if running is not None and running == _content_of(path):
        return
    from dvc.lock import LockError, make_lock

    # DVC holds this lock while it writes the list, and another process waits for it.
    with suppress(LockError), make_lock(f"{path}.lock", tmp_dir=str(path.parent)):
        if (running := _only_running(path)) is None:
            path.unlink(missing_ok=True)
        else:
            with atomic_file(path) as temporary:
                temporary.write_text(json.dumps(running))


def _only_running(path: Path) -> Any:
    """Return DVC's list without ended processes. The result is None for a list that DVC cannot
    read."""
    try:
        found = _content_of(path)
        read = {name: [i for i in own if _is_dvc(i)] for name, own in found["read"].items()}
        write = {name: info for name, info in found["write"].items() if _is_dvc(info)}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return {"write": write, "read": {name: own for name, own in read.items() if own}}


def _content_of(path: Path) -> Any:
    """Return DVC's list. A missing or empty part of the list is an empty mapping."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        found = {}
    return {"write": {}, "read": {}} | found


def _is_dvc(info: Mapping[str, Any]) -> bool:
    import psutil

    try:
        return any("dvc" in argument for argument in psutil.Process(info["pid"]).cmdline())
    except psutil.AccessDenied:
        return True
    except psutil.Error:
        return False


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


def _is_whole(path: Path) -> bool:
    """Return whether DVC accepts the file, and its last entry is not cut off.

    A part of a YAML file is often a valid YAML file. DVC writes the outputs of an entry last, each
    with its path, its digest and its size.
    """
    if not path.read_bytes().endswith(b"\n") or not _readable(path):
        return False
    from ruamel.yaml import YAML

    found = YAML(typ="safe").load(path.read_text(encoding="utf-8")) or {}
    if not (entries := found.get("stages")):
        return False
    name, entry = next(reversed(entries.items()))
    outputs = entry.get("outs", ())
    return not any(
        len(outputs) != len(stage.outputs) or any("size" not in out for out in outputs)
        for stage in STAGES
        if stage.name == name.partition("@")[0]
    )
