"""The public files of a pool, as texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sugarbush.errors import ParamsError
from sugarbush.params import PoolSource
from sugarbush.paths import find_input
from sugarbush.randomness import hash_share
from tasks.reading import read_rows

SETTING = "generator.pool.sources"


def load_pool(sources: Sequence[PoolSource], *, base: Path) -> tuple[str, ...]:
    """The texts of every source: all, the `share` with the lowest hashes, or `rows` of those.

    A text's hash decides, so the slice of a private set that is taken as public here is the one
    that `prepare.exclude_share` leaves out there. Raises ParamsError where nothing is named.
    """
    if not sources:
        raise ParamsError(f"params.yaml: {SETTING} is empty: a pool draws from public files")
    texts: list[str] = []
    for source in sources:
        column = source.text_column
        rows = read_rows(find_input(base, source.file), setting=SETTING, wanted={column: SETTING})
        own = [t for r in rows if isinstance(t := r.fields.get(column), str) and t.strip()]
        if source.share is not None:
            own = [text for text in own if hash_share(text) < source.share]
        if source.rows is not None:
            own = sorted(own, key=hash_share)[: source.rows]
        texts += own
    return tuple(dict.fromkeys(texts))
