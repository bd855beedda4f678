"""Lists the files that a page links to: the texts of each method, and the release card.

The files of a project are in the folder of the public page, so that the folder can be moved or sent
as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sugarbush.report.model import Download

TEXTS = "synthetic.jsonl"
CARD = {
    "release_card.md": "Release card",
    "release_card.html": "Card to print",
    "release_card.json": "Card as JSON",
}


def texts_name(method: str) -> str:
    """Return the name of the file with a method's texts.

    >>> texts_name("mosaic")
    'synthetic_mosaic.jsonl'
    """
    return f"synthetic_{method}.jsonl"


def downloads_beside(methods: Sequence[str], *, folder: str = "") -> tuple[Download, ...]:
    """Return links to the texts of each method and to the card, as relative paths.

    `folder` is the path from the page to the folder of the files.
    """
    links = []
    for method in methods:
        name = texts_name(method)
        label = "Download texts" if len(methods) == 1 else f"Download texts of {method}"
        links.append(Download(label=label, name=name, address=folder + name, texts=True))
    links += [Download(label=label, name=n, address=folder + n) for n, label in CARD.items()]
    return tuple(links)


def downloads_in_folder() -> tuple[Download, ...]:
    """Return links from a page to the files that `Release.save` writes beside it."""
    texts = Download(label="Download texts", name=TEXTS, address=TEXTS, texts=True)
    return (texts, *(Download(label=label, name=n, address=n) for n, label in CARD.items()))


def downloads_inside(files: Mapping[str, str]) -> tuple[Download, ...]:
    """Return links that contain the files, for a page without files beside it. `files` maps the
    names of `downloads_in_folder` to contents."""
    return tuple(
        replace(each, address=f"data:text/plain;charset=utf-8;base64,{_base64(files[each.name])}")
        for each in downloads_in_folder()
    )


def _base64(content: str) -> str:
    return base64.b64encode(content.encode()).decode()
