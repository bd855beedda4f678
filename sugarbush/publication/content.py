"""The content of one publication. Every value is public or released."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sugarbush.data.schema import Schema
from sugarbush.release.columns import Column, TypedTable
from sugarbush.report.card import Card, PublishedRelease
from sugarbush.report.settings import PublicationSettings
from sugarbush.report.verdict import Verdict

# Names of dataset hubs, and the SPDX identifiers that citations and Croissant use.
_SPDX = {
    "apache-2.0": "Apache-2.0",
    "cc0-1.0": "CC0-1.0",
    "cc-by-4.0": "CC-BY-4.0",
    "cc-by-sa-4.0": "CC-BY-SA-4.0",
    "cc-by-nc-4.0": "CC-BY-NC-4.0",
    "cc-by-nc-sa-4.0": "CC-BY-NC-SA-4.0",
    "cc-by-nd-4.0": "CC-BY-ND-4.0",
    "cc-by-nc-nd-4.0": "CC-BY-NC-ND-4.0",
    "cdla-permissive-2.0": "CDLA-Permissive-2.0",
    "mit": "MIT",
    "odc-by": "ODC-By-1.0",
    "odbl": "ODbL-1.0",
    "pddl": "PDDL-1.0",
}
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The card of a publication, its settings, and the typed texts of each method.

    `card` is the result of `officer.with_publication`. `tables` maps the name of each method to its
    texts. `verdicts` has the same names.
    """

    card: Card
    settings: PublicationSettings
    schema: Schema
    tables: Mapping[str, TypedTable]
    verdicts: Mapping[str, Verdict]

    @property
    def published(self) -> PublishedRelease:
        """The date and the number of the publication, and the other ones of the dataset."""
        assert self.card.published is not None
        return self.card.published

    @property
    def title(self) -> str:
        return self.card.title

    @property
    def slug(self) -> str:
        """The title in a-z, 0-9 and -, for addresses and identifiers."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "synthetic-texts"

    @property
    def date(self) -> str:
        return self.published.date

    @property
    def version(self) -> str:
        """The number of the publication as a version, such as 2.0.0."""
        return f"{self.published.number}.0.0"

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())

    @property
    def spdx(self) -> str | None:
        """The SPDX identifier of the licence, or None for a licence that is not in the list."""
        return _SPDX.get((self.settings.licence or "").lower())

    @property
    def description(self) -> str:
        texts = f"{self.rows:,} synthetic texts in place of private {self.schema.subject}"
        return f"{texts}. {self.card.promise.statement}"

    @property
    def tags(self) -> tuple[str, ...]:
        return ("synthetic", "differential-privacy", "sugarbush")

    @property
    def has_labels(self) -> bool:
        names = {column.name for table in self.tables.values() for column in table.columns}
        return bool(names & set(self.schema.names))

    def config_of(self, method: str) -> str:
        """Return the name of the configuration with the texts of a method."""
        return "default" if len(self.tables) == 1 else method

    def folder_of(self, method: str) -> str:
        """Return the folder with the texts of a method."""
        return "data" if len(self.tables) == 1 else f"data/{method}"

    def file_of(self, method: str) -> str:
        return f"{self.folder_of(method)}/train-00000-of-00001.parquet"

    def columns_of(self, method: str) -> tuple[Column, ...]:
        return self.tables[method].columns

    @property
    def size_category(self) -> str:
        """The number of texts in the words of dataset hubs, such as 1K<n<10K."""
        return next((name for limit, name in _SIZES if self.rows < limit), "n>1M")
