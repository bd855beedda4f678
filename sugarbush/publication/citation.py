"""Writes CITATION.cff, in the Citation File Format 1.2.0."""

from __future__ import annotations

from typing import Any

import yaml

from sugarbush.publication.content import Publication


def citation(publication: Publication) -> str:
    """Return CITATION.cff. The curators are the authors."""
    settings = publication.settings
    fields: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "Please cite this dataset as below.",
        "type": "dataset",
        "title": publication.title,
        "abstract": publication.description,
        "authors": [{"name": name} for name in settings.curators],
        "version": publication.version,
        "date-released": publication.date,
        "keywords": list(publication.tags),
    }
    if publication.spdx is not None:
        fields["license"] = publication.spdx
    if settings.url is not None:
        fields["url"] = settings.url
    return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True))
