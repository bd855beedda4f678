"""Computes the values of the release card: guarantee, charges, assumptions, what is not covered.

The card contains settings, released values and ledger entries. The card never contains an exact
count of private records, a fingerprint, or a path of the user.
"""

from __future__ import annotations

from typing import Any

from sugarbush.privacy.entries import Entry
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import ADJACENCY
from sugarbush.report.card import (
    FORMAT,
    Card,
    CardBudget,
    CardEvent,
    CardSchema,
    MadeBy,
    Promise,
    TextCounts,
)
from sugarbush.report.model import ReleaseFacts
from sugarbush.report.officer import (
    VARIANT,
    data_domain,
    deployment,
    stated,
    tuning,
    unit_details,
    unprotected,
)
from sugarbush.report.statements import (
    COMPOSITION,
    assumed_public,
    describe,
    heading,
    in_other_words,
    is_accepted,
    is_private,
    not_covered,
    other_charges,
    release_epsilon,
    remarks,
    statement,
)
from sugarbush.report.uses import card_figures


def release_card(release: ReleaseFacts) -> Card:
    """Return the card of a release. Epsilon is infinite if a mechanism is not DP."""
    return Card(
        format=FORMAT,
        title=release.title,
        created=release.created,
        dataset=release.dataset,
        purpose=release.purpose,
        publishable=release.purpose is Purpose.RELEASE
        and is_private(release)
        and is_accepted(release),
        heading=heading(release),
        promise=_promise(release),
        budget=_budget(release),
        public_figures=card_figures(release.quality),
        unprotected_quantities=unprotected(release),
        deployment=deployment(release),
        tuning=tuning(release),
        publication=stated(release.publication),
        assumed_public=assumed_public(release),
        not_covered=not_covered(release),
        remarks=remarks(release),
        made_by=_made_by(release),
        schema=CardSchema(
            subject=release.schema.subject,
            attributes={a.name: a.domain for a in release.schema.attributes},
        ),
        renewal=release.renewal,
    )


def _promise(release: ReleaseFacts) -> Promise:
    return Promise(
        variant=VARIANT,
        data_domain=data_domain(release),
        unit=release.unit,
        unit_details=unit_details(release),
        records_per_unit=release.records_per_unit,
        adjacency=ADJACENCY,
        epsilon=release_epsilon(release),
        epsilon_of_this_run=release.spending.of_run,
        delta=release.delta,
        in_short=release.spending.line(),
        statement=statement(release),
        in_other_words=in_other_words(release),
    )


def _budget(release: ReleaseFacts) -> CardBudget:
    spending = release.spending
    return CardBudget(
        composition=COMPOSITION,
        planned_epsilon=release.plan.epsilon,
        dataset_total_epsilon=spending.total,
        dataset_cap_epsilon=release.cap,
        ledger_head=release.ledger_head,
        dataset_cap_raises=release.cap_raises,
        events=tuple(_event(entry) for entry in release.entries),
        others=other_charges(spending),
        events_of_others=(
            *(_event(entry, charged="before") for entry in spending.before),
            *(_event(entry, charged="after") for entry in spending.after),
        ),
    )


def _event(entry: Entry, *, charged: str | None = None) -> CardEvent:
    return CardEvent(
        id=entry.id,
        time=entry.time,
        stage=entry.stage,
        mechanism=describe(entry.event),
        event=entry.event,
        plan=entry.plan,
        slack=entry.slack,
        charged=charged,
    )


def _made_by(release: ReleaseFacts) -> MadeBy:
    return MadeBy(
        methods=release.methods,
        texts={name: TextCounts(**counts) for name, counts in release.texts.items()},
        generator=_generator(release),
        encoder=release.encoder,
        metadata_engine=release.engine,
        settings=dict(release.settings),
        software=dict(release.software),
    )


def _generator(release: ReleaseFacts) -> dict[str, Any]:
    facts = release.generator
    fields = {
        "provider": facts and facts.provider,
        "fine-tuned": release.starts_from,
        "model": facts and facts.model,
        "endpoint": facts and facts.endpoint,
        "sources": facts and facts.sources,
    }
    return {name: value for name, value in fields.items() if value}
