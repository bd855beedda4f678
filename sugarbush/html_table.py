"""Writes a small HTML table, which notebooks show for an object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


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


def _row(cells: Sequence[object], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"
