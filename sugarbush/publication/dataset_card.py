"""Writes README.md: metadata for dataset hubs, and a page for readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from sugarbush.data.mix import mix_sentence
from sugarbush.privacy.accounting import rounded_up
from sugarbush.publication.content import Publication
from sugarbush.report.templating import MARKDOWN
from sugarbush.report.uses import NOT_MEASURED


def readme(publication: Publication) -> str:
    """Return README.md with the YAML block that dataset hubs and `datasets` read."""
    block = yaml.safe_dump(hub_metadata(publication), sort_keys=False, allow_unicode=True)
    template = MARKDOWN.get_template("dataset_card.md.jinja")
    return f"---\n{block}---\n\n" + template.render(
        publication=publication,
        card=publication.card,
        settings=publication.settings,
        limits=list(_limits(publication)),
        not_measured=NOT_MEASURED,
    )


def hub_metadata(publication: Publication) -> dict[str, Any]:
    """Return the YAML block as a mapping."""
    tasks = ["text-generation"]
    if publication.has_labels:
        tasks.append("text-classification")
    licence = {"license": str(publication.settings.licence).lower()}
    if publication.spdx is None:
        licence = {"license": "other", "license_name": str(publication.settings.licence)}
    methods = list(publication.tables)
    return {
        **licence,
        "language": list(publication.settings.languages),
        "pretty_name": publication.title,
        "task_categories": tasks,
        "size_categories": [publication.size_category],
        "annotations_creators": ["machine-generated"],
        "language_creators": ["machine-generated"],
        "tags": list(publication.tags),
        "configs": [
            {
                "config_name": publication.config_of(method),
                "data_files": [
                    {"split": "train", "path": f"{publication.folder_of(method)}/train-*.parquet"}
                ],
                **({"default": True} if method == methods[0] else {}),
            }
            for method in methods
        ],
        "dataset_info": [
            {
                "config_name": publication.config_of(method),
                "features": [
                    {"name": column.name, **column.feature()}
                    for column in publication.columns_of(method)
                ],
            }
            for method in methods
        ],
    }


def _limits(publication: Publication) -> Iterator[str]:
    """Yield what must not be done with the texts, and what the guarantee does not cover."""
    card = publication.card
    chosen = mix_sentence(card.made_by.settings.get("mix", {}))
    shares = (
        f"are chosen. {chosen}"
        if chosen
        else "are noisy estimates. For shares, use the column weight."
    )
    yield f"Do not count with it: the number of texts is a setting, and shares of values {shares}"
    yield "Do not take a text for the words of a person: a program wrote every text."
    yield from (f"Not protected: {item}" for item in card.unprotected_quantities)
    total = rounded_up(publication.published.epsilon_of_all)
    yield (
        f"Other releases about the same people add up with this one. All published releases of "
        f"this dataset together have epsilon {total}."
    )
