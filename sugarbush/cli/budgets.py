"""`sugarbush budget`: shows the spent budget, and the budget that a run would spend."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import groupby

from rich.console import Console
from rich.table import Table

from sugarbush.cli.checks import example_is_made, would_spend
from sugarbush.errors import LedgerError
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.released import entries_of_releases
from sugarbush.privacy.accounting import gaussian_mu, rounded_up
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.events import Event
from sugarbush.privacy.ledger import Ledger

# the largest number of runs that is computed; 128 weekly releases take more than two years
_MANY = 128


def show_budget(project: Project, console: Console) -> None:
    """Print the ledger of `privacy.dataset`, its total, and the plan of the next run."""
    ledger, plan, settings = project.ledger(), project.plan, project.settings
    console.print(f"Ledger of '{ledger.dataset}' ({settings.privacy.purpose}): {ledger.path}")
    if missing := len(ledger.missing_charges()):
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
            table.add_row(when, stage, run[:8], str(len(charged)), described(event))
        console.print(table)
    delta = f"at delta {ledger.delta:g}, per {ledger.unit}"
    console.print(f"Spent so far: epsilon {rounded_up(ledger.total())} of {ledger.cap:g} {delta}")
    if entries:
        adaptive = rounded_up(ledger.adaptive_total())
        console.print(f"If earlier results decided the plans of later runs: epsilon {adaptive}")
    for other in sorted(ledger.folder.parent.glob(f"*/{ledger.dataset}.jsonl")):
        if other != ledger.path:
            count = other.read_bytes().count(b"\n")
            console.print(f"Not in this total: {count} charges in {other}", soft_wrap=True)
    console.print(
        f"A run of {', '.join(settings.methods)} plans epsilon {rounded_up(plan.epsilon)}:"
    )
    for part in plan.allocations:
        console.print(f"  {part.name:<16} {described(part.event)}")
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


def repair(project: Project, console: Console) -> None:
    """Add the charges in the project's released folders that the ledger lacks. Raises LedgerError
    if the released folders do not describe the charges of a finished result. Only a backup of the
    ledger helps then."""
    ledger = project.ledger()
    added = ledger.add_missing(entries_of_releases(project.roots, project.settings.privacy))
    console.print(f"Added {added} charges to {ledger.path}.")
    if missing := ledger.missing_charges():
        raise LedgerError(
            f"{ledger.path}: the ledger still lacks {len(missing)} charges that no folder of "
            f"data/released describes. {next(iter(missing.values()))} names the first one. "
            "Restore the ledger from a backup."
        )


def runs_within_cap(ledger: Ledger, events: tuple[Event, ...]) -> int:
    """Return how many more runs with `events` the cap allows, at most `_MANY`. The search starts at
    the estimate of Gaussian DP, because computing a total can take seconds."""

    def fits(runs: int) -> bool:
        return ledger.total(*events * runs) <= ledger.cap

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


def described(event: Event) -> str:
    """Describe a mechanism in a few words."""
    fields = event.as_dict()
    kind, count = fields.pop("kind").replace("_", " "), fields.pop("count", 1)
    settings = ", ".join(f"{name} {value:.4g}" for name, value in fields.items())
    return f"{f'{count} x ' if count != 1 else ''}{kind}, {settings}"
