"""The arguments of the commands that make, check, run and budget a project.

The bodies are imported when a command is called, because the help of every command reads this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sugarbush.errors import ParamsError
from sugarbush.project.example_name import ExampleName

if TYPE_CHECKING:
    from sugarbush.run.context import Project

BASE = Path()

Settings = Annotated[
    Path | None,
    typer.Option(help="A YAML file with the settings to change."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("-S", "--set", help="A setting to change, as key=value. May be repeated."),
]


def init(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")] = BASE,
    *,
    file: Annotated[
        str | None,
        typer.Option("--from", help="Your private file, folder or database."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            "--records",
            help=(
                "Sheet of an xlsx file, list of records in a JSON file (such as data.tickets), or "
                "table or SELECT of a database."
            ),
        ),
    ] = None,
    header_rows: Annotated[
        int | None,
        typer.Option(
            "--header-rows",
            min=1,
            max=20,
            help="Number of rows above the first record of a csv or xlsx file. Default: 1.",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help=(
                "The column with the text, or several columns with commas between. Default: text."
            )
        ),
    ] = None,
    conversation: Annotated[
        str | None, typer.Option(help="The column with conversations, such as messages.")
    ] = None,
    roles: Annotated[
        str | None,
        typer.Option(help="The public names of the speakers, such as: customer,agent."),
    ] = None,
    turn_keys: Annotated[
        str | None,
        typer.Option(
            "--turn-keys",
            help="The keys of a turn with its speaker and its text, such as: author.type,body.",
        ),
    ] = None,
    other_turns: Annotated[
        str | None,
        typer.Option(
            "--other-turns",
            help=(
                "What happens to turns that are not one of the roles and a text: drop, join (to "
                "the next turn), or one of the roles. Default: the conversation is refused."
            ),
        ),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(
            help="If each row is a message: the column of its thread. A thread is one record."
        ),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="The column of a message's time. Default: order of the rows.")
    ] = None,
    speaker: Annotated[
        str | None, typer.Option(help="The column of a message's speaker, one of the roles.")
    ] = None,
    json_schema: Annotated[
        Path | None,
        typer.Option(
            "--json-schema",
            help=(
                "A public JSON Schema of JSON records. --text names their column; without it, each "
                "property is a column."
            ),
        ),
    ] = None,
    donated: Annotated[
        Path | None,
        typer.Option(help="A file of unprotected examples, which their authors gave away."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(help=("A public description of the texts, such as: support tickets.")),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column with the record's id.")
    ] = None,
    user_column: Annotated[
        str | None,
        typer.Option(
            "--user",
            help=("The column with the user. With this option, the guarantee is per user."),
        ),
    ] = None,
    history_by: Annotated[
        str | None,
        typer.Option(
            help=(
                "The column with the date of a record. All records of a user then become one "
                "history. Needs --user."
            ),
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help=(
                "Public names of further columns for the schema, such as: product,stars. A jsonl "
                "file needs them; of another file, schema and profile have only these. '': none."
            )
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help=(
                "Draw a DP profile of the file and write the schema from it. Spends "
                "profile.epsilon (0.2) of the privacy budget."
            ),
        ),
    ] = False,
    assignments: Assignments = None,
    example: Annotated[
        ExampleName,
        typer.Option(help="The embedded example: one text a record, or conversations."),
    ] = ExampleName.TEXTS,
    update: Annotated[
        bool,
        typer.Option("--update", help="Only write dvc.yaml, tasks/ and flows/ again."),
    ] = False,
) -> None:
    """Make a project: settings, stages, flows and a schema to edit.

    Without `--from` the project has the embedded example. With `--from` the settings name your
    file, and a schema is drafted from its column names and the donated examples. Without
    `--profile`, no private text or value is read. An existing file that differs is not overwritten.
    """
    from sugarbush.cli import new_projects
    from sugarbush.project.create import own_data

    given = {
        "text_column": text,
        "id_column": id_column,
        "user_column": user_column,
        "donated": donated,
        "subject": subject,
        "columns": columns,
        "table": table,
        "header_rows": header_rows,
        "conversation": conversation,
        "roles": roles,
        "turn_keys": turn_keys,
        "other_turns": other_turns,
        "thread": thread,
        "time": time,
        "speaker": speaker,
        "json_schema": json_schema,
        "history_by": history_by,
    }
    user_data = own_data(file, given)
    if update and (user_data is not None or assignments):
        raise ParamsError("--update writes the generated files only. Leave out --from and -S")
    if update:
        new_projects.update(folder, Console())
    else:
        if profile and user_data is None:
            raise ParamsError("--profile: needs --from, which names your file")
        if example is not ExampleName.TEXTS and user_data is not None:
            raise ParamsError("--example: needs no --from, because it brings its own data")
        new_projects.make_project(
            folder,
            user_data,
            Console(),
            profile=profile,
            example=example,
            assignments=assignments or (),
        )


def profile(
    settings: Settings = None,
    assignments: Assignments = None,
    force: Annotated[
        bool, typer.Option("--force", help="Draw and charge the profile again.")
    ] = False,
) -> None:
    """Measure what the private file contains, under DP: sizes, lengths, values, form and words.

    Spends `profile.epsilon` of the dataset's budget. A finished profile on the same file is
    restored and costs nothing. Writes data/released/profile and reports/public/profile.html.
    `sugarbush schema draft` then drafts a schema from the profile.
    """
    from sugarbush.cli import profiles

    profiles.make_profile(_changed_project(settings, assignments), Console(), force=force)


def draft(
    subject: Annotated[
        str | None, typer.Option(help="What the texts are, in public words.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="A new file. Default: schema.yaml.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the clusters that become topics.")] = 1,
    settings: Settings = None,
    assignments: Assignments = None,
) -> None:
    """Draft a schema from the project's DP profile or its donated examples, for you to edit.

    With a profile (`sugarbush profile`), its columns and topics become attributes. Otherwise, those
    of the file `prepare.donated` do. The private file is not read, and no budget is spent.
    """
    from sugarbush.cli import profiles

    project = _changed_project(settings, assignments)
    profiles.draft_schema(project, subject=subject, output=output, seed=seed, console=Console())


def check(
    settings: Settings = None,
    assignments: Assignments = None,
    internal: Annotated[
        bool,
        typer.Option(
            "--internal",
            help="Also show listed values that look misspelt (not DP: do not share).",
        ),
    ] = False,
) -> None:
    """Check settings, schema, data, generator and budget. Spends nothing.

    Reads every row of the data file. Requests 40 texts from the generator, as the run would, and
    judges them: good, fair or poor. The answers are cached, so another check sends nothing. Changes
    no setting. Exit code 2: something in your input must be fixed, or the texts are poor.
    """
    from sugarbush.cli import checks

    checks.run_checks(_changed_project(settings, assignments), Console(), internal=internal)


def run(
    settings: Settings = None,
    assignments: Assignments = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run and charge every stage again.")
    ] = False,
    only_example: Annotated[
        bool, typer.Option("--only-example", help="Refuse to run on data other than the example.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Go on although the first texts are poor.")
    ] = False,
) -> None:
    """Run every stage that is out of date, and print where the results are.

    Before any budget is spent, a rehearsal judges the generator's first texts. If they are poor,
    the run stops with exit code 2. Then a first look spends about 6% of the budget (of mu squared):
    if the texts are unlike the records, the run stops with exit code 3. Up-to-date stages are
    skipped, and finished results are restored. Both spend no budget. Changed settings (`-S`,
    `--settings`) are written to params.yaml.
    """
    from sugarbush.cli import runs
    from sugarbush.project.assignments import changed_settings, write_settings

    changed = changed_settings(BASE, overlay=settings, assignments=assignments or ())
    write_settings(BASE, changed)
    if changed.names:
        print(changed.line)
    code = runs.run(BASE, Console(), force=force, only_example=only_example, accept_poor=yes)
    raise typer.Exit(code)


def budget(
    settings: Settings = None,
    assignments: Assignments = None,
    *,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Add charges that data/released names but the ledger lacks."),
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help=("With --repair, also add this charge without a valid seal. May be repeated."),
        ),
    ] = None,
    undo_repair: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Cancel a charge that --accept added. May be repeated."),
    ] = None,
    raise_cap: Annotated[
        float | None,
        typer.Option("--raise-cap", help="Raise the stored cap to this epsilon. This is recorded."),
    ] = None,
    weeks: Annotated[
        int | None,
        typer.Option(help="Only show which epsilon each release of so many weeks may spend."),
    ] = None,
) -> None:
    """Show the dataset's ledger, its path, and the budget that a run would spend."""
    from sugarbush.cli import budgets

    project = _changed_project(settings, assignments)
    if weeks is not None:
        if repair or undo_repair or raise_cap is not None:
            raise ParamsError("--weeks only shows a plan. Give it without another option")
        budgets.show_weeks(project, weeks, Console())
        return
    if accept and not repair:
        raise ParamsError("--accept adds a charge during a repair. Add --repair")
    if repair:
        budgets.repair(project, Console(), accept=accept or ())
    if undo_repair:
        budgets.undo_repair(project, undo_repair, Console())
    if raise_cap is not None:
        project.ledger().raise_cap(raise_cap)
    budgets.show_budget(project, Console())


def estimate(settings: Settings = None, assignments: Assignments = None) -> None:
    """Estimate the calls, tokens, cost and time of a run. Sends nothing."""
    from sugarbush.cli import estimates

    estimates.show_estimate(_changed_project(settings, assignments), Console())


def _changed_project(settings: Path | None, assignments: list[str] | None) -> Project:
    """Open the project in this folder with changed settings, which are not written to any file."""
    from sugarbush.pipeline.opening import open_project
    from sugarbush.project.assignments import changed_settings

    changed = changed_settings(BASE, overlay=settings, assignments=assignments or ())
    return open_project(BASE, settings=changed.params)
