"""Tests that the search in `canary`, which other tests use, finds text in compressed content."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sugarbush.generators.answer_cache import Completion, open_cache
from tests.integration.canary import files_with

MARK = "canary7731x"


def in_a_table(folder: Path) -> None:
    pd.DataFrame({"text": [f"a {MARK} "] * 500}).to_parquet(folder / "table", index=False)


def in_a_database_that_is_open(folder: Path) -> None:
    """Write a value that stays in the write-ahead log, because the connection is not closed."""
    database = sqlite3.connect(folder / "open.db")
    database.execute("pragma journal_mode = wal")
    database.execute("create table kept (value text)")
    database.execute("insert into kept values (?)", (MARK,))
    database.commit()
    OPEN.append(database)


def in_a_kept_answer(folder: Path) -> None:
    with open_cache(folder) as cache:
        cache.put("key", Completion(text=f"{MARK} " * 50, finish_reason="stop", refused=False,
                                    prompt_tokens=1, completion_tokens=1))  # fmt: skip


def in_an_array(folder: Path) -> None:
    np.save(folder / "array.npy", np.frombuffer(MARK.encode(), dtype=np.uint8))


def in_a_gz_file(folder: Path) -> None:
    (folder / "texts.jsonl.gz").write_bytes(gzip.compress(MARK.encode() * 50))


def in_a_name(folder: Path) -> None:
    (folder / MARK).mkdir()


OPEN: list[sqlite3.Connection] = []
PLACES = [
    in_a_table, in_a_database_that_is_open, in_a_kept_answer, in_an_array, in_a_gz_file, in_a_name,
]  # fmt: skip


@pytest.mark.parametrize("hide", PLACES, ids=lambda hide: hide.__name__)
def test_a_mark_is_found(hide: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "elsewhere.txt").write_text("nothing")
    assert files_with(MARK, [tmp_path]) == []
    hide(tmp_path)
    assert files_with(MARK, [tmp_path])
    while OPEN:
        OPEN.pop().close()
