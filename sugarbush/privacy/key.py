"""The installation's secret key. A module of its own: keyed digests need no accountant."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from filelock import FileLock

from sugarbush.errors import LedgerError, StorageError
from sugarbush.paths import make_owner_only

_LOCK_TIMEOUT_S = 120


def random_id() -> str:
    """Return 32 random hexadecimal digits from the operating system."""
    return secrets.token_hex(16)


def state_key(state: Path) -> bytes:
    """Return the installation's secret key. The first call creates the file, readable by its owner
    only.

    Raises StorageError when the state folder cannot be used, and LedgerError on a damaged key.
    """
    path = state / "key"
    try:
        make_owner_only(state)
        with FileLock(state / "key.lock", timeout=_LOCK_TIMEOUT_S):
            if not path.exists():
                temporary = state / f"key.{os.getpid()}"
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(secrets.token_bytes(32))
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
            key = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{state}: the state folder cannot be used: {error.strerror}") from None
    if len(key) != 32:
        raise LedgerError(f"{path}: the key is damaged; restore it from a backup")
    return key
