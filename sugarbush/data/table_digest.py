"""Computes keyed digests of private tables, in shards.

A digest covers the rows in order. It covers the content, and not the bytes of a file. With a digest
of the bytes, a new version of the parquet writer would make stages stale and cause new charges.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_PRIME = 2**127 - 1


class TableDigest:
    """A digest of the rows of a table, which does not depend on how the table is divided.

    The digest is a polynomial: its coefficients are keyed hashes of the rows, and its variable is a
    secret number that is computed from `key`. Two tables of n rows have the same digest with
    probability about n / 2^127 (Karp and Rabin 1987).

    >>> import pandas as pd
    >>> def digest(*shards):
    ...     whole = TableDigest(b"key")
    ...     for shard in shards:
    ...         more = TableDigest(b"key")
    ...         more.add(pd.DataFrame({"text": shard}))
    ...         whole.merge(more)
    ...     return keyed_digest([whole], key=b"key")
    >>> digest(["a", "b", "c"]) == digest(["a"], ["b", "c"])
    True
    >>> digest(["a", "b", "c"]) == digest(["b", "a", "c"])
    False
    """

    def __init__(self, key: bytes) -> None:
        self._variable = int.from_bytes(hmac.digest(key, b"table", "sha256")) % _PRIME
        self._hash = hmac.digest(key, b"row", "sha256")
        self._value = self._rows = 0

    def add(self, frame: pd.DataFrame) -> None:
        """Append the rows of `frame`."""
        if not len(frame):
            return
        lines = frame.to_json(orient="records", lines=True, double_precision=15)
        start = blake2b(key=self._hash, digest_size=16)
        value = self._value
        for line in lines.removesuffix("\n").split("\n"):
            row = start.copy()
            row.update(line.encode("utf-8", "surrogatepass"))
            value = (value * self._variable + int.from_bytes(row.digest())) % _PRIME
        self._value = value
        self._rows += len(frame)

    def merge(self, other: TableDigest) -> None:
        """Append the rows of a digest with the same key."""
        moved = self._value * pow(self._variable, other._rows, _PRIME)
        self._value = (moved + other._value) % _PRIME
        self._rows += other._rows

    def content(self) -> bytes:
        """Return the digest. It is private, because it is not yet keyed as a whole."""
        return f"{self._rows}:{self._value};".encode()


def keyed_digest(tables: Sequence[TableDigest], *, key: bytes) -> str:
    """Return the keyed digest of several tables, in order."""
    return hmac.digest(key, b"".join(table.content() for table in tables), "sha256").hex()
