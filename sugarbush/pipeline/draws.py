"""Decides whether a run draws from the records as they are now, or reuses the last release.

With `privacy.when_spent: reuse`, a run that the cap does not allow reuses the last release. With
`privacy.days_between_draws`, a run soon after the last draw does so, too. Such a run keeps the
records that the last release was drawn from: it does not read the data file, so nothing shows
whether the file changed. It charges nothing (`refuse_charge_beside_reuse`), and what it writes is
post-processing of released values.

The decision depends on the settings, the ledger, the last release and the date. A run that was
interrupted is continued on the records with which it started, because its budget is spent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

from sugarbush.errors import BudgetExceededError, ParamsError
from sugarbush.pipeline.graph import STAGES
from sugarbush.privacy.entries import Entry
from sugarbush.privacy.events import PlannedEvents
from sugarbush.privacy.key import random_id
from sugarbush.privacy.settings import WhenSpent
from sugarbush.release.history import ReleaseHistory
from sugarbush.run.choices import wants_new_draw
from sugarbush.run.context import Project
from sugarbush.run.records import snapshots_of

_SPENDING = {stage.name for stage in STAGES if stage.spends}
_KEY = "draws"  # of data/stamps/settings.json
FORCE = "or draw and charge now: sugarbush run --force"


class Draws(StrEnum):
    """What a run draws: from the records as they are now, the rest of an interrupted run, or
    nothing."""

    NEW = "new"
    REST = "rest"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class DrawDecision:
    """What a run draws, and why it does not draw anew. The reason is public."""

    draws: Draws
    reason: str = ""

    @property
    def is_new(self) -> bool:
        return self.draws is Draws.NEW

    def to_json(self) -> dict[str, Any]:
        """Return the entry in settings.json. A new draw has none."""
        return {} if self.is_new else {_KEY: {"draws": self.draws.value, "reason": self.reason}}


_NEW = DrawDecision(draws=Draws.NEW)


def decide_draws(project: Project) -> DrawDecision:
    """Decide what a run draws that starts now. Charges nothing, and reads no private record.

    Raises LedgerError if the ledger would refuse every charge.
    """
    privacy = project.settings.privacy
    if privacy.when_spent is WhenSpent.REFUSE and not privacy.days_between_draws:
        return _NEW
    if wants_new_draw() or snapshots_of(project).now("corpus") is None:
        return _NEW
    if (reason := _why_no_new_draw(project)) is None:
        return _NEW
    charges = _charges_of_stages(project.ledger(rehearse=False).entries())
    if not charges:  # no run has started to spend
        return _NEW
    is_finished = history_of(project).counts(each.id for each in charges)
    return DrawDecision(draws=Draws.NONE if is_finished else Draws.REST, reason=reason)


def _why_no_new_draw(project: Project) -> str | None:
    """Return why the settings want no new draw now, or None."""
    privacy, ledger = project.settings.privacy, project.ledger(rehearse=False)
    days, last = privacy.days_between_draws, last_draw(ledger.entries())
    if days and last is not None and (start := next_start(last, days)) > _today():
        return f"privacy.days_between_draws allows a new draw on {start}"
    if privacy.when_spent is WhenSpent.REUSE:
        # A new run is a new group of charges, so its plan has a name that no group has.
        plan = PlannedEvents(id=random_id(), events=project.plan.planned.events)
        try:
            ledger.check(plan.events, plan=plan)
        except BudgetExceededError:
            return "the cap allows no new draw"
    return None


def history_of(project: Project) -> ReleaseHistory:
    """Return the last two releases of the project's dataset."""
    return ReleaseHistory(project.state, f"{project.settings.privacy.purpose}-{project.dataset}")


def last_draw(entries: Iterable[Entry]) -> date | None:
    """Return the date of the last charge of a stage, or None. A profile is no draw of a run."""
    times = [each.time for each in _charges_of_stages(entries)]
    return date.fromisoformat(max(times)[:10]) if times else None


def _charges_of_stages(entries: Iterable[Entry]) -> list[Entry]:
    return [each for each in entries if each.stage.partition("@")[0] in _SPENDING]


def next_start(last: date, days: int) -> date:
    """Return the first date of a new draw, if the last one was on the date `last`."""
    return last + timedelta(days=days)


def _today() -> date:
    return datetime.now(UTC).date()


def stored_decision(project: Project) -> DrawDecision:
    """Return what stage fingerprint decided for this run."""
    path = project.roots.stamps / "settings.json"
    stored = json.loads(path.read_text(encoding="utf-8")).get(_KEY) if path.exists() else None
    return (
        _NEW
        if stored is None
        else DrawDecision(draws=Draws(stored["draws"]), reason=stored["reason"])
    )


def refuse_charge_beside_reuse(project: Project) -> None:
    """Raise BudgetExceededError if this run reuses the last release. Every charge of a stage calls
    this function first, so a run that reuses a release charges nothing."""
    decision = stored_decision(project)
    if decision.draws is Draws.NONE and not wants_new_draw():
        raise BudgetExceededError(
            f"this run reuses the last release, because {decision.reason}. But a changed setting, "
            "schema or other public file, or a new version of Sugarbush, needs a new draw. Set it "
            f"back, {FORCE}"
        )


def refuse_other_preparation() -> None:
    """Raise ParamsError, because the kept records fit neither the settings nor the public files."""
    raise ParamsError(
        "this run keeps the records of the last run, but they are missing, or settings or public "
        f"files changed since they were prepared. Set those back, {FORCE}"
    )
