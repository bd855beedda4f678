"""Lists the files that a page links to: the texts of each method, and the release card.

The files of a project are in the folder of the public page, so that the folder can be moved or sent
as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sugarbush.report.model import Download

LINES, PARQUET = ".jsonl", ".parquet"  # the texts are written in both formats
TEXTS = "synthetic"
RECORDS = "records"  # of histories, one row for each record
_PARQUET_TYPE = "application/vnd.apache.parquet"
CARD = {
    "release_card.md": "Release card",
    "release_card.html": "Card to print",
    "release_card.json": "Card as JSON",
}


def texts_name(method: str, suffix: str = LINES) -> str:
    """Return the name of the file with a method's texts.

    >>> texts_name("mosaic")
    'synthetic_mosaic.jsonl'
    """
    return f"{TEXTS}_{method}{suffix}"


def all_texts(folder: Path) -> tuple[Path, ...]:
    """Return the files with texts as JSON lines in a folder: one for each method."""
    return tuple(sorted(folder.glob(f"{TEXTS}*{LINES}")))


def downloads_beside(methods: Sequence[str], *, folder: str = "") -> tuple[Download, ...]:
    """Return links to the texts of each method and to the card, as relative paths.

    `folder` is the path from the page to the folder of the files.
    """
    links: list[Download] = []
    for method in methods:
        whose = "" if len(methods) == 1 else f" of {method}"
        links += _texts(texts_name(method, ""), f"texts{whose}", folder=folder)
    links += [Download(label=label, name=n, address=folder + n) for n, label in CARD.items()]
    return tuple(links)


def downloads_in_folder() -> tuple[Download, ...]:
    """Return links from a page to the files that `Release.save` writes beside it."""
    card = (Download(label=label, name=n, address=n) for n, label in CARD.items())
    return (*_texts(TEXTS, "texts"), *card)


def _texts(stem: str, what: str, *, folder: str = "") -> tuple[Download, Download]:
    """Return links to parquet, which has the types of the schema, and to JSON lines."""
    parquet, lines = stem + PARQUET, stem + LINES
    return (
        Download(label=f"Download {what}", name=parquet, address=folder + parquet, texts=True),
        Download(label=f"The {what} as JSON lines", name=lines, address=folder + lines),
    )


def downloads_inside(files: Mapping[str, str | bytes]) -> tuple[Download, ...]:
    """Return links that contain the files, for a page without files beside it. `files` maps the
    names of `downloads_in_folder` to contents."""
    return tuple(
        replace(each, address=_data_url(each.name, files[each.name]))
        for each in downloads_in_folder()
    )


def _data_url(name: str, content: str | bytes) -> str:
    whole = content.encode() if isinstance(content, str) else content
    kind = _PARQUET_TYPE if name.endswith(PARQUET) else "text/plain;charset=utf-8"
    return f"data:{kind};base64,{base64.b64encode(whole).decode()}"
