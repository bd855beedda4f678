"""The public values that the parts of a method may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from sugarbush.data.cells import text_of
from sugarbush.data.mix import Mix, mix_of
from sugarbush.data.schema import Schema
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.settings import NotNegative, Section

if TYPE_CHECKING:
    from sugarbush.evolution.settings import FirstLength
    from sugarbush.evolution.targets import Donated

MOST_TEXTS = 5000  # the largest release if `release.texts` is null
_TEXTS = 1000  # the size of a release without `release.texts` and without a DP record count


class ReleaseSettings(Section):
    """The size of the release, its mix of values, and the rule that accepts it."""

    texts: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of texts of each method; null: about the DP record count, at most 5,000."""
    accept_if: dict[str, str] = Field(default_factory=dict)
    """Conditions on public figures, such as {coverage: ">= 0.8"}; else the release is refused."""
    mix: dict[str, dict[str, NotNegative]] = Field(default_factory=dict)
    """Chosen shares of values, such as {product: {app: 0.3}}; the rest follows the DP table."""

    @field_validator("mix", mode="before")
    @classmethod
    def _values_as_texts(cls, mix: Any) -> Any:
        """YAML reads the value 2026 as a number."""
        if not isinstance(mix, dict):
            return mix
        return {
            name: {str(text_of(value)): share for value, share in shares.items()}
            if isinstance(shares, dict)
            else shares
            for name, shares in mix.items()
        }

    @field_validator("mix")
    @classmethod
    def _has_shares(cls, mix: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        for name, shares in mix.items():
            if not shares:
                raise ValueError(f"{name} has no shares, such as {{editor: 0.5}}")
        return mix

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

    def mix_of(self, release: ReleaseSettings, schema: Schema) -> Mix | None:
        """Return the chosen mix with its DP shares, or None without `release.mix`."""
        names = tuple(release.mix)
        if not names:
            return None
        columns = [schema.names.index(name) for name in names]
        shape = [schema.domain[name] for name in names]
        if self.rows is None:
            assert self.labels is not None
            return mix_of(release.mix, schema, counts=self.labels)
        codes = self.rows[:, columns]
        counts = np.zeros(shape, dtype=np.int64)
        np.add.at(counts, tuple(codes.T), 1)
        return mix_of(release.mix, schema, counts=counts)

    def mixed_counts(self, schema: Schema, mix: Mix) -> dict[str, NDArray[Any]]:
        """Return the counts of `counts_of` for texts with the shares of a mix."""
        counts = self.counts_of(schema)
        if self.rows is not None:
            weights = mix.row_weights(self.rows)
            for name in counts:
                codes = self.rows[:, schema.names.index(name)]
                has_value = codes >= 0
                counts[name] = np.bincount(
                    codes[has_value], weights=weights[has_value], minlength=schema.domain[name]
                )
        for place, each in enumerate(mix.attributes):
            name = schema.names[each.column]
            shares = np.bincount(mix.cells[:, place], weights=mix.shares, minlength=len(each.goals))
            chosen = np.asarray(shares, dtype=np.float64)
            counts[name] = each.in_shares(counts[name], chosen) * max(self.count or 0.0, 1.0)
        return counts


@dataclass(frozen=True, kw_only=True)
class PublicInputs:
    """The schema, the DP metadata, the donated examples and the public settings of a run.

    `label` is the attribute that votes by label use. `again` is the share of first requests for
    contradicted values. `generator` and `embedding` are the settings that change an answer or an
    embedding, for cache keys. `example_sets` is the number of example sets that the prompts of the
    generator share, or 0. `follows_requests` says whether the generator writes what a request asks
    for. `pretrained` is a folder of small public models. `mix` are the chosen shares of the
    release, and `asked` those of the next requests. First candidates have no chosen shares, so that
    their scores, which are charged, do not depend on the mix.
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
    mix: Mix | None = None
    asked: Mix | None = None

    @property
    def texts(self) -> int:
        """The number of texts in the release."""
        return self.release.size(self.metadata.count)

    @property
    def label_column(self) -> int:
        """The column of `label` in the codes."""
        return self.schema.names.index(self.label)
