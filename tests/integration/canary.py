"""Searches all files in a folder for a string, also inside compressed files and databases."""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pandas as pd


def files_with(needle: str, places: Iterable[Path]) -> list[str]:
    """Return the files in `places` (folders or files) with `needle` in their name or content."""
    files = [f for place in places for f in ([place] if place.is_file() else place.rglob("*"))]
    return sorted(
        str(file)
        for file in files
        if needle in file.name or (file.is_file() and needle in unpacked(file))
    )


def unpacked(file: Path) -> str:
    """Return the content of a file as text.

    Tables and databases are written as rows, and compressed values are unpacked.
    """
    content = file.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    text = content.decode("utf-8", "replace")
    if content.startswith(b"PAR1"):
        return text + pd.read_parquet(file).to_json(orient="split", force_ascii=False)
    if content.startswith(b"SQLite format 3"):
        return text + "\n".join(_rows(file))
    return text


def _rows(file: Path) -> Iterator[str]:
    """Return all values of all tables of a database.

    They are read from a copy of the database, which includes its write-ahead log.
    """
    with tempfile.TemporaryDirectory() as folder:
        for part in file.parent.glob(f"{file.name}*"):
            (Path(folder) / part.name).write_bytes(part.read_bytes())
        with closing(sqlite3.connect(Path(folder) / file.name)) as database:
            tables = database.execute("select name from sqlite_master where type = 'table'")
            for (name,) in tables.fetchall():
                for row in database.execute(f'select * from "{name}"'):
                    yield " ".join(map(_shown, row))


def _shown(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    with suppress(zlib.error):
        value = zlib.decompress(value)
    return value.decode("utf-8", "replace")
