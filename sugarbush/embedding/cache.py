"""Stores embeddings by a digest of their text, so that a rerun embeds new texts only.

Each write is a new file with digests and vectors, never a text. Files do not change, so processes
and machines that share the folder need no lock. An embedding is as private as its text, because
much of the text can be recovered from the embedding. The folder for private texts is therefore
under data/private.

A damaged cache costs only time. A vector with a wrong checksum is ignored, and so is a file that
cannot be read or has another name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import StorageError
from sugarbush.paths import atomic_file, make_owner_only

_ROW = np.dtype([("key", "<u8", 3), ("crc", "<u4")])
_ENDING = ".vectors"
_LIMITS = "limits.json"  # the values of embedding.max_tokens so far, by model
_NAME = re.compile(r"(?P<count>\d{1,9})-\d{1,6}-[0-9a-f]{24}" + re.escape(_ENDING))
_TEMPORARY = re.compile(rf"\.{_NAME.pattern}\.[0-9a-f]{{16}}")  # of `atomic_file`
_OLD_FILES = ("embeddings.sqlite", "embeddings.sqlite-journal")
_DAY_S = 86_400
_ROW_BITS = 32
_MOST_RUNS = 16  # more runs are merged
# A sorted part of the index: the first 8 bytes of each key, and the number of its file and row.
_Run = tuple[NDArray[np.uint64], NDArray[np.int64]]


class EmbeddingsInMemory:
    """Stores vectors in memory by space and text, and searches `disk` for missing texts.

    Copying or pickling the object raises TypeError, because the object contains private texts.
    """

    def __init__(self, disk: EmbeddingCache | None = None) -> None:
        self._vectors: dict[str, dict[str, NDArray[np.float32]]] = {}
        self._disk = disk

    def __reduce__(self) -> NoReturn:
        raise TypeError("embeddings in memory contain texts, so they cannot be copied or pickled")

    def find(self, space: str, texts: Sequence[str]) -> dict[int, NDArray[np.float32]]:
        """Return the known vectors by the index of their text."""
        vectors = self._vectors.setdefault(space, {})
        missing = [text for text in texts if text not in vectors]
        if missing and self._disk is not None:
            vectors |= {missing[i]: v for i, v in self._disk.find(space, missing).items()}
        return {index: vectors[text] for index, text in enumerate(texts) if text in vectors}

    def add(self, space: str, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store `vectors` (n, d) for `texts`, also on disk if there is a disk cache."""
        self._vectors.setdefault(space, {}).update(zip(texts, vectors, strict=True))
        if self._disk is not None:
            self._disk.add(space, texts, vectors)

    def limits(self, model: str) -> set[int]:
        """Return the limits that `note_limit` stored for a model."""
        return set() if self._disk is None else self._disk.limits(model)

    def note_limit(self, model: str, limit: int) -> None:
        """Remember that vectors of at most `limit` tokens may be stored."""
        if self._disk is not None:
            self._disk.note_limit(model, limit)


class EmbeddingCache:
    """Stores vectors on disk by space and text. Several processes can share the folder.

    A *space* names everything that determines an embedding besides the text: model, truncation,
    precision. BLAKE2b computes the digests with `key`. Only somebody with the key can test whether
    the cache contains a given text. The index needs 16 bytes of memory per vector.
    """

    def __init__(self, folder: Path, *, key: bytes = b"") -> None:
        self._folder, self._key = folder, key
        self._lock = Lock()
        self._files: dict[Path, int] = {}  # the number of each file in the index
        self._runs: list[_Run] = []  # the newest first
        self._make_folder()
        _remove_old_files(folder)

    def __reduce__(self) -> Any:
        return _open, (self._folder, self._key)

    def find(self, space: str, texts: Sequence[str]) -> dict[int, NDArray[np.float32]]:
        """Return the cached vectors, `(d,)` float32, by the index of their text in `texts`.

        `texts` must be distinct. Raises StorageError if the folder cannot be read.
        """
        keys, found = self._keys(space, texts), dict[int, NDArray[np.float32]]()
        try:
            with self._lock:
                self._refresh()
                runs, files = self._runs, list(self._files)
            # The second search finds another copy of a damaged vector.
            for (heads, places), side in product(runs, (1, 0)):
                left = np.array([i for i in range(len(texts)) if i not in found], dtype=np.int64)
                at = np.searchsorted(heads, keys[left, 0], "right" if side else "left") - side
                at = np.clip(at, 0, len(heads) - 1)
                hits = np.flatnonzero(heads[at] == keys[left, 0])
                numbers, rows = np.divmod(places[at[hits]], 1 << _ROW_BITS)
                for number in np.unique(numbers).tolist():
                    chosen = numbers == number
                    found |= _read(files[number], rows[chosen], left[hits[chosen]], keys)
        except OSError as error:
            raise StorageError(f"{self._folder}: {error.strerror or error}") from None
        return found

    def add(self, space: str, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store `vectors` (n, d) for `texts`, all or none. Raises StorageError."""
        stored = np.ascontiguousarray(vectors, dtype="<f4")
        rows = np.empty(len(texts), dtype=_ROW)
        rows["key"] = self._keys(space, texts)
        rows["crc"] = [_checksum(*pair) for pair in zip(rows["key"], stored, strict=True)]
        count, dimensions = stored.shape
        self._make_folder()  # another process may have deleted it
        name = f"{count}-{dimensions}-{os.urandom(12).hex()}{_ENDING}"
        with atomic_file(self._folder / name) as path:
            path.write_bytes(rows.tobytes() + stored.tobytes())

    def limits(self, model: str) -> set[int]:
        """Return the limits of tokens for which the folder may have vectors of a model."""
        found = self._read_limits().get(model)
        return {n for n in found if isinstance(n, int)} if isinstance(found, list) else set()

    def note_limit(self, model: str, limit: int) -> None:
        """Remember that the folder may have vectors of at most `limit` tokens."""
        if limit not in (known := self.limits(model)):
            written = self._read_limits() | {model: sorted({*known, limit})}
            self._make_folder()
            with atomic_file(self._folder / _LIMITS) as path:
                path.write_text(json.dumps(written))

    def _read_limits(self) -> dict[str, Any]:
        """Read the limits by model. A damaged file costs only time."""
        with suppress(OSError, ValueError):
            read = json.loads((self._folder / _LIMITS).read_text(encoding="utf-8"))
            return read if isinstance(read, dict) else {}
        return {}

    def _make_folder(self) -> None:
        try:
            make_owner_only(self._folder)
        except OSError as error:
            raise StorageError(f"{self._folder}: {error.strerror}") from None

    def _keys(self, space: str, texts: Sequence[str]) -> NDArray[np.uint64]:
        start = hashlib.blake2b(space.encode() + b"\0", digest_size=24, key=self._key)
        keys = bytearray()
        for text in texts:
            digest = start.copy()
            digest.update(text.encode("utf-8", "surrogatepass"))
            keys += digest.digest()
        return np.frombuffer(keys, dtype="<u8").reshape(-1, 3)

    def _refresh(self) -> None:
        """Add the files that any process has written since the last call to the index."""
        runs: list[_Run] = []
        for path in set(self._folder.glob(f"*{_ENDING}")) - self._files.keys():
            if (shape := _NAME.fullmatch(path.name)) is None:
                continue
            number = self._files[path] = len(self._files)
            try:
                heads = np.fromfile(path, _ROW, int(shape["count"]))["key"][:, 0]
            except OSError:  # a folder, a dangling link or a file that another process deleted
                continue
            if len(heads):
                runs.append((heads, np.arange(len(heads)) + (number << _ROW_BITS)))
        if runs:
            if len(self._runs) >= _MOST_RUNS:
                runs, self._runs = [*runs, *self._runs], []
            heads, places = (np.concatenate(column) for column in zip(*runs, strict=True))
            order = np.argsort(heads, kind="stable")
            self._runs = [(heads[order], places[order]), *self._runs]


def _open(folder: Path, key: bytes) -> EmbeddingCache:
    return EmbeddingCache(folder, key=key)


def _read(
    path: Path, rows: NDArray[np.int64], indices: NDArray[np.int64], keys: NDArray[np.uint64]
) -> dict[int, NDArray[np.float32]]:
    """Return the vectors in some rows of a file, if they belong to the keys at `indices`."""
    count, dimensions = map(int, path.name.split("-")[:2])
    try:
        stored = np.fromfile(path, _ROW, count)
        vectors = np.fromfile(path, "<f4", offset=stored.nbytes)
    except OSError:
        return {}  # deleted
    if len(vectors) != count * dimensions:
        return {}  # damaged
    stored, vectors = stored[rows], vectors.reshape(count, dimensions)[rows]
    equal = (stored["key"] == keys[indices]).all(axis=1)
    return {
        int(indices[i]): vectors[i]
        for i in np.flatnonzero(equal)
        if _checksum(stored["key"][i], vectors[i]) == stored["crc"][i]
    }


def _remove_old_files(folder: Path) -> None:
    """Remove what killed processes and older versions left. Other processes may write now, so only
    temporary files older than a day are removed."""
    latest = time.time() - _DAY_S
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                if path.name in _OLD_FILES or (
                    _TEMPORARY.fullmatch(path.name) and path.lstat().st_mtime < latest
                ):
                    path.unlink()


def _checksum(key: NDArray[np.uint64], vector: NDArray[np.float32]) -> int:
    """Compute a checksum that also detects a vector under the key of another text."""
    return zlib.crc32(vector.data, zlib.crc32(key.data))
