"""Finds what is new in a finished release, and when the next draw may come. All of it is public."""

from __future__ import annotations

from sugarbush.errors import StorageError
from sugarbush.evolution.population import load_population
from sugarbush.pipeline.draws import (
    DrawDecision,
    history_of,
    last_draw,
    next_start,
    stored_decision,
)
from sugarbush.privacy.schedule import runs_within_cap
from sugarbush.privacy.settings import WhenSpent
from sugarbush.release.folders import final_folder
from sugarbush.report.card import CARD_FILE, CardRenewal, read_card
from sugarbush.report.model import ReleaseFacts
from sugarbush.run.context import Project


def renewal_of(project: Project, facts: ReleaseFacts) -> CardRenewal | None:
    """Return what is new in the project's release, or None for a first release.

    Remembers the release, so that the next one can say what is new.
    """
    privacy, decision = project.settings.privacy, stored_decision(project)
    texts = {
        method.name: load_population(
            final_folder(project.roots, method) / "lineage.parquet", project.schema.names
        ).texts
        for method in project.settings.released
    }
    entries = project.ledger(rehearse=False).entries()
    before = history_of(project).finish(
        charges=[entry.id for entry in facts.entries],
        texts=[text for each in texts.values() for text in each],
        counted=[entry.id for entry in entries],
    )
    learned = last_draw(facts.entries)
    if learned is None or (before is None and decision.is_new):
        return None
    charged: frozenset[str] = frozenset() if before is None else before.charges
    drawn = dict.fromkeys(each.stage for each in facts.entries if each.id not in charged)
    previous = last_draw(each for each in entries if each.id in charged)
    left = _draws_left(project)
    start = next_start(learned, privacy.days_between_draws)
    return CardRenewal(
        learned=learned.isoformat(),
        reused=None if decision.is_new else decision.reason,
        previous=None if previous is None else previous.isoformat(),
        drawn_again=() if before is None else tuple(drawn),
        new_texts={} if before is None else {m: before.new_texts(t) for m, t in texts.items()},
        draws_left=left,
        next_draw=start.isoformat() if left else None,
    )


def _draws_left(project: Project) -> int | None:
    """Return how many further runs the cap allows, or None if the settings have no schedule."""
    privacy = project.settings.privacy
    events = project.plan.planned.events
    if not events or (privacy.when_spent is WhenSpent.REFUSE and not privacy.days_between_draws):
        return None
    return runs_within_cap(project.ledger(rehearse=False), events)


def states_other_draws(project: Project, decision: DrawDecision) -> bool:
    """Return whether the card in reports/public says something else about reuse than `decision`."""
    path = project.roots.published / CARD_FILE
    if not path.exists():
        return False
    try:
        renewal = read_card(path).renewal
    except StorageError:
        return False  # other checks refuse a damaged card
    return (None if renewal is None else renewal.reused) != (decision.reason or None)
