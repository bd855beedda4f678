"""Turn a private text corpus into a synthetic one under differential privacy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sugarbush.errors import SugarbushError

app = typer.Typer(
    name="sugarbush",
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
BASE = Path()

Settings = Annotated[
    Path | None,
    typer.Option(help="A YAML file with the settings to change; they are written to params.yaml."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("-S", "--set", help="One setting to change, as key=value; may be repeated."),
]


@contextmanager
def told() -> Iterator[None]:
    """Failures as one message on the terminal, and their exit code."""
    try:
        yield
    except SugarbushError as error:
        print(f"sugarbush: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None


def _apply(settings: Path | None, assignments: list[str] | None) -> None:
    from cli.settings import change_settings

    changed = change_settings(BASE, overlay=settings, assignments=assignments or ())
    if changed:
        print(f"params.yaml: changed {', '.join(changed)}")


@app.command()
def run(
    settings: Settings = None,
    assignments: Assignments = None,
    force: Annotated[
        bool, typer.Option("--force", help="Draw everything anew, and charge for it.")
    ] = False,
    only_example: Annotated[
        bool, typer.Option("--only-example", help="Refuse to run on anything but the example.")
    ] = False,
) -> None:
    """Run every stage that is out of date, and say where the results are.

    Stages that are up to date are skipped and finished draws are restored: neither spends.
    `--force` draws again and charges again.
    """
    from cli import runs

    with told():
        _apply(settings, assignments)
        code = runs.run(BASE, force=force, only_example=only_example)
    raise typer.Exit(code)


@app.command()
def check(settings: Settings = None, assignments: Assignments = None) -> None:
    """Check settings, schema, data, generator and budget, before anything is spent.

    Reads every row of the data file. Exit code 2 when something must be mended first.
    """
    from cli import checks

    with told():
        _apply(settings, assignments)
        checks.check(BASE, Console())


@app.command()
def budget() -> None:
    """Show what the ledger holds for this dataset, and what a run would spend."""
    from cli import budgets

    with told():
        budgets.show_budget(BASE, Console())


@app.command()
def estimate() -> None:
    """Estimate the calls, tokens, cost and time that a run asks of its generator."""
    from cli import estimates

    with told():
        estimates.show_estimate(BASE, Console())


@app.command()
def show(
    stage: Annotated[
        str, typer.Argument(help="metadata, initial, evolve, synthetic, card or metrics.")
    ],
    method: Annotated[str | None, typer.Option(help="The method whose artifacts to show.")] = None,
    rows: Annotated[int, typer.Option(help="How many rows to show.", min=1)] = 10,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also what was computed on real texts.")
    ] = False,
) -> None:
    """Show a stage's artifacts as tables: released ones unless `--internal`."""
    from cli import shows

    with told():
        shows.show(BASE, stage, method=method, rows=rows, internal=internal, console=Console())


if __name__ == "__main__":
    app()
