"""Embeddings by content, so that a rerun embeds new texts only.

One SQLite file in the folder that the caller names: private texts' embeddings go under
data/private, public ones elsewhere. It holds digests and vectors, never a text. An embedding can
be inverted to much of its text, so a file of private ones is as private as the texts are.

A cache may be lost at any time: a row that fails its checksum counts as absent, a file that is no
database is thrown away and begun again.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import StorageError

_FILE = "embeddings.sqlite"
_BUSY_TIMEOUT_S = 60.0
_PAGE_BYTES = 16384  # several vectors a page
_LOOKUPS_PER_QUERY = 500
_TABLE = """
    CREATE TABLE IF NOT EXISTS embedding (
        key BLOB NOT NULL UNIQUE, crc INTEGER NOT NULL, vector BLOB NOT NULL
    )
"""

_Row = tuple[bytes, int, bytes]
T = TypeVar("T")


class EmbeddingCache:
    """Vectors by (space, text), on disk, shared safely by any number of processes.

    A *space* names everything besides the text that decides an embedding: model, truncation,
    precision. With `key` the digests are keyed (BLAKE2b), so that somebody who can read the file
    but not the key cannot test whether a given text is among them.
    """

    def __init__(self, folder: Path, *, key: bytes = b"") -> None:
        self._file = folder / _FILE
        self._key = key
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{folder}: {error.strerror}") from None

    def find(self, space: str, texts: Sequence[str]) -> dict[int, NDArray[np.float32]]:
        """The vectors that are here, by their text's place in `texts`; `(d,)` float32 each.

        `texts` are different from each other.
        Raises StorageError when the disk refuses or another process holds the file too long.
        """
        places = {key: place for place, key in enumerate(self._keys(space, texts))}
        rows = self._attempt(lambda connection: _select(connection, list(places)))
        return {
            places[key]: np.frombuffer(vector, dtype="<f4")
            for key, crc, vector in rows
            if _checksum(key, vector) == crc
        }

    def add(self, space: str, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keep `vectors` (n, d) for `texts`, all or none of them. Raises StorageError as above."""
        encoded = [row.tobytes() for row in vectors.astype("<f4")]
        keys = self._keys(space, texts)
        rows = [(k, _checksum(k, v), v) for k, v in zip(keys, encoded, strict=True)]
        self._attempt(lambda connection: _insert(connection, rows))

    def _keys(self, space: str, texts: Sequence[str]) -> list[bytes]:
        start = hashlib.blake2b(space.encode() + b"\0", digest_size=24, key=self._key)
        keys = []
        for text in texts:
            digest = start.copy()
            digest.update(text.encode("utf-8", "surrogatepass"))
            keys.append(digest.digest())
        return keys

    def _attempt(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """`action` on the file; on an empty one when the file turns out to be damaged."""
        try:
            try:
                return self._on_connection(action)
            except sqlite3.OperationalError:
                raise  # locked, full, not permitted: another file would fare no better
            except sqlite3.DatabaseError:
                self._discard()
                return self._on_connection(action)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self._file}: {error}") from None

    def _on_connection(self, action: Callable[[sqlite3.Connection], T]) -> T:
        # One connection a call: none outlives a fork, and a thread never meets another one's.
        connection = sqlite3.connect(self._file, timeout=_BUSY_TIMEOUT_S)
        with closing(connection), connection:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute(_TABLE)
            return action(connection)

    def _discard(self) -> None:
        for file in (self._file, self._file.with_name(_FILE + "-journal")):
            file.unlink(missing_ok=True)


def _select(connection: sqlite3.Connection, keys: list[bytes]) -> list[_Row]:
    rows: list[_Row] = []
    for start in range(0, len(keys), _LOOKUPS_PER_QUERY):
        part = keys[start : start + _LOOKUPS_PER_QUERY]
        marks = ",".join("?" * len(part))
        rows += connection.execute(
            f"SELECT key, crc, vector FROM embedding WHERE key IN ({marks})", part
        )
    return rows


def _insert(connection: sqlite3.Connection, rows: list[_Row]) -> None:
    connection.executemany("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)", rows)


def _checksum(key: bytes, vector: bytes) -> int:
    """Of both: a vector under another text's key is as wrong as a damaged one."""
    return zlib.crc32(vector, zlib.crc32(key))
