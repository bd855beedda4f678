"""Prints lines and tables of the commands."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table


def say(line: str) -> None:
    """Print a line of a command that works for a while."""
    print(line, flush=True)


def warn(line: str) -> None:
    """Print a line on stderr, so that other programs can read the output."""
    print(f"sugarbush: {line}", file=sys.stderr, flush=True)


def say_on(console: Console) -> Callable[[str], None]:
    """Return a function that prints a line as it is: without markup, colours or line breaks."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    return say


def plain_table(*columns: str, folded: str = "") -> Table:
    """Return a table without lines. Only the column `folded` may need several lines a row."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column != folded)
    return table
