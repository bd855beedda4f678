"""A digest of files that the settings name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from sugarbush.errors import InputError
from sugarbush.paths import find_input


def digest_of_files(base: Path, names: Sequence[str], *, setting: str) -> bytes:
    """SHA-256 over the contents of `names`, in order. Raises InputError naming file and setting."""
    whole = hashlib.sha256()
    for name in names:
        path = find_input(base, name)
        try:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except FileNotFoundError:
            raise InputError(f"{path}: not found (setting {setting})") from None
        except (PermissionError, IsADirectoryError) as error:
            raise InputError(f"{path}: {error.strerror} (setting {setting})") from None
    return whole.digest()
