"""The installation's secret key. This module imports no accountant, so that it loads fast."""

from __future__ import annotations

import secrets
from pathlib import Path

from filelock import FileLock

from sugarbush.errors import LedgerError, StorageError
from sugarbush.paths import atomic_file, make_state

_LOCK_TIMEOUT_S = 120


def random_id() -> str:
    """Return 32 random hexadecimal digits from the operating system."""
    return secrets.token_hex(16)


def state_key(state: Path) -> bytes:
    """Return the installation's secret key. The first call creates the key file, with mode 0600.

    Raises StorageError if the state folder cannot be used. Raises LedgerError on a damaged key.
    """
    path = state / "key"
    try:
        make_state(state)
        with FileLock(state / "key.lock", timeout=_LOCK_TIMEOUT_S):
            if not path.exists():
                with atomic_file(path) as temporary:
                    temporary.write_bytes(secrets.token_bytes(32))
            key = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{state}: the state folder cannot be used: {error.strerror}") from None
    if len(key) != 32:
        raise LedgerError(f"{path}: the key is damaged. Restore it from a backup")
    return key
