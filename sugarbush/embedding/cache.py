"""Stores embeddings by a digest of their text, so that a rerun embeds new texts only.

The cache is one SQLite file with digests and vectors, never a text. An embedding is as private as
its text, because much of the text can be recovered from the embedding. The folder for private texts
is therefore under data/private.

A damaged cache costs only time. A row with a wrong checksum is ignored. A file that is not a
database is replaced by an empty file.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import StorageError

_FILE = "embeddings.sqlite"
_BUSY_TIMEOUT_S = 60.0
_PAGE_BYTES = 16384  # a page has room for several vectors
_CACHE_KIB = 65536  # the index of a million texts fits
_LOOKUPS_PER_QUERY = 500
_TABLE = """
    CREATE TABLE IF NOT EXISTS embedding (
        key BLOB NOT NULL UNIQUE, crc INTEGER NOT NULL, vector BLOB NOT NULL
    )
"""

_Row = tuple[bytes, int, bytes]
T = TypeVar("T")


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


class EmbeddingCache:
    """Stores vectors on disk by space and text. Several processes can share the file.

    A *space* names everything that determines an embedding besides the text: model, truncation,
    precision. BLAKE2b computes the digests with `key`. Only somebody with the key can test whether
    the file contains a given text.
    """

    def __init__(self, folder: Path, *, key: bytes = b"") -> None:
        self._file = folder / _FILE
        self._key = key
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{folder}: {error.strerror}") from None

    def find(self, space: str, texts: Sequence[str]) -> dict[int, NDArray[np.float32]]:
        """Return the cached vectors, `(d,)` float32, by the index of their text in `texts`.

        `texts` must be distinct. Raises StorageError if the file cannot be read or written, or is
        locked for too long.
        """
        indices = {key: index for index, key in enumerate(self._keys(space, texts))}
        rows = self._attempt(lambda connection: _select(connection, list(indices)))
        return {
            indices[key]: np.frombuffer(vector, dtype="<f4")
            for key, crc, vector in rows
            if _checksum(key, vector) == crc
        }

    def add(self, space: str, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store `vectors` (n, d) for `texts`, all or none. Raises StorageError."""
        encoded = [row.tobytes() for row in vectors.astype("<f4")]
        keys = self._keys(space, texts)
        rows = [(k, _checksum(k, v), v) for k, v in zip(keys, encoded, strict=True)]
        statement = "INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)"
        self._attempt(lambda connection: connection.executemany(statement, rows))

    def _keys(self, space: str, texts: Sequence[str]) -> list[bytes]:
        start = hashlib.blake2b(space.encode() + b"\0", digest_size=24, key=self._key)
        keys = []
        for text in texts:
            digest = start.copy()
            digest.update(text.encode("utf-8", "surrogatepass"))
            keys.append(digest.digest())
        return keys

    def _attempt(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run `action` on the file. If the file is damaged, try again with an empty file."""
        try:
            try:
                return self._on_connection(action)
            except sqlite3.OperationalError:
                raise  # a lock or a full disk: an empty file would not help
            except sqlite3.DatabaseError:
                for file in (self._file, self._file.with_name(_FILE + "-journal")):
                    file.unlink(missing_ok=True)
                return self._on_connection(action)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self._file}: {error}") from None

    def _on_connection(self, action: Callable[[sqlite3.Connection], T]) -> T:
        # Each call opens a connection, because processes and threads must not share one.
        connection = sqlite3.connect(self._file, timeout=_BUSY_TIMEOUT_S)
        with closing(connection), connection:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.execute(_TABLE)
            return action(connection)


def _select(connection: sqlite3.Connection, keys: list[bytes]) -> list[_Row]:
    rows: list[_Row] = []
    for start in range(0, len(keys), _LOOKUPS_PER_QUERY):
        part = keys[start : start + _LOOKUPS_PER_QUERY]
        marks = ",".join("?" * len(part))
        rows += connection.execute(
            f"SELECT key, crc, vector FROM embedding WHERE key IN ({marks})", part
        )
    return rows


def _checksum(key: bytes, vector: bytes) -> int:
    """Compute a checksum that also detects a vector under the key of another text."""
    return zlib.crc32(vector, zlib.crc32(key))
