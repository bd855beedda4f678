"""Finds the private source in a setting, and reads files from another file system with fsspec.

A file system has a URL such as `s3://bucket/corpus/`. Credentials come from the environment
variables of each file system, such as `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT_URL`. A URL with a
password is refused, because settings are public.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any

from sugarbush.data.formats.names import scheme_of, suffix_of
from sugarbush.errors import InputError, UsageError
from sugarbush.extras import require_extra
from sugarbush.paths import find_input
from sugarbush.registry import FORMATS, load_plugin
from sugarbush.settings import SECRET, has_secret

# File systems list the checksum or the time of change of a file under one of these names.
_MARKS = ["ETag", "etag", "md5Hash", "content_md5", "LastModified", "mtime", "updated", "created"]
SQLITE = "sqlite:///"  # followed by a path
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def is_remote(name: str) -> bool:
    """Return whether a setting names a URL and not a path.

    >>> is_remote("s3://bucket/corpus/"), is_remote("file:///data/corpus"), is_remote("a.csv")
    (True, False, False)
    """
    return _URL.match(name) is not None and not name.startswith("file://")


def is_database(name: str) -> bool:
    """Return whether a setting names a database: a URL with a scheme that a format reads.

    >>> is_database("postgresql://host/shop"), is_database("sqlite:///shop.db"), is_database("a.db")
    (True, True, False)
    """
    return scheme_of(name) is not None


def require_packages_of_source(name: str) -> None:
    """Raise ParamsError if a package of an extra that reads the source is missing.

    Nothing is opened. A folder may contain files of any format, so the reader checks its files.
    """
    if is_remote(name):
        require_packages_of_url(name)
    if (key := scheme_of(name) or suffix_of(name)) is not None:
        load_plugin(FORMATS, key)().require_packages(name)


def require_packages_of_url(url: str) -> None:
    """Raise ParamsError if `url` is on S3 and the package for S3 is missing."""
    if url.startswith(("s3://", "s3a://")):
        require_extra("s3", "s3fs")


@dataclass(frozen=True)
class RemotePath:
    """A file or folder at `url`, with the methods of `Path` that reading needs.

    `entry` is the file's entry in the listing of its folder. An entry saves one request.
    """

    url: str
    setting: str
    entry: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.url).suffix

    def is_dir(self) -> bool:
        with self.reading():
            return bool(self._system.isdir(self.url))

    def iterdir(self) -> Iterator[RemotePath]:
        with self.reading():
            entries = self._system.ls(self.url, detail=True)
        start = self.url.rstrip("/")
        for entry in entries:
            name = PurePosixPath(entry["name"]).name
            if name != self.name or entry["type"] == "file":  # S3 may list the folder itself
                yield RemotePath(f"{start}/{name}", self.setting, entry)

    def open(self, mode: str) -> IO[bytes]:
        with self.reading():
            file: IO[bytes] = self._system.open(self.url, mode)
        return file

    @property
    def size(self) -> int:
        """The size in bytes."""
        with self.reading():
            return int((self.entry or self._system.info(self.url))["size"])

    def listed(self) -> bytes:
        """Compute a digest of the listed name, size and checksum, without reading the file.

        If the file system lists no checksum, the time of change replaces the checksum.
        """
        with self.reading():
            entry = self.entry or self._system.info(self.url)
        mark = next((entry[name] for name in _MARKS if entry.get(name)), entry)
        listed = f"{self.name}\0{entry['size']}\0{mark}"
        return hashlib.sha256(listed.encode("utf-8", "surrogatepass")).digest()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert any error of a block to an InputError with URL and setting.

        The messages of the file system are not shown, because they may quote keys.
        """
        try:
            yield
        except FileNotFoundError:
            raise InputError(f"{self.url}: not found (setting {self.setting})") from None
        except ImportError as error:
            raise InputError(
                f"{self.url}: needs the package {error.name or 'of its file system'} (setting "
                f"{self.setting})"
            ) from None
        except UsageError:  # such as a missing extra
            raise
        except Exception as error:
            raise InputError(
                f"{self.url}: cannot be read ({type(error).__name__}). Check the address and the "
                f"credentials in the environment (setting {self.setting})"
            ) from None

    @cached_property
    def _system(self) -> Any:
        import fsspec

        require_packages_of_url(self.url)
        # Listings are not cached, because the corpus may change between two stages of a flow.
        return fsspec.filesystem(self.url.partition("://")[0], use_listings_cache=False)


@dataclass(frozen=True)
class Database:
    """A database at `url`. A relative path of SQLite starts at `base`."""

    url: str
    base: Path

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return self.url

    @property
    def suffix(self) -> str:
        return ""


File = Path | RemotePath
Source = File | Database
# Size, time of change and inode, or `RemotePath.listed`; None for a database
FileState = tuple[int, int, int] | bytes | None


def state_of(source: Source) -> FileState:
    """Return what a new version of a file changes, without reading the file. Raises OSError."""
    if isinstance(source, Database):
        return None
    if isinstance(source, RemotePath):
        # without the entry of an old listing
        return RemotePath(source.url, source.setting).listed()
    stat = source.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def size_of(file: File) -> int:
    """Return the size of a file in bytes. Raises OSError."""
    return file.size if isinstance(file, RemotePath) else file.stat().st_size


@contextmanager
def opening(source: Source, setting: str) -> Iterator[None]:
    """Convert an error of opening a source to an InputError that names `setting`."""
    if isinstance(source, RemotePath):
        with source.reading():
            yield
        return
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{source}: not found (setting {setting})") from None
    except (PermissionError, IsADirectoryError) as error:
        raise InputError(f"{source}: {error.strerror} (setting {setting})") from None


def source_of(base: Path, name: str, *, setting: str) -> Source:
    """Return the private file, folder or database that a setting names. Raises InputError for a
    URL with a password."""
    if has_secret(name):
        raise InputError(f"{setting}: {SECRET}")
    if is_database(name):
        return Database(name, base)
    if is_remote(name):
        return RemotePath(name, setting)
    return find_input(base, name.removeprefix("file://"))
