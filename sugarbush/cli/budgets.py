"""`sugarbush budget`: prints the ledger and the plan of the next run, and repairs the ledger."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable

import typer
from rich.console import Console
from rich.text import Text

from sugarbush.cli.printing import plain_table, say_on
from sugarbush.errors import printable
from sugarbush.privacy.accounting import epsilon, rounded_up
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.schedule import MOST_RUNS
from sugarbush.progress import working
from sugarbush.project import budget
from sugarbush.project.budget import SpentBudget, described_event
from sugarbush.run.context import Project
from sugarbush.run.ledgers import planned_line


def show_budget(project: Project, console: Console) -> None:
    """Print the ledger of `privacy.dataset`, its total, and the plan of the next run."""
    spent = budget.spent_budget(project)
    purpose = project.settings.privacy.purpose
    console.print(f"Ledger of '{spent.dataset}' ({purpose}): {spent.path}")
    _print_charges(spent, console)
    _print_repairs(spent, console)
    _print_totals(spent, console)
    _print_plan(project, console)


def show_weeks(project: Project, weeks: int, console: Console) -> None:
    """Print which epsilon each of the releases of `weeks` weeks may spend. Charges nothing."""
    from sugarbush.project.weeks import COLUMNS, weekly_plan

    with working("planning the weeks"):
        plan = weekly_plan(project, weeks)
    say = say_on(console)
    say(
        f"{weeks} weeks of '{plan.dataset}' under the cap of {rounded_up(plan.cap)} at delta "
        f"{rounded_up(plan.delta)}, per {plan.unit}. Spent so far: {rounded_up(plan.spent)}."
    )
    table = plain_table(*COLUMNS)
    for row in plan.rows():
        table.add_row(*row)
    console.print(table if plan.schedules else "The cap allows no release.")
    for note in plan.notes():
        say(f"- {note}")


def _print_charges(spent: SpentBudget, console: Console) -> None:
    if spent.missing:
        console.print(
            f"[bold red]The ledger lacks {spent.missing} charges of finished results:[/] a run "
            "would be refused. Set SUGARBUSH_STATE to the state folder of these results, restore "
            "the ledger from a backup, or run sugarbush budget --repair."
        )
    if spent.charges:
        columns = ("first charged (UTC)", "stage", "run", "times", "mechanism")
        table = plain_table(*columns, folded="mechanism")
        for each in spent.charges:
            day, event = each.time[:10], described_event(each.event)
            table.add_row(day, each.stage, each.run[:8], str(each.count), event)
        console.print(table)


def _print_repairs(spent: SpentBudget, console: Console) -> None:
    """Print what repairs added to the ledger, and what was cancelled."""
    if spent.repaired:
        console.print(f"A repair added {spent.repaired} of these charges from sealed releases.")
    for entry in spent.accepted:
        console.print(
            f"Accepted without a valid seal: {_named(entry)}. To cancel it: "
            f"sugarbush budget --undo-repair {printable(entry.id)}",
            markup=False,
            soft_wrap=True,
        )
    for entry in spent.cancelled:
        console.print(f"Accepted and cancelled: {_named(entry)}", markup=False, soft_wrap=True)


def _named(entry: Entry) -> str:
    return printable(f"{entry.id}, stage {entry.stage}, {described_event(entry.event)}")


def _print_totals(spent: SpentBudget, console: Console) -> None:
    console.print(
        f"Spent so far: epsilon {rounded_up(spent.total)} of {rounded_up(spent.cap)} at delta "
        f"{rounded_up(spent.delta)}, per {spent.unit}"
    )
    if spent.release is not None:
        line = f"The finished release of this project: {spent.release.line()}."
        console.print(line, highlight=False, soft_wrap=True)
    for what, count in spent.shown.items():
        console.print(f"Exact figures on real texts were shown: {what} ({count}).")
    for raised in spent.cap_raises:
        console.print(
            f"The cap was raised on {raised.time} from {rounded_up(raised.raised_from)} to "
            f"{rounded_up(raised.raised_to)}."
        )
    for path, count in spent.elsewhere.items():
        console.print(f"Not in this total: {count} charges in {path}", soft_wrap=True)


def _print_plan(project: Project, console: Console) -> None:
    names = ", ".join(project.settings.methods.by_name)
    console.print(f"A run of {names} plans {planned_line(project)}:", soft_wrap=True)
    for allocation in project.plan.allocations:
        console.print(f"  {allocation.name:<16} {described_event(allocation.event)}")
    if budget.is_finished(project):
        console.print("All results are finished, so a run spends nothing.")
        return
    after = budget.total_after_run(project)
    within = "within the cap" if after.is_within_cap else "past the cap: the run would be refused"
    console.print(f"After it the total is {rounded_up(after.epsilon)} at most, {within}.")
    if (runs := budget.possible_runs(project)) is not None:
        more = f"{runs} or more" if runs == MOST_RUNS else str(runs)
        console.print(f"The cap has room for {more} such runs on changed data.")
    if (reason := budget.refusal_of_run(project)) is not None:
        refused = f"A run would be refused: {printable(reason)}"
        console.print(refused, markup=False, soft_wrap=True)


def repair(project: Project, console: Console, *, accept: Collection[str] = ()) -> None:
    """Add the charges in the project's released folders that the ledger lacks, and print their
    number. A charge without a valid seal is added only if `accept` contains its id, or if the user
    says yes on the terminal. Raises ParamsError for an unknown id in `accept`. Raises LedgerError
    if the ledger then still lacks a charge of a finished result."""
    found = budget.charges_for_repair(project)
    budget.require_known(accept, found.unsealed)
    if found.unsealed:
        _print_unsealed(found.unsealed.values(), project.ledger().delta, console)
        accept = accept or _chosen(found.unsealed)
    added = budget.repair(project, found, accept=accept)
    console.print(f"Added {added} charges to {project.ledger().path}.", soft_wrap=True)
    budget.require_no_missing_charges(project)


def _print_unsealed(entries: Iterable[Entry], delta: float, console: Console) -> None:
    console.print(
        "These charges are in files of data/released without a valid seal. Somebody may have "
        "edited or invented them, or the files come from another key. "
        "Compare them with the release cards:"
    )
    table = plain_table("id", "date", "stage", "mechanism", "epsilon", folded="mechanism")
    for entry in entries:
        alone = rounded_up(epsilon([entry.event], delta=delta))
        texts = (entry.id, entry.time, entry.stage, described_event(entry.event), alone)
        table.add_row(*map(Text, map(printable, texts)))
    console.print(table)


def _chosen(ids: Iterable[str]) -> list[str]:
    """Ask for each charge whether to add it. Without a terminal, no charge is chosen."""
    if not sys.stdin.isatty():
        return []
    return [i for i in ids if typer.confirm(f"Add {printable(i)}?")]


def undo_repair(project: Project, ids: Collection[str], console: Console) -> None:
    """Cancel charges that a repair added without a valid seal. Raises LedgerError for any other
    charge."""
    ledger = project.ledger()
    ledger.cancel_accepted(ids)
    console.print(f"Cancelled {len(set(ids))} charges in {ledger.path}.", soft_wrap=True)
