"""`sugarbush budget`: shows the spent budget, and the budget that a run would spend."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from itertools import groupby

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sugarbush.errors import LedgerError, ParamsError, UsageError, printable
from sugarbush.pipeline.dvc import require_current_stages
from sugarbush.pipeline.foreign_releases import refuse_foreign_releases
from sugarbush.preparation.findings import corpus_findings, known_corpus
from sugarbush.privacy.accounting import epsilon, gaussian_mu, rounded_down, rounded_up
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.entries import ACCEPTED, SEALED, Entry
from sugarbush.privacy.events import Event
from sugarbush.privacy.ledger import Ledger
from sugarbush.project.check import example_is_made, schema_of_project, would_spend
from sugarbush.release.folders import entries_of_releases
from sugarbush.release.own_charges import spending_of_release
from sugarbush.run.context import Project
from sugarbush.run.ledgers import planned_line
from sugarbush.run.records import key_of
from sugarbush.run.usable_inputs import require_usable_project

# the largest number of runs that is computed; 128 weekly releases take more than two years
_MANY = 128
_NOISE = {"stddev", "noise_multiplier"}  # fields of events; more noise is less risk


def show_budget(project: Project, console: Console) -> None:
    """Print the ledger of `privacy.dataset`, its total, and the plan of the next run."""
    settings = project.settings
    if settings.looks or settings.figures_share:
        schema_of_project(project)  # the plan of measurements needs it
    ledger, plan = project.ledger(), project.plan
    console.print(f"Ledger of '{ledger.dataset}' ({settings.privacy.purpose}): {ledger.path}")
    missing = len(ledger.missing_charges())
    if missing:
        console.print(
            f"[bold red]The ledger lacks {missing} charges of finished results:[/] a run would be "
            "refused. Set SUGARBUSH_STATE to the state folder of these results, restore the ledger "
            "from a backup, or run sugarbush budget --repair."
        )
    entries = ledger.entries()
    if entries:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for column in ("first charged (UTC)", "stage", "run", "times", "mechanism"):
            table.add_column(column, no_wrap=column != "mechanism")
        for (stage, run, event), same in groupby(entries, lambda e: (e.stage, e.run, e.event)):
            charged = list(same)
            when = charged[0].time[:10]
            table.add_row(when, stage, run[:8], str(len(charged)), described_event(event))
        console.print(table)
    _print_repairs(ledger, console)
    delta = f"at delta {rounded_up(ledger.delta)}, per {ledger.unit}"
    cap = rounded_up(ledger.cap)
    console.print(f"Spent so far: epsilon {rounded_up(ledger.total())} of {cap} {delta}")
    if not missing:
        _print_release(project, ledger, console)
    for raised in ledger.cap_raises():
        console.print(
            f"The cap was raised on {raised.time} from {rounded_up(raised.raised_from)} to "
            f"{rounded_up(raised.raised_to)}."
        )
    for other in sorted(ledger.folder.parent.glob(f"*/{ledger.dataset}.jsonl")):
        if other != ledger.path:
            count = other.read_bytes().count(b'"event":')
            console.print(f"Not in this total: {count} charges in {other}", soft_wrap=True)
    names = ", ".join(settings.methods.by_name)
    console.print(f"A run of {names} plans {planned_line(project)}:", soft_wrap=True)
    for part in plan.allocations:
        console.print(f"  {part.name:<16} {described_event(part.event)}")
    events = tuple(part.event for part in plan.allocations)
    if example_is_made(project) and not would_spend(project):
        console.print("All results are finished, so a run spends nothing.")
        return
    after = ledger.total(*events)
    verdict = "within the cap" if after <= ledger.cap else "past the cap: the run would be refused"
    console.print(f"After it the total is {rounded_up(after)} at most, {verdict}.")
    if events:
        runs = runs_within_cap(ledger, events)
        more = f"{_MANY} or more" if runs == _MANY else str(runs)
        console.print(f"The cap has room for {more} such runs on changed data.")
    _print_refusal(project, console)


def _print_release(project: Project, ledger: Ledger, console: Console) -> None:
    """Print what the finished release spent, and which exact figures were shown."""
    if (
        spending := spending_of_release(project.roots, project.settings.released, ledger)
    ) is not None:
        line = f"The finished release of this project: {spending.line()}."
        console.print(line, highlight=False, soft_wrap=True)
    for what, count in ledger.shown().items():
        console.print(f"Exact figures on real texts were shown: {what} ({count}).")


def _print_refusal(project: Project, console: Console) -> None:
    """Print what else would stop a run before its first charge: releases of another dataset, the
    schema, the generator, the rows, or a corpus that the ledger knows under another name. Nothing
    is charged."""
    if not example_is_made(project):
        return
    try:
        refuse_foreign_releases(project)
        require_current_stages(project.base)
        require_usable_project(project)
        refused = known_corpus(project, corpus_findings(project))
    except (UsageError, LedgerError) as error:
        refused = str(error)
    if refused is not None:
        console.print(f"A run would be refused: {printable(refused)}", markup=False, soft_wrap=True)


def repair(project: Project, console: Console, *, accept: Collection[str] = ()) -> None:
    """Add the charges in the project's released folders that the ledger lacks.

    A charge in a file without a valid seal may be edited or invented. So such a charge is added
    only if `accept` contains its id, or if the user says yes on the terminal. Raises ParamsError
    for an unknown id in `accept`. Raises LedgerError if the ledger then still lacks a charge of a
    finished result.
    """
    ledger = project.ledger()
    ids = {entry.id for entry in ledger.entries()}
    releases = entries_of_releases(project.roots, project.settings.privacy, key=key_of(project))
    unsealed = {i: entry for i, entry in releases.unsealed.items() if i not in ids}
    if unknown := [i for i in accept if i not in unsealed]:
        raise ParamsError(
            f"--accept {unknown[0]}: no file of data/released names such a charge without a valid "
            "seal. For the list, run: sugarbush budget --repair"
        )
    added = ledger.add_missing(releases.sealed.values(), sealed=True)
    if unsealed:
        _print_unsealed(unsealed.values(), ledger, console)
        chosen = [unsealed[i] for i in dict.fromkeys(accept)] or _chosen(unsealed.values())
        added += ledger.add_missing(chosen, sealed=False)
    console.print(f"Added {added} charges to {ledger.path}.", soft_wrap=True)
    if missing := ledger.missing_charges():
        location = next(iter(missing.values()))
        raise LedgerError(
            f"{ledger.path}: the ledger still lacks {len(missing)} charges of results, the first "
            f"in {location}. Restore the ledger from a backup. Charges that a release.json without "
            "a valid seal describes can be accepted one by one: sugarbush budget --repair --accept "
            "ID"
        )


def _print_unsealed(entries: Iterable[Entry], ledger: Ledger, console: Console) -> None:
    console.print(
        "These charges are in files of data/released without a valid seal. Somebody may have "
        "edited or invented them, or the files come from another key. "
        "Compare them with the release cards:"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("id", "date", "stage", "mechanism", "epsilon"):
        table.add_column(column, no_wrap=column != "mechanism")
    for entry in entries:
        alone = epsilon([entry.event], delta=ledger.delta)
        texts = (entry.id, entry.time, entry.stage, described_event(entry.event), rounded_up(alone))
        table.add_row(*map(Text, map(printable, texts)))
    console.print(table)


def _chosen(entries: Iterable[Entry]) -> list[Entry]:
    """Ask for each charge whether to add it. Without a terminal, no charge is chosen."""
    if not sys.stdin.isatty():
        return []
    return [entry for entry in entries if typer.confirm(f"Add {printable(entry.id)}?")]


def undo_repair(project: Project, ids: Collection[str], console: Console) -> None:
    """Cancel charges that a repair added without a valid seal. Raises LedgerError for any other
    charge."""
    ledger = project.ledger()
    ledger.cancel_accepted(ids)
    console.print(f"Cancelled {len(set(ids))} charges in {ledger.path}.", soft_wrap=True)


def _print_repairs(ledger: Ledger, console: Console) -> None:
    """Print what repairs added to the ledger, and what was cancelled."""
    entries = ledger.entries()
    if sealed := sum(entry.repair == SEALED for entry in entries):
        console.print(f"A repair added {sealed} of these charges from sealed releases.")
    for entry in entries:
        if entry.repair == ACCEPTED:
            console.print(
                f"Accepted without a valid seal: {_named(entry)}. To cancel it: "
                f"sugarbush budget --undo-repair {printable(entry.id)}",
                markup=False,
                soft_wrap=True,
            )
    for entry in ledger.cancelled():
        console.print(f"Accepted and cancelled: {_named(entry)}", markup=False, soft_wrap=True)


def _named(entry: Entry) -> str:
    return printable(f"{entry.id}, stage {entry.stage}, {described_event(entry.event)}")


def runs_within_cap(ledger: Ledger, events: tuple[Event, ...]) -> int:
    """Return how many more runs with `events` the cap allows, at most `_MANY`. The search starts at
    the estimate of Gaussian DP, because computing a total can take seconds."""

    cap = ledger.cap

    def fits(runs: int) -> bool:
        return ledger.total(*events, runs=runs) <= cap

    most = _expected_runs(ledger, events)
    beyond, step = most + 1, 1
    while most and not fits(most):
        most, beyond, step = max(0, most - step), most, 2 * step
    while beyond <= _MANY and fits(beyond):
        most, beyond, step = beyond, min(beyond + step, _MANY + 1), 2 * step
    return most + bisect_left(range(most + 1, beyond), True, key=lambda runs: not fits(runs))


def _expected_runs(ledger: Ledger, events: tuple[Event, ...]) -> int:
    """Estimate by Gaussian DP how many runs the cap allows, or 0 without a bound."""
    if math.isinf(ledger.cap):
        return _MANY
    spent = [entry.event for entry in ledger.entries()]
    return bisect_right(
        range(1, _MANY + 1),
        mu_of(epsilon=ledger.cap, delta=ledger.delta),
        key=lambda runs: gaussian_mu([*spent, *events * runs]),
    )


def described_event(event: Event) -> str:
    """Describe a mechanism in a few words. Noise is rounded down, and all other numbers up."""
    fields = event.as_dict()
    kind, count = fields.pop("kind").replace("_", " "), fields.pop("count", 1)
    settings = ", ".join(
        f"{name} {rounded_down(value) if name in _NOISE else rounded_up(value)}"
        for name, value in fields.items()
    )
    return f"{f'{count} x ' if count != 1 else ''}{kind}, {settings}"
