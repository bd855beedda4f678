"""`sugarbush report`: where the release card and the report are."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from rich.console import Console

from sugarbush.errors import FailureError, MissingInputError
from sugarbush.paths import Roots


def show_report(base: Path, *, open_page: bool, internal: bool, console: Console) -> None:
    """Print the paths of the card and the page; with `open_page` open the page in the browser.

    The internal page is opened only with `internal`. Raises MissingInputError before the first run.
    """
    roots = Roots(base)
    card, page = roots.published / "release_card.md", roots.published / "index.html"
    shown = {"release card": str(card), "report": str(page)}
    if internal:
        page = roots.internal / "index.html"
        shown["internal report"] = f"{page}  (not DP: do not share it)"
    if not page.exists():
        raise MissingInputError(f"{page}: not found. Write the report with: sugarbush run")
    for name, path in shown.items():
        console.print(f"{name:<16} {path}", markup=False, highlight=False, soft_wrap=True)
    if open_page and not webbrowser.open(page.absolute().as_uri()):
        raise FailureError(f"no browser could be started. Open {page} yourself")
