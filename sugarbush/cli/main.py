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
schema_app = typer.Typer(help="The schema: attributes and their public values.")
app.add_typer(schema_app, name="schema", no_args_is_help=True)
BASE = Path()

Settings = Annotated[
    Path | None,
    typer.Option(help="A YAML file with the settings to change."),
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
    `--force` draws again and charges again. Changed settings are written to params.yaml.
    """
    from sugarbush.cli import runs
    from sugarbush.cli.settings import changed_settings, write_settings

    with told():
        changed = changed_settings(BASE, overlay=settings, assignments=assignments or ())
        write_settings(BASE, changed)
        if changed.names:
            print(f"params.yaml: changed {', '.join(changed.names)}")
        code = runs.run(BASE, force=force, only_example=only_example)
    raise typer.Exit(code)


@app.command()
def check(settings: Settings = None, assignments: Assignments = None) -> None:
    """Check settings, schema, data, generator and budget, before anything is spent.

    Reads every row of the data file; writes no setting. Exit code 2 when something must be mended.
    """
    from sugarbush.cli import checks
    from sugarbush.cli.settings import changed_settings
    from sugarbush.pipeline.project import Project

    with told():
        tried = changed_settings(BASE, overlay=settings, assignments=assignments or ())
        checks.check(Project(BASE, settings=tried.params), Console())


@app.command("settings")
def show_settings(
    section: Annotated[
        str | None, typer.Argument(help="A section or a setting, such as evolve.maple.")
    ] = None,
) -> None:
    """Show every setting: its default, its value here where it differs, and its meaning."""
    from sugarbush.cli import settings_table

    with told():
        settings_table.show_settings(BASE, section, Console())


@app.command()
def budget(settings: Settings = None, assignments: Assignments = None) -> None:
    """Show what the ledger holds for this dataset, and what a run would spend."""
    from sugarbush.cli import budgets
    from sugarbush.cli.settings import changed_settings
    from sugarbush.pipeline.project import Project

    with told():
        tried = changed_settings(BASE, overlay=settings, assignments=assignments or ())
        budgets.show_budget(Project(BASE, settings=tried.params), Console())


@app.command()
def estimate(settings: Settings = None, assignments: Assignments = None) -> None:
    """Estimate the calls, tokens, cost and time that a run asks of its generator."""
    from sugarbush.cli import estimates
    from sugarbush.cli.settings import changed_settings
    from sugarbush.pipeline.project import Project

    with told():
        tried = changed_settings(BASE, overlay=settings, assignments=assignments or ())
        estimates.show_estimate(Project(BASE, settings=tried.params), Console())


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Forget the generator's answers.")] = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="With --clear: also the answers about private texts.")
    ] = False,
) -> None:
    """Show how many answers of models are kept, and their size; `--clear` forgets them.

    A kept answer is never paid for twice. What is forgotten is asked for, and paid, again when a
    stage runs anew; finished stages do not need it.
    """
    from sugarbush.cli import caches

    with told():
        if clear:
            caches.clear_cache(BASE, Console(), labels=labels)
        caches.show_cache(BASE, Console())


@app.command()
def show(
    stage: Annotated[
        str, typer.Argument(help="metadata, initial, evolve, model, synthetic, card, metrics.")
    ],
    method: Annotated[str | None, typer.Option(help="The method whose artifacts to show.")] = None,
    rows: Annotated[int, typer.Option(help="How many rows to show.", min=1)] = 10,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also what was computed on real texts.")
    ] = False,
) -> None:
    """Show a stage's artifacts as tables: released ones unless `--internal`."""
    from sugarbush.cli import shows

    with told():
        shows.show(BASE, stage, method=method, rows=rows, internal=internal, console=Console())


@schema_app.command("draft")
def draft(
    subject: Annotated[str, typer.Option(help="What the texts are, in public words.")],
    output: Annotated[Path, typer.Option(help="A new file.")] = Path("schema.yaml"),
    seed: Annotated[int, typer.Option(help="Of the clusters that become topics.")] = 1,
    settings: Settings = None,
    assignments: Assignments = None,
) -> None:
    """Draft a schema from the donated examples and a description, for you to edit.

    Reads `prepare.donated` and never the private file, and spends nothing. Columns of the donated
    file and clusters of its texts become attributes.
    """
    from sugarbush.cli import drafts
    from sugarbush.cli.settings import changed_settings

    with told():
        tried = changed_settings(BASE, overlay=settings, assignments=assignments or ())
        drafts.draft(
            BASE, tried.params, subject=subject, output=output, seed=seed, console=Console()
        )


if __name__ == "__main__":
    app()
