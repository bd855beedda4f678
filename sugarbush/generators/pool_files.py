"""Reads the public files of the pool.

A part of the user's data set may be public, for example 10% of a file. A text is in the
pool if its `hash_share` is below `PoolSource.share`. `prepare.exclude_share` with the same number
removes exactly these texts from the private records. Only the hash of a text decides whether the
text is public. So no text is both public and private. A new record does not change whether another
record is public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sugarbush.data.shapes.interface import Shape, ShapeError
from sugarbush.errors import InputError, ParamsError
from sugarbush.paths import find_input
from sugarbush.randomness import hash_share
from sugarbush.settings import NOT_IN_OUTPUT, Section, Share

SETTING = "generator.pool.sources"


class PoolSource(Section):
    """A public file. Texts are selected by their hashes, so the order of rows has no effect."""

    file: str
    """A csv, jsonl or parquet file."""
    text_column: str | None = None
    """The column with the texts; null: the columns that the schema names under `text`."""
    rows: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of texts to use; null: all."""
    share: Share | None = None
    """Share of the texts to use; null: all."""
    licence: Annotated[str | None, NOT_IN_OUTPUT] = None
    """Licence of the texts, for the release card, such as CC BY 4.0; null: not stated."""


def load_pool(
    sources: Sequence[PoolSource],
    *,
    base: Path,
    shape: Shape | None = None,
    setting: str = SETTING,
) -> tuple[str, ...]:
    """Read the texts of all sources, in order and without duplicates.

    With `shape`, they are canonical texts. A source has the columns of the shape, or texts with its
    labels in `text_column`. Raises ParamsError if there is no source, and InputError if a file is
    unreadable or has no text.
    """
    if not sources:
        raise ParamsError(
            f"params.yaml: {setting} is empty. The pool needs at least one public file: "
            "{file: .., text_column: ..}."
        )
    return tuple(
        dict.fromkeys(text for source in sources for text in _texts(source, base, shape, setting))
    )


def _texts(source: PoolSource, base: Path, shape: Shape | None, setting: str) -> list[str]:
    """Return the texts of a file with a hash below `share`, in the order of the file.

    If `rows` is set, keep only the `rows` texts with the lowest hashes.
    """
    path = find_input(base, source.file)
    stat = path.stat() if path.is_file() else None  # the reader names a missing file
    version = None if stat is None else (stat.st_mtime_ns, stat.st_size)
    texts = list(_read(path, source.text_column, shape, setting, version))
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
def _read(
    path: Path,
    column: str | None,
    shape: Shape | None,
    setting: str,
    version: tuple[int, int] | None,
) -> tuple[str, ...]:
    """Return the texts of a file without duplicates. A version of a file is read once."""
    from sugarbush.data.reading import read_rows  # slow, and only a pool needs it

    if column is None and shape is None:
        raise ParamsError(f"params.yaml: {setting} needs text_column, the column with the texts")
    if column is None and shape is not None:
        wanted: Mapping[str, str] = shape.columns
        text_of: Callable[[Mapping[str, Any]], str] = shape.text_of
    else:
        wanted, text_of = {str(column): f"{setting}.text_column"}, _in_column(str(column), shape)
    texts = []
    all_columns = column is None and shape is not None and shape.reads_all_columns
    rows = iter(read_rows(path, setting=setting, wanted=wanted, all_columns=all_columns))
    for row in shape.grouped(rows) if column is None and shape is not None else rows:
        try:
            if row.problem:
                raise ShapeError(row.problem)
            texts.append(text_of(row.fields))
        except ShapeError as error:
            raise InputError(f"{path}, row {row.number}: {error} (setting {setting})") from None
    return tuple(dict.fromkeys(text for text in texts if text.strip()))


def _in_column(column: str, shape: Shape | None) -> Callable[[Mapping[str, Any]], str]:
    def text_of(fields: Mapping[str, Any]) -> str:
        cell = fields.get(column)  # an object may lack the key
        if not isinstance(cell, str) or not cell.strip():
            return ""
        return cell if shape is None else shape.canonical(cell)

    return text_of
