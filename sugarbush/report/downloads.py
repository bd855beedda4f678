"""Lists the files that a page links to: the texts of each method, and the release card.

The files of a project are in the folder of the public page, so that the folder can be moved or sent
as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from sugarbush.report.model import Download

CARD = {"release_card.md": "Release card", "release_card.json": "Card as JSON"}


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
    found = []
    for method in methods:
        name = texts_name(method)
        label = "Download texts" if len(methods) == 1 else f"Download texts of {method}"
        found.append(Download(label=label, name=name, address=folder + name, texts=True))
    found += [Download(label=label, name=n, address=folder + n) for n, label in CARD.items()]
    return tuple(found)
