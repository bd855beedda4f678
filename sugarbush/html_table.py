"""Writes the HTML that notebooks show for an object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(
    title: str, rows: Iterable[Sequence[object]], *, header: Sequence[str] = (), note: str = ""
) -> str:
    """Return a title, a table and a note as HTML. All values are escaped.

    >>> html_table("Ledger", [["epsilon", "<1"]])
    '<div><b>Ledger</b><table><tbody><tr><td>epsilon</td><td>&lt;1</td></tr></tbody></table></div>'
    """
    head = f"<thead>{_row(header, 'th')}</thead>" if header else ""
    body = "".join(_row(cells, "td") for cells in rows)
    table = f"<table>{head}<tbody>{body}</tbody></table>" if head or body else ""
    end = f"<p><small>{escape(note)}</small></p>" if note else ""
    return f"<div><b>{escape(title)}</b>{table}{end}</div>"


def html_counts(
    title: str, rows: Iterable[Sequence[object]], *, header: Sequence[str], most: int
) -> str:
    """Return a table of the different rows, each with its number at the end. Only the last `most`
    are shown.

    >>> html_counts("Draws", [["a"], ["b"], ["b"]], header=["name", "draws"], most=1)
    ... # doctest: +ELLIPSIS
    '<div>...<td>b</td><td>2</td></tr>...<p><small>1 older rows are not shown.</small></p></div>'
    """
    counts = [(*row, count) for row, count in Counter(map(tuple, rows)).items()]
    older = max(0, len(counts) - most)
    note = f"{older} older rows are not shown." if older else ""
    return html_table(title, counts[older:], header=header if counts else (), note=note)


def html_with_note(value: Any, note: str) -> str:
    """Return a value as a notebook shows it, with a note below it.

    >>> html_with_note([4, 9], "2 counts")
    '[4, 9]<p><small>2 counts</small></p>'
    """
    if hasattr(value, "to_frame"):  # a Series
        value = value.to_frame("released")
    show = getattr(value, "_repr_html_", None)
    shown = escape(repr(value)) if show is None else show()
    return f"{shown}<p><small>{escape(note)}</small></p>"


def _row(cells: Sequence[object], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"
