"""The released profile: DP counts with their noise, and everything that follows from them."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np

from sugarbush.profiling.bins import LENGTHS, RECORDS, consistent
from sugarbush.profiling.layout import COMPACT_DATE, DATE, EMPTY, KINDS, NUMERIC
from sugarbush.profiling.refinement import Distribution

Z95: Final = 1.96
FILE: Final = "profile.json"
FORMAT: Final = "sugarbush profile 3"  # 3: distributions of numbers and dates
QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
# The largest noise of a bin over the number of values. Above it, a quantile is not shown.
_MOST_NOISE_OF_LENGTHS: Final = 0.1
MOST_NOISE_OF_NUMBERS: Final = 0.06  # the worst rank error was 0.12 (docs/log/profile.md)
_MOST_NOISE: Final = 0.25  # of a share
NOISE_OF_ZERO: Final = 4  # standard deviations: a noisy count within them may be one of no cell
MOST_VALUES: Final = 30  # of a column in a schema, the most frequent ones


@dataclass(frozen=True, kw_only=True)
class NoisyShare:
    """A share of all records and half the width of its 95% interval, which contains the noise."""

    share: float
    within: float

    @property
    def low(self) -> float:
        return max(0.0, self.share - self.within)

    @property
    def high(self) -> float:
        return min(1.0, self.share + self.within)


@dataclass(frozen=True, kw_only=True)
class ProfiledColumn:
    """What the profile knows about a column. All counts are noisy and may be negative.

    `kinds` are the counts of cells by kind, `numbers` those in the bins of `bins.NUMBERS`, and
    `years` those in the bins of `bins.YEARS`. `distribution` has the counts of numbers or days in
    bins that were divided where the counts are; None means that the noise is too large.
    `values` are the values that were released. Values with fewer records than
    about `threshold` stay unknown.
    """

    name: str
    kinds: dict[str, int]
    numbers: tuple[int, ...]
    years: tuple[int, ...]
    values: dict[str, int]
    distribution: Distribution | None


@dataclass(frozen=True, kw_only=True)
class ReleasedProfile:
    """A released profile. `records` is the DP number of training records, one of each user.

    `stddev` is the noise of each group of counts, and `threshold` the smallest released count of
    values and terms. If the profile has terms by value, `terms_column` is their column, and the
    keys of `terms` are its values; otherwise the only key is "".
    """

    records: int
    lengths: dict[str, tuple[int, ...]]
    records_per_user: tuple[int, ...] | None
    style: dict[str, int]
    languages: dict[str, int]
    columns: tuple[ProfiledColumn, ...]
    terms: dict[str, dict[str, int]]
    terms_column: str | None
    stddev: dict[str, float]
    threshold: dict[str, int]
    epsilon: float
    delta: float
    unit: str
    dataset: str
    ledger_ids: tuple[str, ...] = ()
    topics: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())

    def share(self, count: float, *, group: str) -> NoisyShare:
        """Return a count as a share of the records, with its 95% interval."""
        most = max(self.records, 1)
        noise = Z95 * math.hypot(self.stddev[group], self.stddev["sizes"] * count / most) / most
        return NoisyShare(share=min(max(count / most, 0.0), 1.0), within=min(noise, 1.0))

    def quantiles(self, measure: str, shares: tuple[float, ...] = QUANTILES) -> tuple[float, ...]:
        """Return quantiles of a length, such as `words`, or () if the noise is too large."""
        if self._is_noisy:
            return ()
        counts = consistent(
            np.array(self.lengths[measure]), total=self.records, stddev=self.stddev["sizes"]
        )
        return LENGTHS.quantiles(counts.tolist(), shares)

    @property
    def _is_noisy(self) -> bool:
        """Whether the noise of a bin is too large for quantiles."""
        return self.stddev["sizes"] > _MOST_NOISE_OF_LENGTHS * max(self.records, 1)

    def is_measured(self, group: str) -> bool:
        """Return whether the noise of a count of `group` is small against the number of records."""
        return self.stddev[group] < _MOST_NOISE * max(self.records, 1)

    @property
    def within(self) -> float:
        """Half the width of the 95% interval of `records`."""
        return Z95 * self.stddev["sizes"]

    @property
    def users(self) -> int | None:
        """The DP number of users, if the unit is a user: one record of each user was read."""
        return None if self.records_per_user is None else self.records

    def records_of_users(self) -> tuple[float, ...]:
        """Return QUANTILES of the number of records of a user."""
        if self.records_per_user is None or self._is_noisy:
            return ()
        counts = consistent(
            np.array(self.records_per_user), total=self.records, stddev=self.stddev["sizes"]
        )
        return RECORDS.quantiles(counts.tolist(), QUANTILES)

    def column(self, name: str) -> ProfiledColumn:
        return next(column for column in self.columns if column.name == name)

    def other(self, column: ProfiledColumn) -> NoisyShare:
        """Return the share of records without one of the MOST_VALUES most frequent values.

        The sum of k noisy counts has sqrt(k) times the noise of one.
        """
        most, known = max(self.records, 1), self.listed(column)
        total = sum(known.values())
        noise = math.hypot(
            math.sqrt(max(len(known), 1)) * self.stddev["values"],
            self.stddev["sizes"] * total / most,
        )
        other = min(max(1 - total / most, 0.0), 1.0)
        return NoisyShare(share=other, within=min(Z95 * noise / most, 1.0))

    def listed(self, column: ProfiledColumn) -> dict[str, int]:
        """Return the MOST_VALUES most frequent released values with their noisy counts."""
        ordered = sorted(column.values.items(), key=lambda pair: (-pair[1], pair[0]))
        return dict(ordered[:MOST_VALUES])

    def kind_share(self, column: ProfiledColumn, kind: str) -> NoisyShare:
        """Return the share of cells of a kind (`layout.KINDS`)."""
        return self.share(column.kinds[kind], group="columns")

    def number_share(self, column: ProfiledColumn) -> NoisyShare:
        """Return the share of cells that are numbers, whole or not."""
        return self._sum_of(column, NUMERIC)

    def date_share(self, column: ProfiledColumn) -> NoisyShare:
        """Return the share of cells that are dates, such as 2024-01-31 or 20240131."""
        return self._sum_of(column, (DATE, COMPACT_DATE))

    def _sum_of(self, column: ProfiledColumn, kinds: Sequence[str]) -> NoisyShare:
        shares = [self.kind_share(column, kind) for kind in kinds]
        return NoisyShare(
            share=min(sum(share.share for share in shares), 1.0),
            within=math.hypot(*(share.within for share in shares)),
        )

    def number_quantiles(self, column: ProfiledColumn) -> tuple[float, ...]:
        """Return QUANTILES of the numbers in a column, or () if the noise is too large."""
        found = column.distribution
        return () if found is None or found.is_days else found.quantiles(QUANTILES)

    def day_quantiles(self, column: ProfiledColumn) -> tuple[date, ...]:
        """Return QUANTILES of the dates in a column, or () if the noise is too large."""
        found = column.distribution
        if found is None or not found.is_days:
            return ()
        return tuple(date.fromordinal(int(day)) for day in found.quantiles(QUANTILES))

    def has_only(self, column: ProfiledColumn, kinds: Collection[str]) -> bool:
        """Return whether all other kinds of cells, except empty ones, are within the noise of 0.

        The limit is four standard deviations of the noise. So a column without such cells has
        another kind in fewer than 1 of 6,000 profiles.
        """
        most = NOISE_OF_ZERO * self.stddev["columns"]
        return all(column.kinds[kind] <= most for kind in set(KINDS) - {EMPTY, *kinds})

    def term_counts(self) -> dict[str, int]:
        """Return the noisy count of each released term, over all values."""
        counts: dict[str, int] = {}
        for terms in self.terms.values():
            for term, count in terms.items():
                counts[term] = counts.get(term, 0) + count
        return counts

    def rare(self, group: str) -> float:
        """Return the smallest share of records that a value needs, to be seen in most profiles."""
        return min(1.0, self.threshold[group] / max(self.records, 1))

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ReleasedProfile:
        """Invert `to_json`. Raises ValueError, KeyError or TypeError for another file."""
        fields: dict[str, Any] = json.loads(text)
        if fields.pop("format") != FORMAT:
            raise ValueError("the profile has another format")
        columns = fields.pop("columns")
        fields["lengths"] = {name: tuple(counts) for name, counts in fields["lengths"].items()}
        for name in ("ledger_ids", "records_per_user"):
            fields[name] = None if fields[name] is None else tuple(fields[name])
        fields["topics"] = tuple((name, tuple(terms)) for name, terms in fields["topics"])
        return cls(columns=tuple(_column_of(column) for column in columns), **fields)

    def save(self, folder: Path) -> None:
        (folder / FILE).write_text(self.to_json(), encoding="utf-8")


def _column_of(fields: Mapping[str, Any]) -> ProfiledColumn:
    listed: dict[str, Any] = {name: tuple(fields[name]) for name in ("numbers", "years")}
    if (found := fields["distribution"]) is not None:
        lists = {name: tuple(found[name]) for name in ("edges", "counts")}
        listed["distribution"] = Distribution(**{**found, **lists})
    return ProfiledColumn(**{**fields, **listed})


def percent(share: float) -> str:
    """Write a share in percent, with a digit after the point below 10%."""
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def interval(share: NoisyShare) -> str:
    """Write a share with its 95% interval.

    >>> interval(Share(share=0.26, within=0.02))
    '26% (24% to 28%)'
    """
    return f"{percent(share.share)} ({percent(share.low)} to {percent(share.high)})"
