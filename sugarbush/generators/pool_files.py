"""The public files of the pool, as texts.

A slice of the private set's own kind may be public ("a tenth of this file"): PoolSource.share takes
the texts whose `hash_share` lies below it, and prepare.exclude_share keeps to those at or above it.
With both at 0.1 the parts are disjoint by construction: nobody compares the pool with private
records, and one more record moves no other across the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sugarbush.data.reading import read_rows
from sugarbush.errors import InputError, ParamsError
from sugarbush.generators.settings import PoolSource
from sugarbush.paths import find_input
from sugarbush.randomness import hash_share

SETTING = "generator.pool.sources"


def load_pool(
    sources: Sequence[PoolSource], *, base: Path, setting: str = SETTING
) -> tuple[str, ...]:
    """The texts of every source, in the order of the files, each text once.

    Raises ParamsError when no source is named; InputError when a file cannot be read or a source
    leaves no text.
    """
    if not sources:
        raise ParamsError(
            f"generator.provider: pool draws from public files, and {setting} names none"
        )
    return tuple(
        dict.fromkeys(text for source in sources for text in _texts(source, base, setting))
    )


def _texts(source: PoolSource, base: Path, setting: str) -> list[str]:
    """What `share` and then `rows` leave of a file: the texts of least hash, in file order."""
    path = find_input(base, source.file)
    wanted = {source.text_column: f"{setting}.text_column"}
    cells = [
        row.fields[source.text_column] for row in read_rows(path, setting=setting, wanted=wanted)
    ]
    texts = list(dict.fromkeys(cell for cell in cells if isinstance(cell, str) and cell.strip()))
    if source.share is not None:
        texts = [text for text in texts if hash_share(text) < source.share]
    if source.rows is not None:
        kept = set(sorted(texts, key=hash_share)[: source.rows])
        texts = [text for text in texts if text in kept]
    if not texts:
        raise InputError(f"{path}: leaves no text (setting {setting})")
    return texts
