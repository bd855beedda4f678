"""`sugarbush profile`: draws a DP profile, prints it, and writes its page."""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sugarbush.attributes.placeholders import TONE
from sugarbush.data.schema import json_schema_file, load_schema
from sugarbush.data.shapes.interface import Shape
from sugarbush.paths import Roots, atomic_file, find_input, reading
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.spending import Spending, spending_of
from sugarbush.profiling.draft import (
    Draft,
    draft_from_profile,
    schema_text,
    subject_of_file,
    word_counts,
)
from sugarbush.profiling.page import render_profile
from sugarbush.profiling.records_per_user import RecordsPerUser, proposed_records_per_user
from sugarbush.profiling.release import FILE, QUANTILES, ReleasedProfile, interval
from sugarbush.profiling.requests import STAGE, profile_of_project
from sugarbush.profiling.view import length_rows, share_tables
from sugarbush.progress import working
from sugarbush.project.assignments import changed_settings, write_settings
from sugarbush.project.local_model import tokens_for_words
from sugarbush.run.context import Project
from sugarbush.run.ledgers import profile_charges
from sugarbush.tables.settings import Engine

PAGE = "profile.html"
_MOST_ROWS = 12
_DAMAGED = "Run `sugarbush profile` again; a finished profile costs nothing"


def make_profile(project: Project, console: Console, *, force: bool = False) -> ReleasedProfile:
    """Draw or restore the profile, write its page, and print both and the next command."""
    before = len(profile_charges(project))
    profile = profile_of_project(project, forced=force)
    _show(project, profile, console, charged=len(profile_charges(project)) > before)
    _show_records_per_user(project, profile, console)
    say(console, "next: sugarbush schema draft   writes a schema from the profile")
    return profile


def _show(project: Project, profile: ReleasedProfile, console: Console, *, charged: bool) -> None:
    with working("the total of the ledger"):
        spending = spending_of(project.ledger(rehearse=False).snapshot(), profile.ledger_ids)
    path = write_page(project, profile, spending)
    show_profile(profile, spending, console)
    say(console, f"{path.relative_to(project.base)}: the profile as a page, which may be published")
    spent = f"charged; epsilon {rounded_up(spending.total)} of the dataset is spent so far"
    say(console, f"ledger: {spent if charged else 'the profile was restored, and nothing charged'}")


def _show_records_per_user(project: Project, profile: ReleasedProfile, console: Console) -> None:
    """Print the proposal, if params.yaml has another number."""
    proposed = _proposed_records_per_user(project, profile)
    current = project.settings.privacy.records_per_user
    if proposed is not None and proposed.limit != current:
        say(
            console,
            f"privacy.records_per_user is {current}; the profile proposes {proposed.limit}: "
            f"{proposed.cost}",
        )


def write_page(project: Project, profile: ReleasedProfile, spending: Spending) -> Path:
    """Write reports/public/profile.html."""
    path = project.roots.published / PAGE
    page = render_profile(profile, title=_title(project), spending=spending)
    with atomic_file(path, public=True) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def read_profile(base: Path) -> ReleasedProfile | None:
    """Read the project's last profile, or return None."""
    path = Roots(base).released / STAGE / FILE
    if not path.exists():
        return None
    with reading(path, advice=_DAMAGED):
        return ReleasedProfile.from_json(path.read_text(encoding="utf-8"))


def use_profile(folder: Path, schema: Path, *, subject: str | None, console: Console) -> None:
    """Draw the profile of a new project, and write its schema and the lengths of its texts.

    The schema is the draft of a new project, which nobody has edited.
    """
    project = open_project(folder)
    before = len(profile_charges(project))
    profile = profile_of_project(project)
    named = subject or subject_of_file(Path(project.settings.prepare.file).stem)
    draft = write_schema_of(profile, schema, subject=named, console=console, shape_of=schema)
    set_from_profile(project, profile, draft.schema.shape, console)
    _show(project, profile, console, charged=len(profile_charges(project)) > before)


def set_from_profile(
    project: Project, profile: ReleasedProfile, shape: Shape | None, console: Console
) -> None:
    """Write what the profile proposes to params.yaml: the lengths of texts, and the records per
    user if nobody has set them.

    The limit of tokens suits the longest text that prompts request. Donated texts give other
    lengths.
    """
    folder, words = project.base, word_counts(profile)
    proposed = _proposed_records_per_user(project, profile)
    if profile.users is not None and proposed is None:
        say(console, "privacy.records_per_user: no proposal, because the noise is too large for it")
    elif proposed is not None and project.settings.privacy.records_per_user == 1:
        limit = f"privacy.records_per_user={proposed.limit}"
        write_settings(folder, changed_settings(folder, assignments=[limit]))
        say(console, f"privacy.records_per_user: {proposed.limit}: {proposed.cost}")
    if words and project.settings.prepare.donated is None:
        changes = [f"initialise.length.words={list(words)}"]
        if project.settings.generator.provider == "huggingface":
            longest = None if shape is None else shape.words_of(shape.longest)
            tokens = tokens_for_words(max(*words, longest or 0))
            changes.append(f"generator.huggingface.max_tokens={tokens}")
        write_settings(folder, changed_settings(folder, assignments=changes))


def _proposed_records_per_user(project: Project, profile: ReleasedProfile) -> RecordsPerUser | None:
    """Return the proposal for the noise of a count that has the share of the run's metadata."""
    settings = project.settings
    if settings.synthesize_metadata.engine is Engine.SMARTNOISE:  # one record per user
        return None
    privacy = settings.privacy
    mu = mu_of(epsilon=privacy.epsilon, delta=privacy.delta) * math.sqrt(privacy.metadata_share)
    return proposed_records_per_user(profile, stddev=1 / mu)


def write_schema_of(
    profile: ReleasedProfile, output: Path, *, subject: str | None, console: Console, shape_of: Path
) -> Draft:
    """Write the schema that the profile proposes, print its attributes, and return it.

    The schema `shape_of` declares the shape of a record; without this file, it is one string.
    """
    form, file = None, None
    if shape_of.exists():
        form = load_schema(shape_of).text
        file = json_schema_file(shape_of, beside=output)
    draft = draft_from_profile(profile, subject=subject, form=form)
    with atomic_file(output, public=True) as temporary:
        temporary.write_text(schema_text(draft, profile, json_schema=file), encoding="utf-8")
    for attribute in draft.schema.attributes:
        say(console, f"  {attribute.name}: {' | '.join(attribute.domain)}")
    for name, why in draft.left_out:
        say(console, f"  no attribute from column {name}: {why}")
    if draft.schema.attributes == (TONE,):
        say(
            console,
            f"{output}: the profile found no attribute, so 'tone' is the only one. List other "
            "attributes with their values, from public knowledge",
        )
    else:
        say(console, f"{output}: a schema from the profile alone. Edit it if you know better")
    return draft


def show_profile(profile: ReleasedProfile, spending: Spending, console: Console) -> None:
    """Print the profile. Everything is released."""
    within = rounded_up(profile.within, 3)
    who = "users" if profile.unit == "user" else "records"
    say(
        console,
        f"profile of {profile.dataset}: {spending.line('this profile')}, at delta "
        f"{rounded_up(profile.delta)}, per {profile.unit}",
    )
    say(console, f"{who} of the training part: {max(profile.records, 0):,} ± {within}")
    if lengths := length_rows(profile):
        table = Table(title="lengths", title_justify="left", box=None)
        table.add_column("")
        for quantile in QUANTILES:
            table.add_column(f"{quantile:.0%}", justify="right")
        for name, found in lengths:
            table.add_row(name, *(f"{value:,.0f}" for value in found))
        console.print(table)
    else:
        say(console, "too few records for lengths at this noise")
    for shares in share_tables(profile):
        table = Table(title=Text(shares.title), title_justify="left", box=None, show_header=False)
        shown = [row for row in shares.shares if row[1].share > 0.005][:_MOST_ROWS]
        for name, share_of_records in shown:
            table.add_row(Text(f"  {name}"), interval(share_of_records))
        if shown:
            console.print(table)
        else:
            say(console, shares.title)
        if shares.quantiles:
            named = ", ".join(f"{value} at {quantile}" for quantile, value in shares.quantiles)
            say(console, f"  quantiles: {named}")
        if shares.note:
            say(console, f"  {shares.note}")
    if profile.topics:
        say(console, "topics")
        for name, terms in profile.topics:
            say(console, f"  {name}: {', '.join(terms)}")


def say(console: Console, line: str) -> None:
    """Print a line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _title(project: Project) -> str:
    """Return the schema's subject, or the dataset's name without a schema."""
    path = find_input(project.base, project.settings.prepare.schema_)
    return project.schema.subject if path.exists() else project.dataset
