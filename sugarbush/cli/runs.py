"""`sugarbush run`: runs the stages, and prints where the results are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sugarbush.cli.printing import say, warn
from sugarbush.data.private_store import PrivateStore
from sugarbush.errors import MissingInputError
from sugarbush.pipeline.opening import open_project
from sugarbush.preparation.findings import dropped_rows
from sugarbush.project import run as runs
from sugarbush.project.run import Results
from sugarbush.run.records import private_store

_FIGURES = ("MAUVE", "MAUVE, tf-idf", "mean JSD of attributes")


def run(base: Path, console: Console, *, force: bool, only_example: bool, accept_poor: bool) -> int:
    """Run the pipeline, print its lines and where its results are, and return the exit code.
    Raises RefusedReleaseError or PoorReleaseError after a finished run with such a release."""
    ended = runs.run(
        base, force=force, only_example=only_example, accept_poor=accept_poor, say=say, warn=warn
    )
    if ended.exit_code == 0:
        print_dropped_rows(private_store(open_project(base, settings=ended.settings)))
        print_results(runs.results(base, ended.settings), console)
        runs.require_good_release(base, ended.settings)
    return ended.exit_code


def print_dropped_rows(store: PrivateStore) -> None:
    """Print how many rows of the last run were not used, and why.

    The counts are exact, so only the command prints them, on the operator's terminal. Stages print
    no counts, because a scheduler may store what a stage prints.
    """
    try:
        lines = dropped_rows(store.tally())
    except MissingInputError:
        return  # no method of the run reads the rows
    if lines:
        print(
            "\n  ".join([f"rows (not DP: do not share): {lines[0]}", *lines[1:]]),
            file=sys.stderr,
            flush=True,
        )


def print_results(results: Results, console: Console) -> None:
    """Print the paths of the results, and the main metrics."""
    for note in results.notes:
        console.print(note, soft_wrap=True)
    if results.rows:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for row in results.rows:
            table.add_row(*row)
        console.print(table)
        _print_figures(results.figures, console)


def _print_figures(figures: Mapping[str, tuple[float | None, ...]], console: Console) -> None:
    table = Table(title="Against held-out real texts (internal)", box=None, padding=(0, 2, 0, 0))
    for column in ("", *_FIGURES):
        table.add_column(column)
    for method, values in figures.items():
        table.add_row(method, *("–" if value is None else f"{value:.3f}" for value in values))
    console.print(table)
