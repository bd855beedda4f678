"""The arguments of the commands that show, publish and audit results, and of `settings`.

The bodies are imported when a command is called, because the help of every command reads this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sugarbush.errors import ParamsError

BASE = Path()


def report(
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the public report in the browser.")
    ] = False,
    internal: Annotated[
        bool,
        typer.Option(
            "--internal",
            help=("Also print the internal report's path (not DP). With --open, open this report."),
        ),
    ] = False,
) -> None:
    """Print where the release card and the report are."""
    from sugarbush.cli.shows import show_report

    show_report(BASE, open_page=open_page, internal=internal, console=Console())


def publish(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    *,
    another: Annotated[
        bool,
        typer.Option(
            "--another", help="Publish although another release of the dataset was published."
        ),
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(help="Also upload the folder: hf://org/name or s3://bucket/folder."),
    ] = None,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask", help="First ask on the terminal for the settings `publication`; Enter skips."
        ),
    ] = False,
) -> None:
    """Write the finished release as a dataset folder, with its card and a registry record.

    The folder opens with `datasets.load_dataset`. It contains only what the card covers. The
    settings `publication` must be complete. A card that is older than the ledger is refused.
    """
    from sugarbush.cli import publishing, questions

    if ask:
        questions.ask_publication(BASE, Console())
    publishing.publish_release(BASE, folder, another=another, to=to, console=Console())


def show_settings(
    section: Annotated[
        str | None, typer.Argument(help="A section or a setting, such as methods.maple.")
    ] = None,
) -> None:
    """Show every setting with its default and its meaning. Also show your value if it differs."""
    from sugarbush.cli import settings_table

    settings_table.show_settings(BASE, section, Console())


def show(
    stage: Annotated[
        str,
        typer.Argument(
            help=("One of: metadata, initial, evolve, model, synthetic, card, metrics.")
        ),
    ] = "synthetic",
    method: Annotated[
        str | None, typer.Option(help="The method. Default: the first method.")
    ] = None,
    rows: Annotated[int, typer.Option(help="How many rows to show.", min=1)] = 10,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also show values computed on real texts (not DP).")
    ] = False,
) -> None:
    """Show the released files of a stage and, with `--internal`, the internal files."""
    from sugarbush.cli import shows

    shows.show_stage(BASE, stage, method=method, rows=rows, internal=internal, console=Console())


def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete the answers of the generator.")
    ] = False,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels", help=("With --clear, also delete the answers about private texts.")
        ),
    ] = False,
) -> None:
    """Show how many answers of models are cached, and their size.

    A cached answer costs nothing when it is used again. After `--clear`, a stage that runs again
    pays for its requests again. Finished stages need no answers.
    """
    from sugarbush.cli import caches

    if clear:
        caches.clear_cache(BASE, Console(), labels=labels)
    caches.show_cache(BASE, Console())


def clean(
    *,
    private: Annotated[
        bool, typer.Option("--private", help="Remove the private files. Required.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove the project's private files, and print their folders.

    The command removes data/private and reports/internal, also in the temporary copies that a
    killed `dvc exp run` leaves in .dvc/tmp. Stop every run first. The ledger, the state folder,
    your own data file and the published files stay.
    """
    from sugarbush.cli import cleaning

    if not private:
        raise ParamsError("nothing to remove. Add --private to remove the private files")
    cleaning.clean_private(BASE, Console(), yes=yes)


def audit(
    mechanisms: Annotated[
        list[str] | None,
        typer.Argument(help="Mechanisms (table, votes, 'kernel scores', dp-sgd) or methods."),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="The claimed epsilon; inf audits the code without noise.")
    ] = 4.0,
    runs: Annotated[
        int, typer.Option(help="Runs of 1000 invented records; more runs detect smaller faults.")
    ] = 150,
    seed: Annotated[int, typer.Option(help="Public seed that chooses the included records.")] = 0,
) -> None:
    """Attack the noisy mechanisms with invented records, and print lower bounds on epsilon.

    The same attack runs on copies of the mechanisms with deliberately wrong noise, to show which
    faults it detects. A method (mosaic, maple, augpe, dpft, crt) is attacked as a whole, on records
    of the prepared project in this folder. These records must be public. The command charges none
    of your ledgers. The project's ledger notes that a method was audited. An audit takes one to two
    minutes. Exit code 1: a lower bound is above the claimed bound.
    """
    from sugarbush.cli import audits

    audits.show_audit(mechanisms or (), epsilon=epsilon, runs=runs, seed=seed, console=Console())
