"""Writes croissant.json: the files and columns in the format Croissant 1.0 (JSON-LD)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sugarbush.publication.content import Publication
from sugarbush.release.columns import Column

_TYPES = {
    "int64": "sc:Integer",
    "float64": "sc:Float",
    "string": "sc:Text",
    "bool": "sc:Boolean",
    "date32": "sc:Date",
    "timestamp[ms]": "sc:DateTime",
    "timestamp[ms, tz=UTC]": "sc:DateTime",
}
# The context that Croissant 1.0 prescribes.
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def croissant(publication: Publication, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the description as values for JSON.

    `digests` maps the path of each parquet file to its SHA-256.
    """
    settings = publication.settings
    licence = publication.spdx
    authors = ", ".join(settings.curators)
    fields: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "name": publication.slug,
        "alternateName": publication.title,
        "description": publication.description,
        "license": f"https://spdx.org/licenses/{licence}" if licence else settings.licence,
        "creator": [{"@type": "sc:Organization", "name": name} for name in settings.curators],
        "datePublished": publication.date,
        "version": publication.version,
        "inLanguage": list(settings.languages),
        "keywords": list(publication.tags),
        "isLiveDataset": False,
        "citeAs": f"{authors}: {publication.title}, version {publication.version}, "
        f"{publication.date}",
        "rai:dataCollection": "Synthetic texts: a program wrote every text.",
        "rai:dataUseCases": settings.intended_use,
        "rai:personalSensitiveInformation": publication.card.promise.statement,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": path,
                "name": path,
                "contentUrl": path,
                "encodingFormat": "application/x-parquet",
                "sha256": digest,
            }
            for path, digest in digests.items()
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": publication.config_of(method),
                "name": publication.config_of(method),
                "field": list(_fields(publication, method)),
            }
            for method in publication.tables
        ],
    }
    if settings.url is not None:
        fields["url"] = settings.url
    return fields


def _fields(publication: Publication, method: str) -> Iterator[dict[str, Any]]:
    file, config = publication.file_of(method), publication.config_of(method)
    for column in publication.columns_of(method):
        source = {"fileObject": {"@id": file}, "extract": {"column": column.name}}
        described = {"description": _described(column)}
        yield _field(column, f"{config}/{column.name}", source, "") | described


def _field(column: Column, name: str, source: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the field of a column, with the fields inside. `path` is a JSON path in the column."""
    field: dict[str, Any] = {"@type": "cr:Field", "@id": name, "name": column.name}
    inner = column
    if column.type == "list":
        field["repeated"] = True
        inner = column.children[0]
    if inner.type == "struct":
        return field | {
            "subField": [
                _field(c, f"{name}/{c.name}", source, f"{path}.{c.name}".lstrip("."))
                for c in inner.children
            ]
        }
    kind = _TYPES.get(inner.type, "sc:Text")
    place = {"transform": {"jsonPath": path}} if path else {}
    return field | {"dataType": kind, "source": {**source, **place}}


def _described(column: Column) -> str:
    listed = f" (one of: {', '.join(column.values)})" if column.values else ""
    return f"{column.description}{listed}"
