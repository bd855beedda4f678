"""Draws a profile from the contributions of all units."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sugarbush.paths import reading
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import ThresholdedGaussian, event_from_dict
from sugarbush.privacy.mechanisms import noisy_counts, noisy_set, set_threshold
from sugarbush.privacy.results import DAMAGED, ResultStore
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit
from sugarbush.profiling.contributions import Contributions
from sugarbush.profiling.layout import (
    COMPACT_DATE,
    DATE,
    KINDS,
    MEASURES,
    NUMBER,
    NUMERIC,
    Group,
    column_histogram,
    columns_group,
    item_of,
    pair_of,
    sizes_group,
    style_group,
)
from sugarbush.profiling.plan import COLUMNS, SIZES, STEPS, STYLE, TERMS, VALUES, ProfilePlan
from sugarbush.profiling.refinement import CountEstimate, FinerBins, copies, of_days, of_numbers
from sugarbush.profiling.release import (
    MOST_NOISE_OF_NUMBERS,
    NOISE_OF_ZERO,
    ProfiledColumn,
    ReleasedProfile,
)
from sugarbush.profiling.style import LANGUAGES, RULES

_SET = "set.json"
# Terms are counted by the values of a column if its second value has this many thresholds.
_LEAST_THRESHOLDS: Final = 4


def draw_profile(
    contributions: Contributions,
    plan: ProfilePlan,
    columns: Sequence[str],
    *,
    store: ResultStore,
    session: PrivacySession,
    check_count: Callable[[float], None],
    measures: Sequence[str] = MEASURES,
) -> ReleasedProfile:
    """Draw the mechanisms of `plan`, or restore finished ones from `store`.

    `measures` are the lengths of a text, as in the contributions and in the plan. `check_count`
    gets the DP record count after the first draw, and may raise an error. Each mechanism is charged
    before its draw, and its result is stored before the next charge. So after a crash, only the
    mechanism that was running is charged twice.
    """
    drawing, by_user = _Drawing(plan, store, session), session.ledger.unit is Unit.USER
    sizes = sizes_group(by_user=by_user, measures=measures)
    style, table = style_group(), columns_group(columns)
    of_sizes = drawing.counts(SIZES, contributions.sizes, sizes)
    check_count(float(of_sizes[0]))
    of_style = drawing.counts(STYLE, contributions.style, style)
    values: dict[str, int] = {}
    found: tuple[ProfiledColumn, ...] = ()
    if columns:
        of_columns = drawing.counts(COLUMNS, contributions.columns, table)
        found = tuple(_column(column, table, of_columns) for column in columns)
        found = _refined(found, contributions, drawing)
        values = drawing.items(VALUES, contributions.values).counts
    by_column = {
        column: {value: count for (own, value), count in _pairs(values) if own == column}
        for column in columns
    }
    chosen = _column_of_terms(
        by_column, least=_LEAST_THRESHOLDS * _threshold(plan.thresholded(TERMS))
    )
    items = (
        contributions.terms.map_batch(lambda rows: [_alone(row) for row in rows])
        if chosen is None
        else contributions.terms_by_value(chosen)
    )
    terms: dict[str, dict[str, int]] = {}
    of_terms = drawing.items(TERMS, items, by=chosen)
    for (value, term), count in _pairs(of_terms.counts):
        terms.setdefault(value, {})[term] = count
    return ReleasedProfile(
        records=int(of_sizes[0]),
        lengths={measure: _listed(sizes[measure].of(of_sizes)) for measure in measures},
        records_per_user=_listed(sizes["records per user"].of(of_sizes)) if by_user else None,
        style=dict(zip(RULES, _listed(of_style), strict=False)),
        languages=dict(zip(LANGUAGES, _listed(style["language"].of(of_style)), strict=True)),
        columns=tuple(replace(c, values=_ordered(by_column[c.name])) for c in found),
        terms=terms,
        terms_column=of_terms.by,
        stddev={name: plan.stddev(name) for name in plan.events},
        threshold=drawing.thresholds,
        epsilon=plan.epsilon,
        delta=plan.delta,
        unit="user" if by_user else "record",
        dataset=session.ledger.dataset,
        ledger_ids=tuple(dict.fromkeys(drawing.ids)),
    )


class _Items(NamedTuple):
    """The released items with their counts, and the column that divided them when drawn."""

    counts: dict[str, int]
    by: str | None


@dataclass
class _Drawing:
    """The mechanisms of one profile, and the ids of their charges."""

    plan: ProfilePlan
    store: ResultStore
    session: PrivacySession
    ids: list[str] = field(default_factory=list)
    thresholds: dict[str, int] = field(default_factory=dict)

    def counts(self, name: str, cells: Private[Any], group: Group) -> NDArray[np.int64]:
        """Draw noisy counts of a group, or restore them."""
        return self.cells(name, cells, size=group.size, cells=group.cells)

    def cells(self, name: str, private: Private[Any], *, size: int, cells: int) -> NDArray[Any]:
        """Draw noisy counts, or restore them.

        Without a cell, the charge is the same, but nothing is drawn. Released counts decide whether
        there is a cell. A smaller charge that depends on released counts would state too little.
        """
        event = self.plan.counts(name)
        if not size:
            unused = self.store.drawn(name, lambda folder: (self.session.charge(event),))
            self.ids += unused.ledger_ids
            return np.zeros(0, dtype=np.int64)

        def draw() -> Released[NDArray[np.int64]]:
            return noisy_counts(
                private,
                size=size,
                cells_per_record=cells,
                stddev=event.stddev,
                session=self.session,
            )

        done = self.store.array(name, draw)
        self.ids += done.ledger_ids
        return done.value

    def items(self, name: str, items: Private[Any], *, by: str | None = None) -> _Items:
        """Draw a noisy set, or restore it. `by` names the column that divides the items."""
        event = self.plan.thresholded(name)

        def draw(folder: Path) -> Sequence[str]:
            released = noisy_set(
                items,
                items_per_record=event.count,
                stddev=event.stddev,
                delta=event.delta,
                session=self.session,
            )
            found = {"items": released.value, "event": event.as_dict(), "by": by}
            (folder / _SET).write_text(json.dumps(found), encoding="utf-8")
            return released.ledger_ids

        done = self.store.drawn(name, draw)
        self.ids += done.ledger_ids
        with reading(done.value, advice=DAMAGED):
            found = json.loads((done.value / _SET).read_text(encoding="utf-8"))
            drawn = event_from_dict(found["event"])
        assert isinstance(drawn, ThresholdedGaussian)
        self.thresholds[name] = _threshold(drawn)  # after a lost draw, it differs from the plan
        return _Items(dict(found["items"]), found["by"])


def _threshold(event: ThresholdedGaussian) -> int:
    return set_threshold(stddev=event.stddev, delta=event.delta, items_per_record=event.count)


def _pairs(found: dict[str, int]) -> list[tuple[tuple[str, str], int]]:
    return [(pair_of(item), count) for item, count in found.items()]


def _alone(terms: Sequence[str]) -> tuple[str, ...]:
    return tuple(item_of("", term) for term in terms)


def _column_of_terms(by_column: dict[str, dict[str, int]], *, least: float) -> str | None:
    """Return the column that divides the terms by its values: that with the largest second value.

    The choice uses released counts only. The charge is the same with and without a column.
    """
    second = {
        column: sorted(values.values())[-2]
        for column, values in by_column.items()
        if len(values) > 1
    }
    best = max(second, key=lambda column: (second[column], column), default=None)
    return best if best is not None and second[best] >= least else None


def _listed(counts: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(map(int, counts))


def _column(name: str, group: Group, counts: NDArray[np.int64]) -> ProfiledColumn:
    kinds = column_histogram(group, name, "kind").of(counts)
    return ProfiledColumn(
        name=name,
        kinds=dict(zip(KINDS, _listed(kinds), strict=True)),
        numbers=_listed(column_histogram(group, name, "number").of(counts)),
        years=_listed(column_histogram(group, name, "year").of(counts)),
        values={},
        distribution=None,
    )


def _ordered(values: dict[str, int]) -> dict[str, int]:
    return dict(sorted(values.items(), key=lambda value: (-value[1], value[0])))


def _refined(
    columns: tuple[ProfiledColumn, ...], contributions: Contributions, drawing: _Drawing
) -> tuple[ProfiledColumn, ...]:
    """Return the columns with the distributions of their numbers or dates.

    Each step divides the occupied bins of all columns, by the released counts of the steps before.
    """
    count, noise = len(columns), drawing.plan.stddev(COLUMNS)
    estimates: dict[int, CountEstimate] = {}
    for number, column in enumerate(columns):
        if (first := _first_estimate(column, stddev=noise)) is not None:
            estimates[number + count * first.is_days] = first
    for step in STEPS:
        repeated = copies(len(estimates), histograms=count)
        noise = drawing.plan.stddev(step) / math.sqrt(repeated)
        divided = {at: each.divided(stddev=noise) for at, each in estimates.items()}
        bins = FinerBins(edges={at: edges for at, (edges, _) in divided.items()}, histograms=count)
        cells = contributions.quantities.map_batch(bins.cells)
        means = bins.means(drawing.cells(step, cells, size=bins.size, cells=count))
        estimates = {
            at: each.after(*divided[at], means[at], stddev=noise) for at, each in estimates.items()
        }
    known = {at % count: each.distribution for at, each in estimates.items()}
    return tuple(replace(c, distribution=known.get(at)) for at, c in enumerate(columns))


def _first_estimate(column: ProfiledColumn, *, stddev: float) -> CountEstimate | None:
    """Return the estimate from the fixed bins, or None without enough numbers or dates.

    A column has days if it has more dates than numbers that are not dates, and the count of these
    numbers is within the noise of 0, as in `ReleasedProfile.has_only`.
    """
    kinds = column.kinds
    dates, numbers = kinds[DATE] + kinds[COMPACT_DATE], sum(kinds[kind] for kind in NUMERIC)
    others = numbers - kinds[COMPACT_DATE]
    is_days = others <= NOISE_OF_ZERO * math.sqrt(2) * stddev and dates > others
    total = dates if is_days else numbers
    if stddev > MOST_NOISE_OF_NUMBERS * max(total, 1):
        return None
    years, in_bins = np.array(column.years), np.array(column.numbers)
    if is_days:
        as_numbers = kinds[COMPACT_DATE] > kinds[DATE]
        return of_days(years, in_bins, total=total, stddev=stddev, as_numbers=as_numbers)
    whole = column.kinds[NUMBER] <= NOISE_OF_ZERO * stddev
    return of_numbers(in_bins, total=total, stddev=stddev, whole=whole)
