"""Writes the items of the card that a privacy officer signs: deployment, tuning, publication.

The items follow NIST SP 800-226 and the deployment registry of OpenDP and NIST. Each item is
derived from the release's facts, or comes from the settings `publication`. An item that nobody
stated is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sugarbush.privacy.unit import Unit
from sugarbush.report.card import Card, Deployment, PublishedRelease
from sugarbush.report.model import ReleaseFacts
from sugarbush.report.settings import PublicationSettings
from sugarbush.report.statements import exact_figures

VARIANT = "Approximate DP"
NOT_STATED = "not stated"
ONE, MANY = "One release", "Many releases"
_LABELS = {
    "curators": "curator",
    "contact": "contact",
    "intended_use": "intended use",
    "recipients": "recipients",
    "region": "region",
    "sector": "sector",
    "licence": "licence",
    "languages": "languages",
    "data_source": "data source",
    "source_access": "access to the private texts",
    "source_retention": "retention of the private texts",
    "exploration": "exploration before the run",
    "justification_of_epsilon": "why this epsilon and delta",
    "justification_of_unit": "why this unit",
    "intruder_test": "motivated-intruder test",
    "review_date": "review date",
    "url": "address",
    "notes": "notes",
}


def data_domain(release: ReleaseFacts) -> str:
    """Describe the data sets that the guarantee is about."""
    names = ", ".join(release.schema.names)
    whole = f"Every collection of any number of records. A record is a text with values of {names}"
    if release.unit is Unit.USER:
        return f"{whole}, and the name of its user."
    return f"{whole}."


def unit_details(release: ReleaseFacts) -> str:
    """Say precisely which data sets are adjacent."""
    form = release.schema.text
    if form is not None and form.history is not None:
        return (
            "Two data sets are adjacent if one of them is the other with all records of one user "
            f"added. The earliest {form.history.most} records of each user, at most, are one "
            "history, which is used as one record."
        )
    if release.unit is Unit.USER:
        return (
            "Two data sets are adjacent if one of them is the other with all records of one user "
            f"added. At most {release.records_per_unit} records of each user are used."
        )
    return "Two data sets are adjacent if one of them is the other with one record added."


def unprotected(release: ReleaseFacts) -> tuple[str, ...]:
    """Return what the release shows and the guarantee does not protect.

    No statistic of the records is released without noise.
    """
    items = ["What people wrote into the schema and the settings, with the name of the dataset."]
    if release.donated:
        items.append(
            f"The {release.donated} donated examples: the texts may repeat them word for word."
        )
    if release.shown:
        items.append(
            "A choice among runs by exact figures on real texts, which were shown: "
            f"{', '.join(release.shown)}."
        )
    return tuple(items)


def deployment(release: ReleaseFacts) -> Deployment:
    """Return the deployment model, its actors and their trust."""
    return Deployment(
        model="Central", release_type=ONE, access="Non-interactive", actors=_actors(release)
    )


def _actors(release: ReleaseFacts) -> tuple[str, ...]:
    actors = [
        "Curator and operator: trusted. They hold the private texts, the ledger and its key, and "
        "see exact counts and errors on their terminal.",
    ]
    if (generator := release.generator) is not None:
        where = f" at {generator.endpoint}" if generator.endpoint else " on the operator's machine"
        actors.append(
            f"Generator ({generator.provider}{where}): not trusted with private texts. It receives "
            "released and public text only."
        )
    if release.labels_endpoint is not None:
        actors.append(
            f"Endpoint at {release.labels_endpoint}: trusted. It receives every private text."
        )
    if release.other_packages:
        actors.append(
            f"Authors of {', '.join(release.other_packages)}: trusted. Their code reads the "
            "private texts."
        )
    actors.append(
        "Recipients and everybody who gets a copy: not trusted. They may know every other record, "
        "have any computing power and combine all releases."
    )
    return tuple(actors)


def tuning(release: ReleaseFacts) -> str:
    """Say whether tuning, and choices among runs, are part of the stated epsilon."""
    found = [
        "The stated epsilon counts all charges on the dataset until this card was written, also of "
        "runs that were not released. So it covers a choice among runs by released results.",
        f"Settings must not be tuned on the private texts. {exact_figures(release)} A choice by "
        "such figures is not counted.",
    ]
    if (quality := release.quality) is not None and quality.rules:
        found.append(f"A rule on public figures decides: {' and '.join(quality.rules)}.")
    return " ".join(found)


def stated(publication: PublicationSettings) -> dict[str, str | tuple[str, ...] | None]:
    """Return the values of the settings `publication` by name. None means: not stated."""
    values = publication.model_dump(mode="json")
    lists = {name: tuple(each) for name, each in values.items() if isinstance(each, list)}
    return {name: (values | lists)[name] or None for name in _LABELS}


def stated_rows(items: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return a label and a value for each stated item, and for each item that is missing."""
    optional = {"url", "notes"}
    return [
        (label, NOT_STATED if items[name] is None else items[name])
        for name, label in _LABELS.items()
        if items[name] is not None or name not in optional
    ]


def with_publication(
    card: Card,
    publication: PublicationSettings,
    *,
    number: int,
    date: str,
    others: Sequence[str],
) -> Card:
    """Return the card of a publication.

    `number` counts the published releases of the dataset, and `others` contains the dates of the
    other ones. For an observer who has all of them, the epsilon is that of all charges.
    """
    kind = MANY if others or publication.data_source == "dynamic" else ONE
    return replace(
        card,
        deployment=replace(card.deployment, release_type=kind),
        publication=stated(publication),
        published=PublishedRelease(
            date=date,
            number=number,
            others=tuple(others),
            epsilon_of_all=card.budget.dataset_total_epsilon,
        ),
    )
