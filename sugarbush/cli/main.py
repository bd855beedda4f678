"""Turn a private text corpus into a synthetic corpus under differential privacy."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from sugarbush.closed_output import output_may_close
from sugarbush.errors import ParamsError
from sugarbush.paths import OWN_LABELS
from sugarbush.project.example_name import ExampleName
from sugarbush.training.crt.findings import DEFAULT_DETECTORS

if TYPE_CHECKING:
    from sugarbush.run.context import Project


class Commands(TyperGroup):
    """Prints a warning or a failure of any command as one line, and exits with its code."""

    def invoke(self, ctx: Any) -> Any:
        warnings.formatwarning = lambda message, *_, **__: f"sugarbush: {message}\n"
        with output_may_close():
            return self._invoke(ctx)

    def _invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:  # the message of an error may quote a text
            if type(error).__module__.partition(".")[0] in {"typer", "click"}:
                raise
            from sugarbush.run.error_report import format_error

            message, code = format_error(error)
            print(f"sugarbush: {message}", file=sys.stderr)
            raise typer.Exit(code) from None


app = typer.Typer(
    cls=Commands,
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
    typer.Option("-S", "--set", help="A setting to change, as key=value. May be repeated."),
]


def _print_version(asked: bool) -> None:
    if asked:
        print(f"sugarbush {version('sugarbush')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Turn a private text corpus into a synthetic corpus under differential privacy."""


def _changed_project(settings: Path | None, assignments: list[str] | None) -> Project:
    """Open the project in this folder with changed settings, which are not written to any file."""
    from sugarbush.pipeline.opening import open_project
    from sugarbush.project.assignments import changed_settings

    changed = changed_settings(BASE, overlay=settings, assignments=assignments or ())
    return open_project(BASE, settings=changed.params)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")] = BASE,
    *,
    file: Annotated[
        str | None,
        typer.Option("--from", help="Your private file, folder or database."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="Sheet of an xlsx file, or table or SELECT of a database."),
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
    columns: Annotated[
        str | None,
        typer.Option(
            help=(
                "Public names of further columns for the schema, such as: product,stars. A jsonl "
                "file needs them; of another file, --profile then counts only these. '': none."
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
    from sugarbush.project.create import create_project, own_data, update_project

    given = {
        "text_column": text,
        "id_column": id_column,
        "user_column": user_column,
        "donated": donated,
        "subject": subject,
        "columns": columns,
        "table": table,
        "conversation": conversation,
        "roles": roles,
        "json_schema": json_schema,
    }
    user_data = own_data(file, given)
    if update and (user_data is not None or assignments):
        raise ParamsError("--update writes the generated files only. Leave out --from and -S")
    if update:
        update_project(folder, Console())
    else:
        if profile and user_data is None:
            raise ParamsError("--profile: needs --from, which names your file")
        if example is not ExampleName.TEXTS and user_data is not None:
            raise ParamsError("--example: needs no --from, because it brings its own data")
        create_project(
            folder,
            user_data,
            Console(),
            profile=profile,
            example=example,
            assignments=assignments or (),
        )


@app.command()
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
    from sugarbush.project import profiles

    profiles.make_profile(_changed_project(settings, assignments), Console(), force=force)


@app.command()
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
    from sugarbush.project import check as checks

    checks.run_checks(_changed_project(settings, assignments), Console(), internal=internal)


@app.command()
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
    from sugarbush.project import run as runs
    from sugarbush.project.assignments import changed_settings, write_settings

    changed = changed_settings(BASE, overlay=settings, assignments=assignments or ())
    write_settings(BASE, changed)
    if changed.names:
        print(f"params.yaml: changed {', '.join(changed.names)}")
    code = runs.run(BASE, force=force, only_example=only_example, accept_poor=yes)
    raise typer.Exit(code)


@app.command()
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


@app.command()
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


@app.command("settings")
def show_settings(
    section: Annotated[
        str | None, typer.Argument(help="A section or a setting, such as methods.maple.")
    ] = None,
) -> None:
    """Show every setting with its default and its meaning. Also show your value if it differs."""
    from sugarbush.cli import settings_table

    settings_table.show_settings(BASE, section, Console())


@app.command()
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
) -> None:
    """Show the dataset's ledger, its path, and the budget that a run would spend."""
    from sugarbush.project import budget as budgets

    project = _changed_project(settings, assignments)
    if accept and not repair:
        raise ParamsError("--accept adds a charge during a repair. Add --repair")
    if repair:
        budgets.repair(project, Console(), accept=accept or ())
    if undo_repair:
        budgets.undo_repair(project, undo_repair, Console())
    if raise_cap is not None:
        project.ledger().raise_cap(raise_cap)
    budgets.show_budget(project, Console())


@app.command()
def estimate(settings: Settings = None, assignments: Assignments = None) -> None:
    """Estimate the calls, tokens, cost and time of a run. Sends nothing."""
    from sugarbush.project import estimate as estimates

    estimates.show_estimate(_changed_project(settings, assignments), Console())


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
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


Detectors = Annotated[
    list[str],
    typer.Option(
        help=(
            "A detector: regex, learned, presidio, spacy:PIPELINE, installed, or a model's folder."
        )
    ),
]


@app.command()
def redact(
    file: Annotated[Path, typer.Argument(help="csv, jsonl or parquet.")],
    output: Annotated[Path, typer.Argument(help="A .csv, .jsonl or .parquet file to write.")],
    *,
    text: Annotated[str, typer.Option(help="The column with the text.")] = "text",
    keep: Annotated[
        list[str] | None, typer.Option(help="Another column to copy, unchanged. May be repeated.")
    ] = None,
    detectors: Detectors = list(DEFAULT_DETECTORS),  # noqa: B006 (Typer copies it)
    threshold: Annotated[
        float, typer.Option(help="The smallest score that counts as a secret.")
    ] = 0.3,
    surrogates: Annotated[
        bool, typer.Option("--surrogates", help="Write invented values instead of masks.")
    ] = False,
) -> None:
    """Write a copy of a file in which secrets are masked, and print what was found.

    The command gives no guarantee, because detectors miss some secrets. The output has the text,
    the spans that were replaced and the columns of `--keep`.
    """
    from sugarbush.cli import redaction

    redaction.redact(
        file, output, text=text, keep=keep or (), detectors=detectors, threshold=threshold,
        surrogates=surrogates, console=Console(),
    )  # fmt: skip


@app.command("train-redactor")
def train_redactor(
    labelled: Annotated[
        list[Path] | None,
        typer.Option(help="A file with columns text and spans. May be repeated."),
    ] = None,
    *,
    output: Annotated[Path | None, typer.Option(help="Folder of the tuned redactor.")] = None,
    text: Annotated[str, typer.Option(help="The column with the text.")] = "text",
    share: Annotated[
        float,
        typer.Option(
            help=("Share of labelled texts for training. The other texts measure gamma."),
            min=0,
            max=1,
        ),
    ] = 0.5,
) -> None:
    """Train the detector `learned`, or tune it on your own labels.

    Without `--labelled`, the command trains the default redactor on generated text, and reads no
    private file. Each machine needs this training once. With `--labelled`, the command tunes the
    default redactor on a share of the labelled texts. The folder of the tuned redactor is as
    private as these texts.
    """
    from sugarbush.cli import redaction

    redaction.train(labelled or (), output, text=text, share=share, console=Console())


@app.command()
def label(
    file: Annotated[Path, typer.Argument(help="csv, jsonl or parquet.")],
    *,
    text: Annotated[str, typer.Option(help="The column with the text.")] = "text",
    output: Annotated[
        Path, typer.Option(help="The file of labels; new labels are added.")
    ] = OWN_LABELS,
    count: Annotated[int, typer.Option(help="How many texts to label.", min=1)] = 200,
    suggest: Detectors = list(DEFAULT_DETECTORS),  # noqa: B006
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Label secrets on a page of this machine, to tune and to measure the detectors.

    Half of the texts are for training and have suggestions. The other half measures what the
    detectors miss.
    """
    from sugarbush.cli import redaction

    redaction.label(
        file, output, text=text, count=count, suggestions=suggest, open_page=open_page,
        console=Console(),
    )  # fmt: skip


@app.command("app")
def open_app(
    folder: Annotated[Path, typer.Argument(help="A project, or a new folder.")] = BASE,
    *,
    open_page: Annotated[bool, typer.Option("--open", help="Open the form in a browser.")] = False,
) -> None:
    """Serve a form in the browser, for this machine alone: from a file to a published folder.

    The form writes the same files as the commands, and runs the same commands. Each button that
    charges says its epsilon and asks once. Ctrl-C ends the form.
    """
    from sugarbush.app.server import serve

    serve(folder, open_page=open_page)


@schema_app.command("draft")
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
    from sugarbush.project import drafts

    project = _changed_project(settings, assignments)
    drafts.write_draft(project, subject=subject, output=output, seed=seed, console=Console())


if __name__ == "__main__":
    app()
