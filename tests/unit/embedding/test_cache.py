"""Tests of the embedding cache: it is exact, private, shared by processes, and survives damage."""

import copy
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sugarbush.embedding.cache import EmbeddingCache, EmbeddingsInMemory
from sugarbush.errors import StorageError
from sugarbush.randomness import public_rng


def vectors_for(n: int, seed: int = 0) -> np.ndarray:
    return public_rng(seed, "cache").standard_normal((n, 8), dtype=np.float32)


def texts(n: int) -> list[str]:
    return [f"marmalade number {i}" for i in range(n)]


def file_in(folder: Path) -> Path:
    (file,) = (f for f in folder.iterdir() if f.is_file())
    return file


def test_what_was_kept_comes_back_to_the_bit(tmp_path: Path) -> None:
    vectors = vectors_for(1500)
    EmbeddingCache(tmp_path).add("model", texts(1500), vectors)
    asked = ["new", *reversed(texts(1500)), "other"]
    found = EmbeddingCache(tmp_path).find("model", asked)
    assert sorted(found) == list(range(1, 1501))
    assert all(np.array_equal(found[1 + i], vectors[1499 - i]) for i in range(1500))


def test_another_space_is_another_vector(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.add("model:128", ["a"], vectors_for(1, seed=1))
    cache.add("model:256", ["a"], vectors_for(1, seed=2))
    assert np.array_equal(cache.find("model:128", ["a"])[0], vectors_for(1, seed=1)[0])
    assert cache.find("model:512", ["a"]) == {}


def test_space_and_text_are_not_run_together(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.add("ab", ["c"], vectors_for(1))
    assert cache.find("a", ["bc"]) == {}


def test_no_text_and_no_unkeyed_digest_is_on_disk(tmp_path: Path) -> None:
    EmbeddingCache(tmp_path, key=b"k" * 32).add("model", texts(3), vectors_for(3))
    content = file_in(tmp_path).read_bytes()
    assert b"marmalade" not in content
    assert EmbeddingCache(tmp_path).find("model", texts(3)) == {}
    assert len(EmbeddingCache(tmp_path, key=b"k" * 32).find("model", texts(3))) == 3


def test_the_folder_opens_for_its_owner_alone(tmp_path: Path) -> None:
    EmbeddingCache(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_deleted_during_a_run_is_made_again_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    cache = EmbeddingCache(tmp_path / "a" / "b")
    cache.add("model", texts(3), vectors_for(3))
    assert len(cache.find("model", texts(3))) == 3
    shutil.rmtree(tmp_path / "a")
    assert cache.find("model", texts(3)) == {}
    cache.add("model", texts(3), vectors_for(3))
    assert len(cache.find("model", texts(3))) == 3
    for folder in (tmp_path / "a", tmp_path / "a" / "b"):
        assert folder.stat().st_mode & 0o777 == 0o700


NAME = f"5-8-{'ab' * 12}.vectors"


def test_other_files_with_the_ending_are_ignored(tmp_path: Path) -> None:
    for name in ("foo.vectors", "a-b-c.vectors", "5-8-xyz.vectors", "-5-8-ab.vectors"):
        (tmp_path / name).write_bytes(b"other")
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME.replace("5", "6")).symlink_to(tmp_path / "missing")
    cache = EmbeddingCache(tmp_path)
    cache.add("model", texts(5), vectors_for(5))
    assert len(cache.find("model", texts(5))) == 5
    assert len(EmbeddingCache(tmp_path).find("model", texts(5))) == 5


def test_a_file_that_is_deleted_during_a_run_costs_only_its_vectors(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.add("model", texts(5)[:3], vectors_for(5)[:3])
    file = file_in(tmp_path)
    cache.add("model", texts(5)[3:], vectors_for(5)[3:])
    assert len(cache.find("model", texts(5))) == 5
    file.unlink()
    assert sorted(cache.find("model", texts(5))) == [3, 4]


def test_what_killed_processes_and_old_versions_left_is_removed(tmp_path: Path) -> None:
    """A temporary file of the last day may belong to a process that writes now."""
    EmbeddingCache(tmp_path).add("model", texts(5), vectors_for(5))
    stored = file_in(tmp_path)
    old = [tmp_path / f".{NAME}.{'cd' * 8}", tmp_path / "embeddings.sqlite"]
    others = [stored, tmp_path / f".{NAME}.{'ef' * 8}", tmp_path / ".other", tmp_path / "6"]
    for path in (*old, *others[1:]):
        path.write_bytes(b"")
    for path in (old[0], stored, *others[2:]):
        os.utime(path, (time.time() - 90_000,) * 2)
    cache = EmbeddingCache(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(others)
    assert len(cache.find("model", texts(5))) == 5


def test_a_temporary_file_of_a_killed_write_has_a_name_that_is_removed(tmp_path: Path) -> None:
    """The name is the one that `add` gives."""
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(StorageError, match="vectors"),
    ):
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        patch.setattr(Path, "replace", refuse)
        EmbeddingCache(tmp_path).add("model", texts(5), vectors_for(5))
    left = file_in(tmp_path)
    os.utime(left, (time.time() - 90_000,) * 2)
    EmbeddingCache(tmp_path)
    assert not left.exists()


def refuse(*_: object) -> None:
    raise OSError("no space")


def test_a_damaged_vector_counts_as_absent(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.add("model", texts(5), vectors_for(5))
    file = file_in(tmp_path)
    damaged = file.read_bytes().replace(vectors_for(5)[2].tobytes(), bytes(32))
    file.write_bytes(damaged)
    assert sorted(cache.find("model", texts(5))) == [0, 1, 3, 4]


@pytest.mark.parametrize("content", [b"", b"not a database" * 100, "half", "zeros"])
def test_a_damaged_file_is_begun_again(tmp_path: Path, content: bytes | str) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.add("model", texts(400), vectors_for(400))
    file = file_in(tmp_path)
    whole = file.read_bytes()
    if content == "half":
        content = whole[: len(whole) // 2]
    elif content == "zeros":
        content = whole[:28] + bytes(len(whole) - 28)
    assert isinstance(content, bytes)
    file.write_bytes(content)
    assert cache.find("model", texts(400)) == {}
    cache.add("model", texts(400), vectors_for(400))
    assert len(cache.find("model", texts(400))) == 400


WRITER = """
import sys
from pathlib import Path
import numpy as np
from sugarbush.embedding.cache import EmbeddingCache
cache, start = EmbeddingCache(Path(sys.argv[1])), int(sys.argv[2])
for i in range(start, start + int(sys.argv[3])):
    cache.add("model", [f"marmalade number {i}"], np.full((1, 8), i, dtype=np.float32))
"""


def test_two_processes_may_write_at_a_time(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), start, "30"])
        for start in ("0", "20")
    ]
    assert [writer.wait(timeout=900) for writer in writers] == [0, 0]
    found = EmbeddingCache(tmp_path).find("model", texts(50))
    assert all((found[i] == i).all() for i in range(50))


def test_a_killed_process_leaves_whole_files_only(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), "0", "100000"])
    while len(list(tmp_path.glob("*.vectors"))) < 20:
        time.sleep(0.01)
        assert writer.poll() is None
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    written = len(list(tmp_path.glob("*.vectors")))
    found = EmbeddingCache(tmp_path).find("model", texts(written + 5))
    assert sorted(found) == list(range(written))
    assert all((found[i] == i).all() for i in range(written))


def test_many_writes_are_found_in_any_order(tmp_path: Path) -> None:
    """The index merges its runs."""
    cache, vectors = EmbeddingCache(tmp_path), vectors_for(200)
    order = public_rng(1, "order").permutation(200).tolist()
    for count, i in enumerate(order, start=1):
        cache.add("model", [texts(200)[i]], vectors[i : i + 1])
        if count % 3 == 0:
            assert len(cache.find("model", texts(200))) == count
    found = cache.find("model", texts(200))
    assert all(np.array_equal(found[i], vectors[i]) for i in range(200))


def test_a_vector_that_is_stored_again_replaces_a_damaged_one(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.add("model", texts(5), vectors_for(5))
    file = file_in(tmp_path)
    file.write_bytes(file.read_bytes().replace(vectors_for(5)[2].tobytes(), bytes(32)))
    cache.add("model", texts(5)[2:3], vectors_for(5)[2:3])
    for reader in (cache, EmbeddingCache(tmp_path)):
        found = reader.find("model", texts(5))
        assert all(np.array_equal(found[i], vectors_for(5)[i]) for i in range(5))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file/cache"):
        EmbeddingCache(tmp_path / "file" / "cache")


def test_a_disk_that_refuses_is_a_storage_error(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("")
    with pytest.raises(StorageError, match="cache"):
        cache.add("model", texts(1), vectors_for(1))


def test_a_vector_under_the_key_of_another_text_counts_as_absent(tmp_path: Path) -> None:
    """Otherwise a record would vote with the embedding of another record."""
    cache = EmbeddingCache(tmp_path)
    cache.add("model", texts(3), vectors_for(3))
    file = file_in(tmp_path)
    rows = np.fromfile(file, np.dtype([("key", "V24"), ("crc", "<u4")]), 3)
    keys = rows["key"].copy()
    rows["key"][0], rows["key"][1] = keys[1], keys[0]
    file.write_bytes(rows.tobytes() + vectors_for(3).tobytes())
    found = cache.find("model", texts(3))
    assert sorted(found) == [2]
    assert np.array_equal(found[2], vectors_for(3)[2])


@pytest.mark.parametrize("leave", [pickle.dumps, copy.copy, copy.deepcopy])
def test_embeddings_in_memory_are_not_copied_or_pickled(leave: Callable[[object], object]) -> None:
    """A worker of a cluster or a log must not receive the texts."""
    memory = EmbeddingsInMemory()
    memory.add("model", texts(1), vectors_for(1))
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        leave(memory)
