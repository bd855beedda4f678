"""`sugarbush estimate`: prints the calls, tokens and cost of a run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sugarbush.project.estimate import NAMES, EstimateTable, estimate_run
from sugarbush.run.context import Project


def show_estimate(project: Project, console: Console) -> None:
    """Print the calls and tokens of each stage. Also print the cost and the least time that the
    rate limits allow, if they are known."""
    for each in estimate_run(project):
        if each.columns:
            console.print(_table(each))
        for line in each.lines:
            console.print(line)


def _table(each: EstimateTable) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in each.columns[:NAMES]:
        table.add_column(name, overflow="fold")
    for name in each.columns[NAMES:]:
        table.add_column(name, justify="right")
    for row in each.rows:
        table.add_row(*row)
    return table
