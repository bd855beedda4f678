"""`sugarbush profile` and `sugarbush schema draft`: print a DP profile and a drafted schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sugarbush.attributes.placeholders import TONE
from sugarbush.cli.printing import say_on
from sugarbush.data.schema import Schema
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.spending import Spending
from sugarbush.profiling.release import QUANTILES, ReleasedProfile, interval
from sugarbush.profiling.view import length_rows, share_tables
from sugarbush.project.drafts import write_draft
from sugarbush.project.profiles import (
    DrawnProfile,
    ProfiledProject,
    draw_profile,
    other_records_per_user,
)
from sugarbush.run.context import Project

_MOST_ROWS = 12


def make_profile(project: Project, console: Console, *, force: bool = False) -> None:
    """Draw or restore the profile, and print it, its page and the next command."""
    drawn, say = draw_profile(project, force=force), say_on(console)
    print_drawn(drawn, project.base, console)
    if (proposed := other_records_per_user(project, drawn.profile)) is not None:
        say(
            f"privacy.records_per_user is {project.settings.privacy.records_per_user}; the profile "
            f"proposes {proposed.limit}: {proposed.cost}"
        )
    say("next: sugarbush schema draft   writes a schema from the profile")


def print_profiled(found: ProfiledProject, schema: Path, base: Path, console: Console) -> None:
    """Print the profile of a new project, its schema, and the settings from the profile."""
    say = say_on(console)
    _say_draft(found.draft.schema, found.draft.left_out, schema, say)
    for note in found.notes:
        say(note)
    print_drawn(found.drawn, base, console)


def print_drawn(drawn: DrawnProfile, base: Path, console: Console) -> None:
    """Print a profile, its page, and whether it was charged."""
    say = say_on(console)
    show_profile(drawn.profile, drawn.spending, console)
    say(f"{drawn.page.relative_to(base)}: the profile as a page, which may be published")
    spent = f"charged; epsilon {rounded_up(drawn.spending.total)} of the dataset is spent so far"
    say(f"ledger: {spent if drawn.is_charged else 'the profile was restored, and nothing charged'}")


def draft_schema(
    project: Project, *, subject: str | None, output: Path | None, seed: int, console: Console
) -> None:
    """Write a drafted schema, and print its attributes."""
    draft = write_draft(project, subject=subject, output=output, seed=seed)
    say = say_on(console)
    if draft.donated is None:
        _say_draft(draft.schema, draft.left_out, draft.path, say)
        for note in draft.notes:
            say(note)
        if draft.is_new:
            console.print(f"Set prepare.schema to {draft.path} to use it", markup=False)
        return
    for attribute in draft.schema.attributes:
        console.print(f"{attribute.name}: {' | '.join(attribute.domain)}", markup=False)
    console.print(
        f"{draft.path}: a draft from {draft.donated} donated examples. Edit it and set "
        "prepare.schema to its path. Everything in the file becomes public.",
        markup=False,
    )


def _say_draft(
    schema: Schema, left_out: Iterable[tuple[str, str]], path: Path, say: Callable[[str], None]
) -> None:
    """Print the attributes of a schema from a profile."""
    for attribute in schema.attributes:
        say(f"  {attribute.name}: {' | '.join(attribute.domain)}")
    for name, why in left_out:
        say(f"  no attribute from column {name}: {why}")
    if schema.attributes == (TONE,):
        say(
            f"{path}: the profile found no attribute, so 'tone' is the only one. List other "
            "attributes with their values, from public knowledge"
        )
    else:
        say(f"{path}: a schema from the profile alone. Edit it if you know better")


def show_profile(profile: ReleasedProfile, spending: Spending, console: Console) -> None:
    """Print the profile. Everything is released."""
    say, within = say_on(console), rounded_up(profile.within, 3)
    who = "users" if profile.unit == "user" else "records"
    say(
        f"profile of {profile.dataset}: {spending.line('this profile')}, at delta "
        f"{rounded_up(profile.delta)}, per {profile.unit}",
    )
    say(f"{who} of the training part: {max(profile.records, 0):,} ± {within}")
    if lengths := length_rows(profile):
        table = Table(title="lengths", title_justify="left", box=None)
        table.add_column("")
        for quantile in QUANTILES:
            table.add_column(f"{quantile:.0%}", justify="right")
        for name, found in lengths:
            table.add_row(name, *(f"{value:,.0f}" for value in found))
        console.print(table)
    else:
        say("too few records for lengths at this noise")
    for shares in share_tables(profile):
        table = Table(title=Text(shares.title), title_justify="left", box=None, show_header=False)
        shown = [row for row in shares.shares if row[1].share > 0.005][:_MOST_ROWS]
        for name, share_of_records in shown:
            table.add_row(Text(f"  {name}"), interval(share_of_records))
        if shown:
            console.print(table)
        else:
            say(shares.title)
        if shares.quantiles:
            named = ", ".join(f"{value} at {quantile}" for quantile, value in shares.quantiles)
            say(f"  quantiles: {named}")
        if shares.note:
            say(f"  {shares.note}")
    if profile.topics:
        say("topics")
        for name, terms in profile.topics:
            say(f"  {name}: {', '.join(terms)}")
