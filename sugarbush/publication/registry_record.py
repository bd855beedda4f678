"""Writes registry.yaml: a draft for the differential privacy deployments registry, at tier 3.

The registry of OpenDP and NIST has a schema of fields in three tiers
(https://registry.opendp.org). The record is made from the card, so from the ledger, and from the
settings `publication`. Somebody submits the record to the registry by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from sugarbush.privacy.accounting import rounded_up
from sugarbush.publication.content import Publication
from sugarbush.report.card import Card

_LIBRARIES = ("sugarbush", "dp-accounting", "opendp")  # they affect the guarantee
_DETAILS = {
    "One release": "The dataset has one published release so far.",
    "Many releases": "The dataset has several published releases, or may get more.",
}
_BUDGET = (
    "All releases of the dataset share one ledger and one cap on the total epsilon. The budget "
    "never resets. A run that would exceed the cap is refused before it draws noise."
)
_SOURCES = {
    "static": "The private texts stay as they are.",
    "dynamic": "New records arrive. Each run reads the records of its time, under the same ledger.",
}


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block, which people can read and edit."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def registry_record(publication: Publication) -> str:
    """Return registry.yaml."""
    record = registry_fields(publication)
    return yaml.dump(record, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def registry_fields(publication: Publication) -> dict[str, Any]:
    """Return the record as a mapping, with all fields of tier 3."""
    return {
        "url_slug": publication.slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(publication),
            "dp_variant": {
                "variant_name": publication.card.promise.variant,
                "data_domain": publication.card.promise.data_domain,
                "unprotected_quantities": _bullets(publication.card.unprotected_quantities),
            },
            "privacy_loss": _privacy_loss(publication),
            "deployment_model": _deployment_model(publication),
            "accounting": {
                "post_processing": (
                    "Everything after the mechanisms uses their noisy results and public values "
                    "only: the choice of the texts, further texts, their labels and weights."
                ),
                "composition": publication.card.budget.composition,
            },
            "implementation": _implementation(publication),
            "administrative": _administrative(publication),
        },
    }


def _basic(publication: Publication) -> dict[str, Any]:
    settings = publication.settings
    return {
        "name": publication.title,
        "data_curators": list(settings.curators),
        "intended_use": settings.intended_use,
        "data_product_type": "Synthetic data",
        "data_product_region": settings.region,
        "description": publication.description,
        "publication_date": publication.date,
        "data_product_sector": settings.sector,
    }


def _privacy_loss(publication: Publication) -> dict[str, Any]:
    promise, budget = publication.card.promise, publication.card.budget
    return {
        "privacy_unit": f"{promise.unit.capitalize()}-level",
        "privacy_unit_details": promise.unit_details,
        "privacy_parameters": {"epsilon": promise.epsilon, "delta": promise.delta},
        "privacy_parameters_details": (
            f"{promise.statement} All charges on the dataset so far have epsilon "
            f"{rounded_up(budget.dataset_total_epsilon)} together, of a cap of "
            f"{rounded_up(budget.dataset_cap_epsilon)}."
        ),
    }


def _deployment_model(publication: Publication) -> dict[str, Any]:
    deployment, settings = publication.card.deployment, publication.settings
    source = str(settings.data_source)
    published = publication.published
    return {
        "model_name": deployment.model,
        "model_name_details": "One curator holds the private texts and applies the mechanisms.",
        "actors": _bullets([*deployment.actors, f"Intended recipients: {settings.recipients}"]),
        "release_type": deployment.release_type,
        "release_type_details": (
            f"{_DETAILS[deployment.release_type]} This is release {published.number}. {_BUDGET}"
        ),
        "data_source_type": source.capitalize(),
        "data_source_type_details": _SOURCES[source],
        "access_type": deployment.access,
        "access_type_details": "Recipients get the finished texts and cannot query the data.",
    }


def _implementation(publication: Publication) -> dict[str, Any]:
    card, settings = publication.card, publication.settings
    software = ", ".join(f"{name} {version}" for name, version in _libraries(card))
    mechanisms = dict.fromkeys(f"{event.stage}: {event.mechanism}" for event in card.budget.events)
    return {
        "preprocessing_and_hyperparameter_tuning": (
            f"{card.tuning} Exploration before the run: {settings.exploration}"
        ),
        "mechanisms": _bullets(
            [
                *mechanisms,
                *card.budget.others,
                *card.remarks,
                "Timing channels are not covered. The release is not interactive.",
                f"Software: {software}.",
                f"Access to the private texts: {settings.source_access}",
                f"Retention of the private texts: {settings.source_retention}",
            ]
        ),
        "justification": _bullets(
            [
                f"Epsilon and delta: {settings.justification_of_epsilon}",
                f"Unit: {settings.justification_of_unit}",
                f"Motivated-intruder test: {settings.intruder_test}",
                f"The publication is reviewed on {settings.review_date}.",
            ]
        ),
    }


def _administrative(publication: Publication) -> dict[str, Any]:
    settings = publication.settings
    notes = [f"Contact: {settings.contact}", f"Licence: {settings.licence}"]
    if settings.notes is not None:
        notes.append(settings.notes)
    return {
        "sources": settings.url or "The dataset folder contains the release card.",
        "notes": _bullets(notes),
        "registry_authors": list(settings.curators),
    }


def _libraries(card: Card) -> list[tuple[str, str]]:
    versions = card.made_by.software
    return [(name, versions[name]) for name in _LIBRARIES if name in versions]


def _bullets(items: Iterable[str]) -> str:
    """Return a list in Markdown. A line break in an item becomes a space."""
    return "".join(f"- {' '.join(item.split())}\n" for item in items)
