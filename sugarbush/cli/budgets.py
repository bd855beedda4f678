"""`sugarbush budget`: what all runs have spent, and what a run would spend."""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby

from rich.console import Console
from rich.table import Table

from sugarbush.cli.checks import example_is_made
from sugarbush.cli.staleness import would_spend
from sugarbush.pipeline.project import Project
from sugarbush.privacy.events import Event
from sugarbush.privacy.ledger import Ledger

_MANY = 128  # larger counts are not computed: 128 runs are two years of weekly releases


def show_budget(project: Project, console: Console) -> None:
    """Print the ledger of `privacy.dataset`, its total, and the plan of the next run."""
    ledger, plan, settings = project.ledger(), project.plan, project.settings
    console.print(f"Ledger of '{ledger.dataset}' ({settings.privacy.purpose}): {ledger.path}")
    entries = ledger.entries()
    if entries:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for column in ("first charged (UTC)", "stage", "run", "times", "mechanism"):
            table.add_column(column, no_wrap=column != "mechanism")
        for (stage, run, event), same in groupby(entries, lambda e: (e.stage, e.run, e.event)):
            charged = list(same)
            when = charged[0].time[:16].replace("T", " ")
            table.add_row(when, stage, run[:8], str(len(charged)), described(event))
        console.print(table)
    delta = f"at delta {ledger.delta:g}, per {ledger.unit}"
    console.print(f"Spent so far: epsilon {ledger.total():.4g} of {ledger.cap:g} {delta}")
    console.print(f"A run of {', '.join(settings.methods)} plans epsilon {plan.epsilon:.4g}:")
    for part in plan.allocations:
        console.print(f"  {part.name:<16} {described(part.event)}")
    events = tuple(part.event for part in plan.allocations)
    if example_is_made(project) and not would_spend(project):
        console.print("All of it is finished: a run spends nothing.")
        return
    after = ledger.total(*events)
    verdict = "within the cap" if after <= ledger.cap else "past the cap: the run would be refused"
    console.print(f"After it the total is {after:.4g} at most, {verdict}.")
    if events:
        runs = runs_within_cap(ledger, events)
        more = f"{_MANY} or more" if runs == _MANY else str(runs)
        console.print(f"The cap has room for {more} such runs on changed data.")


def runs_within_cap(ledger: Ledger, events: tuple[Event, ...]) -> int:
    """How many runs of `events` can still be charged, `_MANY` at most."""
    reached = 1
    while reached < _MANY and ledger.total(*events * reached) <= ledger.cap:
        reached *= 2
    return bisect_right(
        range(1, reached + 1), ledger.cap, key=lambda runs: ledger.total(*events * runs)
    )


def described(event: Event) -> str:
    """A short description of a mechanism."""
    fields = event.as_dict()
    kind, count = fields.pop("kind").replace("_", " "), fields.pop("count", 1)
    settings = ", ".join(f"{name} {value:.4g}" for name, value in fields.items())
    return f"{f'{count} x ' if count != 1 else ''}{kind}, {settings}"
