"""Tests of the guarantees of the answer cache."""

from __future__ import annotations

import pickle
import sqlite3
import stat
from pathlib import Path

import pytest

from sugarbush.errors import StorageError
from sugarbush.generators.answer_cache import FOLDER, Completion, call_key, open_cache

ANSWER = Completion(
    text="Grüße — 你好\n", finish_reason="stop", refused=False, prompt_tokens=3, completion_tokens=4
)
KEY = call_key(model="m", messages=[("user", "hello")], sample=1)


def the_file(state: Path) -> sqlite3.Connection:
    return sqlite3.connect(state / FOLDER / "cache.db")


def test_an_answer_outlives_the_process_that_kept_it(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.put(KEY, ANSWER)
    with open_cache(tmp_path) as cache:
        assert cache.get(KEY) == ANSWER
        assert cache.get(call_key(model="m", messages=[("user", "hello")], sample=2)) is None


@pytest.mark.parametrize(
    "other",
    [
        {"model": "n"},
        {"sample": 2},
        {"messages": [["user", "hello!"]]},
        {"messages": [["system", "hello"]]},
        {"attempt": 0},
    ],
)
def test_everything_that_decides_an_answer_is_in_its_key(other: dict[str, object]) -> None:
    parts = {"model": "m", "messages": [("user", "hello")], "sample": 1}
    assert call_key(**parts) == KEY
    assert call_key(**(parts | other)) != KEY


def test_a_lone_surrogate_in_a_text_is_no_obstacle(tmp_path: Path) -> None:
    key = call_key(messages="\ud800")
    with open_cache(tmp_path) as cache:
        cache.put(key, ANSWER)
        assert cache.get(key) == ANSWER


def test_values_are_json_and_a_pickled_one_is_never_opened(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (pytest.fail, ("a pickle from the cache was opened",))

    with open_cache(tmp_path) as cache:
        cache.put(KEY, ANSWER)
    with the_file(tmp_path) as file:
        assert not any(b"\x80\x04" in row[0] for row in file.execute("SELECT value FROM Cache"))
        file.execute("UPDATE Cache SET mode = 4, value = ?", (pickle.dumps(Bomb()),))
    file.close()
    with open_cache(tmp_path) as cache:
        assert cache.get(KEY) is None


def test_a_damaged_entry_counts_as_not_there_and_can_be_written_again(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.put(KEY, ANSWER)
    with the_file(tmp_path) as file:
        file.execute("UPDATE Cache SET value = ?", (b"not zlib",))
    file.close()
    with open_cache(tmp_path) as cache:
        assert cache.get(KEY) is None
        cache.put(KEY, ANSWER)
        assert cache.get(KEY) == ANSWER


def test_nothing_is_evicted_and_nobody_else_may_look(tmp_path: Path) -> None:
    with open_cache(tmp_path):
        pass
    with the_file(tmp_path) as file:
        settings = dict(file.execute("SELECT key, value FROM Settings"))
    file.close()
    assert settings["eviction_policy"] == "none"
    assert settings["cull_limit"] == 0
    assert settings["size_limit"] > 2**50
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700


def test_size_is_counted_and_clearing_forgets_everything(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        for sample in range(5):
            cache.put(call_key(sample=sample), ANSWER)
        assert cache.size().answers == 5
        assert cache.size().size_bytes > 0
        assert cache.clear() == 5
        assert cache.size().answers == 0
        assert cache.get(call_key(sample=1)) is None


def test_a_folder_that_cannot_be_used_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=str(tmp_path / FOLDER)), open_cache(tmp_path):
        pass


def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "cache.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageError, match="cannot be used"), open_cache(tmp_path):
        pass
    assert (tmp_path / FOLDER / "cache.db").read_bytes().startswith(b"this is no database")


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    """The answers may be about private texts."""
    (tmp_path / FOLDER).mkdir(mode=0o755)
    (tmp_path / FOLDER).chmod(0o755)
    with open_cache(tmp_path):
        pass
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700


def test_equal_calls_have_equal_keys_in_any_order() -> None:
    """Otherwise a call would be paid again after a change that only reorders its parts."""
    first = call_key(model="m", schema={"a": {"type": "string"}, "b": 1}, sample=1)
    assert call_key(sample=1, schema={"b": 1, "a": {"type": "string"}}, model="m") == first
