"""What is spent of a dataset's budget, what a run would spend, and repairs of the ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from sugarbush.errors import LedgerError, ParamsError, UsageError
from sugarbush.pipeline.dvc import require_current_stages
from sugarbush.pipeline.foreign_releases import refuse_foreign_releases
from sugarbush.preparation.findings import corpus_findings, known_corpus
from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.entries import ACCEPTED, SEALED, CapRaise, Entry
from sugarbush.privacy.events import Event
from sugarbush.privacy.schedule import runs_within_cap
from sugarbush.privacy.spending import Spending
from sugarbush.project.check import example_is_made, schema_of_project, would_spend
from sugarbush.release.folders import ReleasedEntries, entries_of_releases
from sugarbush.release.own_charges import spending_of_release
from sugarbush.run.context import Project
from sugarbush.run.records import key_of
from sugarbush.run.usable_inputs import require_usable_project

_NOISE = {"stddev", "noise_multiplier"}  # fields of events; more noise is less risk


@dataclass(frozen=True, kw_only=True)
class Charges:
    """Equal charges of one run. `time` is that of the first charge."""

    time: str
    stage: str
    run: str
    count: int
    event: Event


@dataclass(frozen=True, kw_only=True)
class SpentBudget:
    """What the ledger of a dataset contains.

    `missing` is the number of charges of finished results that the ledger lacks. `release` is what
    the finished release of the project spent, and `shown` counts the exact figures on real texts.
    Both are unknown while charges are missing. `elsewhere` counts the charges in other ledgers of
    the dataset, which are not in `total`.
    """

    dataset: str
    path: Path
    unit: str
    delta: float
    cap: float
    total: float
    missing: int
    charges: tuple[Charges, ...]
    repaired: int
    accepted: tuple[Entry, ...]
    cancelled: tuple[Entry, ...]
    cap_raises: tuple[CapRaise, ...]
    release: Spending | None
    shown: Mapping[str, int]
    elsewhere: Mapping[Path, int]


@dataclass(frozen=True, kw_only=True)
class TotalAfterRun:
    """The largest total after the planned run, and the cap."""

    epsilon: float
    cap: float

    @property
    def is_within_cap(self) -> bool:
        return self.epsilon <= self.cap


def spent_budget(project: Project) -> SpentBudget:
    """Return what is spent on `privacy.dataset`. Raises InputError or SchemaError if the plan of
    the next run needs a schema and there is none."""
    settings = project.settings
    if settings.looks or settings.figures_share:
        schema_of_project(project)  # the plan of measurements needs it
    ledger, _ = project.ledger(), project.plan
    entries, missing = ledger.entries(), len(ledger.missing_charges())
    return SpentBudget(
        dataset=ledger.dataset,
        path=ledger.path,
        unit=ledger.unit,
        delta=ledger.delta,
        cap=ledger.cap,
        total=ledger.total(),
        missing=missing,
        charges=_in_groups(entries),
        repaired=sum(entry.repair == SEALED for entry in entries),
        accepted=tuple(entry for entry in entries if entry.repair == ACCEPTED),
        cancelled=tuple(ledger.cancelled()),
        cap_raises=tuple(ledger.cap_raises()),
        release=None
        if missing
        else spending_of_release(project.roots, project.settings.released, ledger),
        shown={} if missing else ledger.shown(),
        elsewhere={
            other: other.read_bytes().count(b'"event":')
            for other in sorted(ledger.folder.parent.glob(f"*/{ledger.dataset}.jsonl"))
            if other != ledger.path
        },
    )


def _in_groups(entries: Collection[Entry]) -> tuple[Charges, ...]:
    groups = []
    for (stage, run, event), same in groupby(entries, lambda e: (e.stage, e.run, e.event)):
        charged = list(same)
        time, count = charged[0].time, len(charged)
        groups.append(Charges(time=time, stage=stage, run=run, count=count, event=event))
    return tuple(groups)


def is_finished(project: Project) -> bool:
    """Return whether all results are finished, so that a run spends nothing."""
    return example_is_made(project) and not would_spend(project)


def total_after_run(project: Project) -> TotalAfterRun:
    """Return the total after the planned run, if it spends its whole plan. Charges nothing."""
    ledger = project.ledger(rehearse=False)
    events = [allocation.event for allocation in project.plan.allocations]
    return TotalAfterRun(epsilon=ledger.total(*events), cap=ledger.cap)


def possible_runs(project: Project) -> int | None:
    """Return how many more planned runs on changed data the cap allows, at most MOST_RUNS, or None
    if a run charges nothing."""
    events = tuple(allocation.event for allocation in project.plan.allocations)
    return runs_within_cap(project.ledger(), events) if events else None


def refusal_of_run(project: Project) -> str | None:
    """Return what else would stop a run before its first charge, or None: releases of another
    dataset, the schema, the generator, the rows, or a corpus that the ledger knows under another
    name. Nothing is charged."""
    if not example_is_made(project):
        return None
    try:
        refuse_foreign_releases(project)
        require_current_stages(project.base)
        require_usable_project(project)
        return known_corpus(project, corpus_findings(project))
    except (UsageError, LedgerError) as error:
        return str(error)


def charges_for_repair(project: Project) -> ReleasedEntries:
    """Return the charges that the project's released folders name. A charge in a file without a
    valid seal may be edited or invented. Of these, only those that the ledger lacks are returned.
    """
    ids = {entry.id for entry in project.ledger().entries()}
    found = entries_of_releases(project.roots, project.settings.privacy, key=key_of(project))
    unsealed = {i: entry for i, entry in found.unsealed.items() if i not in ids}
    return ReleasedEntries(sealed=found.sealed, unsealed=unsealed)


def repair(project: Project, found: ReleasedEntries, *, accept: Collection[str] = ()) -> int:
    """Add the charges that the ledger lacks, and return their number. Of the
    charges without a valid seal, only those with an id in `accept` are added. Raises ParamsError
    for an unknown id in `accept`."""
    require_known(accept, found.unsealed)
    ledger = project.ledger()
    added = ledger.add_missing(found.sealed.values(), sealed=True)
    if accept:
        accepted = [found.unsealed[i] for i in dict.fromkeys(accept)]
        added += ledger.add_missing(accepted, sealed=False)
    return added


def require_known(accept: Collection[str], unsealed: Collection[str]) -> None:
    """Raise ParamsError for an id that is not one of the ids of `unsealed` charges."""
    if unknown := [i for i in accept if i not in unsealed]:
        raise ParamsError(
            f"--accept {unknown[0]}: no file of data/released names such a charge without a valid "
            "seal. For the list, run: sugarbush budget --repair"
        )


def require_no_missing_charges(project: Project) -> None:
    """Raise LedgerError if the ledger lacks a charge of a finished result."""
    ledger = project.ledger()
    if missing := ledger.missing_charges():
        location = next(iter(missing.values()))
        raise LedgerError(
            f"{ledger.path}: the ledger still lacks {len(missing)} charges of results, the first "
            f"in {location}. Restore the ledger from a backup. Charges that a release.json without "
            "a valid seal describes can be accepted one by one: sugarbush budget --repair --accept "
            "ID"
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
