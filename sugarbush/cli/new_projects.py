"""`sugarbush init`: prints what was written, and the next commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from sugarbush.cli.printing import say_on
from sugarbush.data.formats.header_rows import HeaderRowsError
from sugarbush.generators.settings import GeneratorSection
from sugarbush.project.create import CreatedProject, OwnData, create_project, update_project
from sugarbush.project.example_name import ExampleName
from sugarbush.project.local_model import DEFAULT_MODEL
from sugarbush.project.template import SCHEMA
from sugarbush.run.settings import FILE, load_params

_ENCODING = (
    "The header is not UTF-8. It was read as {0}, so params.yaml sets prepare.encoding: {0}. If "
    "names look wrong, set the right encoding"
)

_RECORDS = (
    "The records are the list {0} of the file, so params.yaml sets prepare.table: {0}. If they "
    "are another list, name it with --records"
)


def make_project(
    folder: Path,
    user_data: OwnData | None,
    console: Console,
    *,
    profile: bool = False,
    example: ExampleName = ExampleName.TEXTS,
    assignments: Sequence[str] = (),
) -> None:
    """Write a project into `folder`, and print its profile and the next commands."""
    say = say_on(console)
    create = partial(
        create_project,
        folder,
        profile=profile,
        example=example,
        assignments=assignments,
        advise=say,
    )
    try:
        made = create(user_data)
    except HeaderRowsError as error:
        if user_data is None or not sys.stdin.isatty():
            raise
        say(str(error))
        if not typer.confirm(f"Are the first {error.rows} rows no records?"):
            raise
        made = create(replace(user_data, header_rows=error.rows))
    if made.profiled is not None:
        from sugarbush.cli.profiles import print_profiled  # slow

        print_profiled(made.profiled, folder / SCHEMA, folder, console)
    for line in _next_steps(made, profile=profile):
        say(line)
    if made.is_new and made.encoding is not None:
        say(_ENCODING.format(made.encoding))
    if made.is_new and made.records is not None:
        say(_RECORDS.format(made.records))


def update(folder: Path, console: Console) -> None:
    """Write the generated files again, and print the names of those that changed."""
    lines = update_project(folder)
    for line in lines:
        console.print(line, markup=False)
    if not lines:
        console.print("All generated files are up to date.")


def _generator(section: GeneratorSection) -> Iterator[str]:
    """Say which generator the settings name. An option `-S` may name another than the default."""
    name = getattr(section.chosen, "model", None)
    if (section.provider, name) == ("huggingface", DEFAULT_MODEL.name):
        yield f"  {FILE} names the generator {DEFAULT_MODEL.described}"
        yield "    another one: generator.provider openai (an endpoint) or pool (public texts)"
    else:
        model = f", model {name}" if name else ""
        yield f"  {FILE} names the generator {section.provider}{model}"


def _next_steps(made: CreatedProject, *, profile: bool) -> Iterator[str]:
    folder, own = made.folder, made.user_data
    if not made.is_new:
        yield f"{folder}: is already a project with these files; nothing to write"
        return
    yield f"{folder}: a new project. Next:"
    if folder.resolve() != Path().resolve():
        yield f"  cd {folder}"
    if own is None:
        yield (
            "  sugarbush run              the embedded example; then see `sugarbush report --open`"
        )
        yield "For your own texts: sugarbush init --from FILE --text COLUMN, in another folder."
        return
    if made.keys:
        yield f"  The first record also has the keys {', '.join(made.keys)}."
        yield "  No file of the project contains these names, because a key may be private."
        yield f"  Add the public ones to {SCHEMA}, or name them: --columns {','.join(made.keys)}"
    if own.user_column is not None and own.history_by is None and not profile:
        yield (
            "  One record of each user is used (privacy.records_per_user: 1). A profile "
            "(`sugarbush profile`) proposes a number and says what it costs"
        )
    subject = "" if own.subject else "say in `subject` what the texts are, "
    if profile:
        yield f"  look at {SCHEMA}: {subject}remove attributes that do not matter"
    else:
        yield f"  edit {SCHEMA}: {subject}list public values"
    yield from _generator(load_params(folder / FILE).generator)
    yield (
        "  sugarbush check            settings, every row, and 24 to 40 first texts; spends nothing"
    )
    yield "  sugarbush run"
    yield "`check` and `run` refuse an unedited schema and poor texts before any budget is spent."
    if own.donated is None:
        yield (
            "Without donated examples (--donated), texts are usually unlike yours, and nothing "
            "shows how good they are: docs/how-to/no-donated-texts.md"
        )
