"""Writes the release card: the guarantee, the charges, the assumptions, and what is not covered.

The card contains settings, released values and ledger entries. The card never contains an exact
count of private records, a fingerprint, or a path of the user.
"""

from __future__ import annotations

import json
import math
import platform
from dataclasses import asdict
from importlib import metadata
from typing import Any

from sugarbush.privacy.entries import Entry
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import ADJACENCY
from sugarbush.report.model import ReleaseFacts
from sugarbush.report.officer import (
    VARIANT,
    data_domain,
    deployment,
    stated,
    stated_rows,
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
from sugarbush.report.templating import MARKDOWN, TEMPLATES
from sugarbush.report.uses import NOT_MEASURED, quality_fields

FORMAT = "sugarbush release card 1"
_SOFTWARE = (
    "sugarbush",
    "dp-accounting",
    "opendp",
    "sentence-transformers",
    "torch",
    "transformers",
    "openai",
    "faiss-cpu",
    "numpy",
)


def release_card(release: ReleaseFacts) -> dict[str, Any]:
    """Return the card as plain values for JSON. An infinite epsilon is the text "infinity"."""
    return {
        "format": FORMAT,
        "title": release.title,
        "created": release.created,
        "dataset": release.dataset,
        "purpose": release.purpose.value,
        "publishable": release.purpose is Purpose.RELEASE
        and is_private(release)
        and is_accepted(release),
        "heading": heading(release),
        "promise": {
            "variant": VARIANT,
            "data_domain": data_domain(release),
            "unit": release.unit.value,
            "unit_details": unit_details(release),
            "records_per_unit": release.records_per_unit,
            "adjacency": ADJACENCY,
            "epsilon": _number(release_epsilon(release)),
            "epsilon_of_this_run": _number(release.spending.of_run),
            "delta": release.delta,
            "in_short": release.spending.line(),
            "statement": statement(release),
            "in_other_words": in_other_words(release),
        },
        "budget": {
            "composition": COMPOSITION,
            "planned_epsilon": _number(release.plan.epsilon),
            "dataset_total_epsilon": _number(release.spending.total),
            "dataset_cap_epsilon": release.cap,
            "ledger_head": release.ledger_head,
            "dataset_cap_raises": [asdict(each) for each in release.cap_raises],
            "events": [_event(entry) for entry in release.entries],
            "others": other_charges(release.spending),
            "events_of_others": [
                {**_event(entry), "charged": when}
                for when, entries in (
                    ("before", release.spending.before),
                    ("after", release.spending.after),
                )
                for entry in entries
            ],
        },
        "public_figures": quality_fields(release.quality),
        "unprotected_quantities": unprotected(release),
        "deployment": deployment(release),
        "tuning": tuning(release),
        "publication": stated(release.publication),
        "assumed_public": assumed_public(release),
        "not_covered": not_covered(release),
        "remarks": remarks(release),
        "made_by": {
            "methods": list(release.methods),
            "texts": {name: dict(counts) for name, counts in release.texts.items()},
            "generator": _generator(release),
            "encoder": release.encoder,
            "metadata_engine": release.engine,
            "settings": dict(release.settings),
            "software": dict(release.software),
        },
        "schema": {
            "subject": release.schema.subject,
            "attributes": {a.name: list(a.domain) for a in release.schema.attributes},
        },
    }


def card_json(card: dict[str, Any]) -> str:
    """Write the card as JSON."""
    return json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def card_markdown(card: dict[str, Any]) -> str:
    """Write the card as Markdown."""
    template = MARKDOWN.get_template("release_card.md.jinja")
    return template.render(**card | _view(card))


def card_html(card: dict[str, Any]) -> str:
    """Write the card as a page for two printed sheets. The page needs no other file."""
    return TEMPLATES.get_template("release_card.html.jinja").render(**_view(card))


def card_files(card: dict[str, Any]) -> dict[str, str]:
    """Return the card in all its forms, by the name of the file."""
    return {
        "release_card.json": card_json(card),
        "release_card.md": card_markdown(card),
        "release_card.html": card_html(card),
    }


def _view(card: dict[str, Any]) -> dict[str, Any]:
    """Return what a template needs besides the fields of the card."""
    stated_items = stated_rows(card["publication"])
    return {
        "card": card,
        "stated": stated_items,
        "published": card.get("published"),
        "not_measured": NOT_MEASURED,
    }


def software_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that affect the guarantee or the texts."""
    versions = {"python": platform.python_version()}
    for name in _SOFTWARE:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _event(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "time": entry.time,
        "stage": entry.stage,
        "mechanism": describe(entry.event),
        "count": 1,
        **({"plan": entry.plan} if entry.plan else {}),
        **({"slack": entry.slack} if entry.slack else {}),
        **entry.event.as_dict(),
    }


def _generator(release: ReleaseFacts) -> dict[str, Any]:
    facts = release.generator
    fields = {
        "provider": facts and facts.provider,
        "fine-tuned": release.starts_from,
        "model": facts and facts.model,
        "endpoint": facts and facts.endpoint,
        "sources": facts and list(facts.sources),
    }
    return {name: value for name, value in fields.items() if value}


def _number(value: float) -> float | str:
    return "infinity" if math.isinf(value) else value
