"""Reads the public files of the pool.

A part of the user's data set may be public, for example 10% of a file. A text is in the
pool if its `hash_share` is below `PoolSource.share`. `prepare.exclude_share` with the same number
removes exactly these texts from the private records. Only the hash of a text decides whether the
text is public. So no text is both public and private. A new record does not change whether another
record is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from sugarbush.errors import InputError, ParamsError
from sugarbush.paths import find_input
from sugarbush.randomness import hash_share
from sugarbush.settings import NOT_IN_OUTPUT, Section, Share

SETTING = "generator.pool.sources"


class PoolSource(Section):
    """A public file. Texts are selected by their hashes, so the order of rows has no effect."""

    file: str
    """A csv, jsonl or parquet file."""
    text_column: str
    """The column with the texts."""
    rows: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of texts to use; null: all."""
    share: Share | None = None
    """Share of the texts to use; null: all."""
    licence: Annotated[str | None, NOT_IN_OUTPUT] = None
    """Licence of the texts, for the release card, such as CC BY 4.0; null: not stated."""


def load_pool(
    sources: Sequence[PoolSource], *, base: Path, setting: str = SETTING
) -> tuple[str, ...]:
    """Read the texts of all sources, in order and without duplicates.

    Raises ParamsError if there is no source, and InputError if a file is unreadable or has no text.
    """
    if not sources:
        raise ParamsError(
            f"params.yaml: {setting} is empty. The pool needs at least one public file: "
            "{file: .., text_column: ..}."
        )
    return tuple(
        dict.fromkeys(text for source in sources for text in _texts(source, base, setting))
    )


def _texts(source: PoolSource, base: Path, setting: str) -> list[str]:
    """Return the texts of a file with a hash below `share`, in the order of the file.

    If `rows` is set, keep only the `rows` texts with the lowest hashes.
    """
    path = find_input(base, source.file)
    stat = path.stat() if path.is_file() else None  # the reader names a missing file
    version = None if stat is None else (stat.st_mtime_ns, stat.st_size)
    texts = list(_column(path, source.text_column, setting, version))
    if source.share is not None:
        texts = [text for text in texts if hash_share(text) < source.share]
    if source.rows is not None:
        kept = set(sorted(texts, key=hash_share)[: source.rows])
        texts = [text for text in texts if text in kept]
    if not texts:
        raise InputError(
            f"{path}: no text is left. Change text_column, rows or share in {setting}."
        )
    return texts


@lru_cache(maxsize=8)
def _column(
    path: Path, column: str, setting: str, version: tuple[int, int] | None
) -> tuple[str, ...]:
    """Return the texts of a file without duplicates. A version of a file is read once."""
    from sugarbush.data.reading import read_rows  # slow, and only a pool needs it

    rows = read_rows(path, setting=setting, wanted={column: f"{setting}.text_column"})
    cells = (row.fields.get(column) for row in rows)  # an object may lack the key
    return tuple(dict.fromkeys(cell for cell in cells if isinstance(cell, str) and cell.strip()))
