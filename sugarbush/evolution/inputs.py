"""The public values that the parts of a method may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sugarbush.data.schema import Schema
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.settings import Section

if TYPE_CHECKING:
    from sugarbush.evolution.settings import FirstLength
    from sugarbush.evolution.targets import Donated

MOST_TEXTS = 5000  # the largest release if `release.texts` is null
_TEXTS = 1000  # the size of a release without `release.texts` and without a DP record count


class ReleaseSettings(Section):
    """The size of the release, and the rule that accepts it."""

    texts: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of texts of each method; null: about the DP record count, at most 5,000."""
    accept_if: dict[str, str] = Field(default_factory=dict)
    """Conditions on public figures, such as {coverage: ">= 0.8"}; else the release is refused."""

    def size(self, record_count: float | None) -> int:
        """Return the number of texts to release. The default without a count is 1,000.

        `record_count` must be the DP count, never the exact count.

        >>> ReleaseSettings().size(812.3), ReleaseSettings().size(None)
        (812, 1000)
        """
        if self.texts is not None:
            return self.texts
        if record_count is None:
            return _TEXTS
        return round(min(max(record_count, 1.0), MOST_TEXTS))


@dataclass(frozen=True, kw_only=True)
class MetadataRelease:
    """The results of stage synthesize_metadata: a DP table, DP counts of one label, or both.

    `rows` (n, d) are codes in schema order. `record_count` is the DP record count of the table.
    `cliques` are the sets of attributes with joint values in the table (`DpTable`).
    """

    rows: NDArray[np.int64] | None = None
    cliques: tuple[tuple[str, ...], ...] = ()
    record_count: float | None = None
    labels: NDArray[np.int64] | None = None
    label: str | None = None
    ledger_ids: tuple[str, ...] = ()

    @property
    def count(self) -> float | None:
        """The DP record count: `record_count`, else the sum of the label counts."""
        if self.record_count is None and self.labels is not None:
            return float(self.labels.sum())
        return self.record_count

    def counts_of(self, schema: Schema) -> dict[str, NDArray[Any]]:
        """Return the DP counts `(values,)` of every attribute that the table or the label counts
        contain. A table may lack attributes; their codes are -1."""
        counts: dict[str, NDArray[Any]] = {}
        if self.rows is not None:
            for column, (name, size) in enumerate(schema.domain.items()):
                codes = self.rows[self.rows[:, column] >= 0, column]
                if len(codes):
                    counts[name] = np.bincount(codes, minlength=size)
        if self.labels is not None and self.label is not None:
            counts.setdefault(self.label, self.labels)
        return counts


@dataclass(frozen=True, kw_only=True)
class PublicInputs:
    """The schema, the DP metadata, the donated examples and the public settings of a run.

    `label` is the attribute that votes by label use. `again` is the share of first requests for
    contradicted values. `generator` and `embedding` are the settings that change an answer or an
    embedding, for cache keys. `example_sets` is the number of example sets that the prompts of the
    generator share, or 0. `follows_requests` says whether the generator writes what a request asks
    for. `pretrained` is a folder of small public models.
    """

    schema: Schema
    metadata: MetadataRelease
    donated: Donated | None
    label: str
    length: FirstLength
    seed: int
    again: float
    release: ReleaseSettings
    privacy: PrivacySettings
    generator: Mapping[str, Any]
    example_sets: int
    follows_requests: bool
    embedding: Mapping[str, Any]
    pretrained: Path
    text_column: str

    @property
    def texts(self) -> int:
        """The number of texts in the release."""
        return self.release.size(self.metadata.count)

    @property
    def label_column(self) -> int:
        """The column of `label` in the codes."""
        return self.schema.names.index(self.label)
