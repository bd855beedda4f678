"""Asks the installed call mode `batch` which calls are in files that no run has collected.

    <state>/batches/    the files of submitted calls, which the call mode writes and reads

A package registers the call mode as an entry point of the group `sugarbush.call_modes`. Without
such a package, no run can collect the answers. So a run with such files is refused: its calls would
be paid twice, and the caps would not count the submitted calls.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final, Protocol

from sugarbush.errors import StorageError
from sugarbush.registry import CALL_MODES, load_plugin, plugin_names

BATCH: Final = "batch"
_FOLDER = "batches"


class SubmittedCalls(Protocol):
    """What the call mode knows about the calls in a folder of submitted files."""

    def reserved(self, folder: Path, *, account: str) -> tuple[int, float]:
        """Return the number and the maximum total cost of an account's calls."""

    def has_any(self, folder: Path, keys: Collection[str]) -> bool:
        """Return whether a call with one of `keys` is submitted."""


def folder_in(state: Path) -> Path:
    """Return the folder of the submitted files."""
    return state / _FOLDER


def has_batch_mode() -> bool:
    """Return whether an installed package provides the call mode `batch`."""
    return BATCH in plugin_names(CALL_MODES)


def reserved_by_submitted(state: Path, *, account: str) -> tuple[int, float]:
    """Return the number and the maximum total cost of the submitted calls of an account.

    Raises StorageError for a damaged file, and if there are files but no package to read them.
    """
    mode = _mode(state)
    return (0, 0.0) if mode is None else mode.reserved(folder_in(state), account=account)


def any_submitted(state: Path, keys: Collection[str]) -> bool:
    """Return whether a call with one of `keys` is submitted. Raises StorageError as above."""
    mode = _mode(state)
    return mode is not None and mode.has_any(folder_in(state), keys)


def _mode(state: Path) -> SubmittedCalls | None:
    if has_batch_mode():
        mode: SubmittedCalls = load_plugin(CALL_MODES, BATCH)()
        return mode
    if any(folder_in(state).glob("*.json")):
        raise StorageError(
            f"{folder_in(state)}: an earlier run has submitted files of calls, and no installed "
            f"package can collect the answers (an entry point '{BATCH}' of the group "
            f"'{CALL_MODES}'). Install such a package. To pay for these calls again, remove the "
            "folder"
        )
    return None
