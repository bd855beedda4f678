"""Finds the registered suffix or URL scheme of a source by its name. No format is imported.

Formats are entry points of the group `sugarbush.formats`. The name of an entry point is a suffix
with its dot, such as `.csv`, or the scheme of a URL, such as `sqlite`.
"""

from __future__ import annotations

from sugarbush.registry import FORMATS, plugin_names

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
# An error lists these suffixes first, and then the formats of other suffixes.
_COMMON = (".csv", ".jsonl", ".json", ".parquet", ".arrow", ".xlsx")


def suffix_of(name: str) -> str | None:
    """Return the longest registered suffix of a file's name, also in front of `.gz` and `.zst`.

    >>> suffix_of("letters.CSV"), suffix_of("letters.csv.gz"), suffix_of("letters.docx")
    ('.csv', '.csv', None)
    """
    lower = name.lower()
    endings = ("", *COMPRESSIONS)
    return max(
        (s for s in suffixes() if lower.endswith(tuple(s + ending for ending in endings))),
        key=len,
        default=None,
    )


def scheme_of(name: str) -> str | None:
    """Return the scheme of a URL, if a format reads such URLs.

    >>> scheme_of("sqlite:///shop.db"), scheme_of("s3://bucket/a.csv")
    ('sqlite', None)
    """
    scheme, mark, _ = name.partition("://")
    return scheme if mark and scheme in plugin_names(FORMATS) else None


def formats_for(name: str) -> tuple[str, ...]:
    """Return the registered suffixes and schemes of the formats that may read a source.

    For a folder, these are all suffixes, because its files are not listed.

    >>> formats_for("letters.csv.gz"), ".csv" in formats_for("letters")
    (('.csv',), True)
    """
    key = scheme_of(name) or suffix_of(name)
    return tuple(suffixes()) if key is None else (key,)


def suffixes() -> list[str]:
    """Return the registered suffixes, the common ones first."""
    names = {name for name in plugin_names(FORMATS) if name.startswith(".")}
    return [name for name in _COMMON if name in names] + sorted(names - set(_COMMON))
