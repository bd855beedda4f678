"""Caches model answers, so that no answer is paid twice.

    <state>/answers/      one SQLite file (diskcache) in write-ahead mode, mode 0700

A key is the SHA-256 of everything that determines an answer, such as the endpoint, the model and
the messages. A value is the answer as JSON, without the prompt. The cache stores an answer before a
run uses it, so a killed process loses no answer. The cache has no size limit and never deletes an
answer. The cache refuses pickled values, because loading a pickle can run code.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diskcache
from diskcache.core import MODE_PICKLE

from sugarbush.errors import StorageError
from sugarbush.paths import make_owner_only

FOLDER = "answers"

_LOCK_TIMEOUT_S = 60
_UNLIMITED = 2**62


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A model's answer as the model wrote it.

    `cached_prompt_tokens` counts the part of `prompt_tokens` that was computed for an earlier
    prompt.
    """

    text: str | None
    finish_reason: str | None
    refused: bool
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class CacheSize:
    """The number of answers, and their size on disk in bytes."""

    answers: int
    size_bytes: int


def call_key(**parts: Any) -> str:
    """Return the cache key of a call. Equal `parts` give equal keys on every machine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class AnswerCache:
    """An open cache, made by `open_cache`. All methods raise StorageError if the disk fails."""

    def __init__(self, cache: diskcache.Cache, folder: Path) -> None:
        self._cache, self._folder = cache, folder

    def get(self, key: str) -> Completion | None:
        """Return the cached answer for `key`, or None without a readable answer."""
        with _storage(self._folder):
            try:
                fields = self._cache.get(key)
                return None if fields is None else Completion(**fields)
            except (ValueError, TypeError, zlib.error):
                return None

    def put(self, key: str, completion: Completion) -> None:
        with _storage(self._folder):
            self._cache.set(key, vars(completion))

    def put_all(self, completions: Mapping[str, Completion]) -> None:
        """Store all answers in one transaction, or none of them."""
        with _storage(self._folder), self._cache.transact():
            for key, completion in completions.items():
                self._cache.set(key, vars(completion))

    def find(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Return the cached answers by key. Keys without an answer are omitted."""
        return {key: completion for key in keys if (completion := self.get(key)) is not None}

    def size(self) -> CacheSize:
        with _storage(self._folder):
            return CacheSize(answers=len(self._cache), size_bytes=int(self._cache.volume()))

    def clear(self) -> int:
        """Delete all answers and return their number. A later run pays for the answers again."""
        with _storage(self._folder):
            return int(self._cache.clear())


class _Json(diskcache.JSONDisk):  # type: ignore[misc]
    """Reads and writes JSON, and refuses pickled values."""

    def fetch(self, mode: int, filename: str, value: Any, read: bool) -> Any:
        if mode == MODE_PICKLE:
            raise ValueError("a pickled value")
        return super().fetch(mode, filename, value, read)


@contextmanager
def open_cache(state: Path) -> Iterator[AnswerCache]:
    """Open the cache of answers in the folder `state`. Raises StorageError if the disk fails."""
    folder = state / FOLDER
    with _storage(folder):
        make_owner_only(folder)
        folder.chmod(0o700)
        cache = diskcache.Cache(
            str(folder),
            timeout=_LOCK_TIMEOUT_S,
            disk=_Json,
            size_limit=_UNLIMITED,
            cull_limit=0,
            eviction_policy="none",
            # Without this setting, diskcache writes large answers to separate files, outside the
            # transaction.
            disk_min_file_size=_UNLIMITED,
        )
    try:
        yield AnswerCache(cache, folder)
    finally:
        cache.close()


@contextmanager
def _storage(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, diskcache.Timeout) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StorageError(
            f"{folder}: the cache of answers cannot be used: {reason or type(error).__name__}. No "
            "stored answer is lost. Free disk space or fix the folder's permissions; run again."
        ) from None
