"""The tables that the page, the terminal and notebooks show of a profile."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import pandas as pd

from sugarbush.profiling.bins import YEARS
from sugarbush.profiling.layout import COMPACT_DATE, DATE, EMPTY, INTEGER, NESTED, NUMBER, TEXT
from sugarbush.profiling.release import (
    QUANTILES,
    NoisyShare,
    ProfiledColumn,
    ReleasedProfile,
    interval,
    percent,
)

_MOST_ROWS: Final = 30
_SHOWN_KINDS: Final = {
    EMPTY: "empty",
    TEXT: "texts",
    NESTED: "lists or records",
    DATE: "dates",
    COMPACT_DATE: "dates such as 20240131",
    INTEGER: "whole numbers",
    NUMBER: "numbers with decimals",
}


@dataclass(frozen=True, kw_only=True)
class ShareTable:
    """Named shares of the records, with their intervals, and what a reader should know."""

    title: str
    shares: tuple[tuple[str, NoisyShare], ...]
    note: str = ""
    quantiles: tuple[tuple[str, str], ...] = field(default=())


def share_tables(profile: ReleasedProfile) -> tuple[ShareTable, ...]:
    """Return all tables of a profile in the order of the page: columns, terms, style."""
    tables = [table for column in profile.columns for table in _of_column(profile, column)]
    tables += _terms(profile)
    if not profile.is_measured("style"):
        note = "Too few records for the form and the language of the texts at this noise."
        return (*tables, ShareTable(title="form of the texts", shares=(), note=note))
    tables.append(
        ShareTable(
            title="form of the texts",
            shares=_shares(profile, profile.style, "style"),
            note="Public yes/no rules, for example whether a text asks a question.",
        )
    )
    languages = _shares(profile, profile.languages, "style")
    tables.append(
        ShareTable(
            title="language",
            shares=tuple((name, share) for name, share in languages if share.low > 0),
            note="Guessed from the script and from frequent words.",
        )
    )
    return tuple(table for table in tables if table.shares or table.note)


def length_rows(profile: ReleasedProfile) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return the quantiles of each length, and of the records of a user."""
    rows = [(measure, profile.quantiles(measure)) for measure in profile.lengths]
    if profile.records_per_user is not None:
        rows.append(("records of a user", profile.records_of_users()))
    return tuple((name, found) for name, found in rows if found)


def profile_frame(profile: ReleasedProfile) -> pd.DataFrame:
    """Return every share of the profile in one frame, for notebooks.

    The columns are `what`, `value`, `share`, and the ends `low` and `high` of its 95% interval.
    """
    rows: list[dict[str, Any]] = [
        {"what": t.title, "value": name, "share": s.share, "low": s.low, "high": s.high}
        for t in share_tables(profile)
        for name, s in t.shares
    ]
    return pd.DataFrame(rows, columns=["what", "value", "share", "low", "high"])


def _shares(
    profile: ReleasedProfile, counts: dict[str, int], group: str
) -> tuple[tuple[str, NoisyShare], ...]:
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return tuple((name, profile.share(count, group=group)) for name, count in ordered)


def _of_column(profile: ReleasedProfile, column: ProfiledColumn) -> Iterator[ShareTable]:
    share = percent(profile.rare("values"))
    rare = f"Values of fewer than {share} of the {profile.unit}s stay unknown."
    shares = [*_shares(profile, profile.listed(column), "values")]
    kinds = _shares(profile, column.kinds, "columns") if profile.is_measured("columns") else ()
    found = [f"{_SHOWN_KINDS[name]} {interval(s)}" for name, s in kinds if s.low > 0.02]
    quantiles = _shown_quantiles(profile, column)
    if not quantiles and profile.date_share(column).low <= 0.5:
        shares.append(("all other values", profile.other(column)))
    yield ShareTable(
        title=column.name,
        shares=tuple(shares),
        note=f"{rare} Cells: {', '.join(found)}." if found else rare,
        quantiles=tuple(
            (f"{share:.0%}", value) for share, value in zip(QUANTILES, quantiles, strict=False)
        ),
    )
    if column.distribution is not None and column.distribution.is_days and column.kinds[DATE] > 0:
        # all years between the ends; the outer quantiles would leave out the first and the last
        ends = column.distribution.ends or column.distribution.quantiles((0.1, 0.9))
        first, last = (date.fromordinal(int(day)).year for day in ends)
        start = first - int(YEARS.edges[0])
        counts = column.years[start : start + last - first + 1]
        rows = zip(map(str, range(first, last + 1)), counts, strict=True)
        yield ShareTable(
            title=f"{column.name}, by year",
            shares=tuple((n, profile.share(count, group="columns")) for n, count in rows),
        )


def _shown_quantiles(profile: ReleasedProfile, column: ProfiledColumn) -> tuple[str, ...]:
    """Return the quantiles of a column of numbers or dates, with the digits that they need."""
    if profile.date_share(column).low > 0.5:
        return tuple(day.isoformat() for day in profile.day_quantiles(column))
    if profile.number_share(column).low <= 0.5:
        return ()
    numbers = profile.number_quantiles(column)
    spread = max(numbers, default=0.0) - min(numbers, default=0.0)
    digits = max(0, 2 - math.floor(math.log10(spread))) if spread > 0 else 2
    is_whole = column.distribution is not None and column.distribution.is_whole
    return tuple(f"{number:,.{0 if is_whole else min(digits, 9)}f}" for number in numbers)


def _terms(profile: ReleasedProfile) -> list[ShareTable]:
    rare = (
        f"Words and phrases of fewer than {percent(profile.rare('terms'))} of the {profile.unit}s "
        "stay unknown. "
        "A text gives at most 18, without what the pattern redactor finds."
    )
    if not profile.terms:
        return [ShareTable(title="words and phrases", shares=(), note=f"None was found. {rare}")]
    tables: list[ShareTable] = []
    for value, terms in sorted(profile.terms.items()):
        where = f" with {profile.terms_column} = {value}" if profile.terms_column and value else ""
        tables.append(
            ShareTable(
                title=f"words and phrases of texts{where}",
                shares=_shares(profile, terms, "terms")[:_MOST_ROWS],
                note=rare if not tables else "",
            )
        )
    return tables
