"""Writes all files of a published dataset into a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sugarbush.publication.citation import citation
from sugarbush.publication.content import Publication
from sugarbush.publication.croissant import croissant
from sugarbush.publication.dataset_card import readme
from sugarbush.publication.registry_record import registry_record
from sugarbush.report.card_files import card_files
from sugarbush.report.json_fields import plain_values

FORMAT = "sugarbush dataset 1"
_METADATA = "metadata.json"


def write_dataset(publication: Publication, folder: Path) -> None:
    """Write the texts as parquet, the card, and the descriptions of the dataset.

    README.md             metadata of dataset hubs, and a page for readers
    data/                 train-*.parquet; with several methods, one folder each
    metadata.json         columns, files and their digests, the guarantee, public figures
    croissant.json        Croissant 1.0
    release_card.json     the card; also as .md, and as .html for two printed sheets
    registry.yaml         a draft for the deployment registry
    CITATION.cff          how to cite the dataset
    """
    digests: dict[str, str] = {}
    for method, table in publication.tables.items():
        path = folder / publication.file_of(method)
        path.parent.mkdir(parents=True, exist_ok=True)
        table.write(path)
        digests[publication.file_of(method)] = hashlib.sha256(path.read_bytes()).hexdigest()
    files = {
        "README.md": readme(publication),
        _METADATA: _json(_metadata(publication, digests)),
        "croissant.json": _json(croissant(publication, digests)),
        **card_files(publication.card),
        "registry.yaml": registry_record(publication),
        "CITATION.cff": citation(publication),
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def texts_in(folder: Path) -> tuple[Path, ...]:
    """Return the files with texts in a folder of `write_dataset`, and none in another folder."""
    try:
        fields = json.loads((folder / _METADATA).read_text(encoding="utf-8"))
        if fields["format"] != FORMAT:
            return ()
        return tuple(folder / str(config["file"]) for config in fields["configs"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def _metadata(publication: Publication, digests: Mapping[str, str]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "title": publication.title,
        "description": publication.description,
        "version": publication.version,
        "date": publication.date,
        "guarantee": publication.card.promise.to_json(),
        "public_figures": plain_values(publication.card.public_figures),
        "configs": {
            publication.config_of(method): {
                "method": method,
                "split": "train",
                "file": publication.file_of(method),
                "sha256": digests[publication.file_of(method)],
                "rows": table.rows,
                "columns": [asdict(column) for column in table.columns],
                "verdict": publication.verdicts[method].to_json(),
            }
            for method, table in publication.tables.items()
        },
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
