"""The installation's secret key."""

from __future__ import annotations

import secrets
import stat
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from sugarbush.errors import LedgerError
from sugarbush.privacy.key import state_key


def test_a_process_that_waits_reads_the_key_that_the_first_process_wrote(tmp_path: Path) -> None:
    read: list[bytes] = []
    second = threading.Thread(target=lambda: read.append(state_key(tmp_path)))
    first = secrets.token_bytes(32)
    with FileLock(tmp_path / "key.lock"):
        second.start()
        second.join(timeout=0.3)
        assert not read
        (tmp_path / "key").write_bytes(first)
    second.join()
    assert read == [first]


def test_the_key_is_readable_by_the_owner_only_and_stays_the_same(tmp_path: Path) -> None:
    key = state_key(tmp_path / "state")
    assert len(key) == 32
    assert stat.S_IMODE((tmp_path / "state" / "key").stat().st_mode) == 0o600
    assert state_key(tmp_path / "state") == key


def test_a_key_that_was_cut_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(secrets.token_bytes(31))
    with pytest.raises(LedgerError, match="damaged"):
        state_key(tmp_path)
