"""What one record gives to each mechanism of a profile: a function of this record alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.records import Record
from sugarbush.data.shapes.interface import Shape
from sugarbush.languages import count_words
from sugarbush.privacy.data_types import Private
from sugarbush.profiling.bins import LENGTHS, NUMBERS, RECORDS, YEARS
from sugarbush.profiling.layout import (
    DATE,
    KINDS,
    NO_CELL,
    column_histogram,
    columns_group,
    day_of_number,
    item_of,
    kind_of,
    kind_of_number,
    measures_of,
    sizes_group,
    style_group,
    value_of,
)
from sugarbush.profiling.style import LANGUAGES, RULES, language, sentences, turns
from sugarbush.profiling.terms import terms

_Number = TypeVar("_Number", np.int32, np.float64)
_NONE: Final = math.nan


@dataclass(frozen=True, kw_only=True)
class Contributions:
    """The private contributions of all units, one element per unit."""

    sizes: Private[NDArray[np.int32]]
    style: Private[NDArray[np.int32]]
    columns: Private[NDArray[np.int32]]
    quantities: Private[NDArray[np.float64]]  # numbers of all columns, then days; NaN for none
    values: Private[tuple[str, ...]]
    terms: Private[tuple[str, ...]]

    def terms_by_value(self, column: str) -> Private[Any]:
        """Return the terms of each record, each with the record's value in `column`.

        A record without a value in the column gives the terms alone.
        """
        return self.values.zip_batch(
            self.terms,
            lambda values, terms: [
                _joined(own_values, own_terms, column)
                for own_values, own_terms in zip(values, terms, strict=True)
            ],
        )


def _joined(values: Sequence[str], terms: Sequence[str], column: str) -> tuple[str, ...]:
    start = item_of(column, "")
    value = next((item.removeprefix(start) for item in values if item.startswith(start)), "")
    return tuple(item_of(value, term) for term in terms)


class Reader:
    """Reads records into contributions, batch by batch.

    `columns` names the raw values of a record in their order. If the unit is a user, every record
    is the only record of its user that the profile uses, and `read` gets the number of the user's
    records. `key` chooses among the terms of a record. `shape` is the form of a record; None means
    one string. `measures` are the lengths of a text; by default those of the shape. Labels and
    names of properties are no part of sentences, style and terms.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        by_user: bool,
        key: bytes,
        shape: Shape | None = None,
        measures: Sequence[str] | None = None,
    ) -> None:
        self._columns, self._by_user, self._key = tuple(columns), by_user, key
        self._shape, self._measures = shape, tuple(measures or measures_of(shape))
        self.sizes = sizes_group(by_user=by_user, measures=self._measures)
        self.style = style_group()
        self.columns = columns_group(columns)
        self._starts = {each.name: each.start for each in self.sizes.histograms}
        self._column_starts = [
            tuple(
                column_histogram(self.columns, column, what).start
                for what in ("kind", "number", "year")
            )
            for column in columns
        ]
        self._language = self.style["language"].start
        self._batches: list[_BatchContributions] = []

    def read(self, records: Sequence[Record], *, of_user: Mapping[str, int] | None = None) -> None:
        """Add a batch of records."""
        batch = _BatchContributions()
        for record in records:
            count = None if of_user is None else of_user[record.user or ""]
            batch.sizes.append(self.cells_of_sizes(record.text, records=count))
            batch.style.append(self.cells_of_style(record.text))
            cells, quantities = self._cells_of_columns(record.raw)
            batch.columns.append(cells)
            batch.quantities.append(quantities)
            batch.values.append(self._values(record.raw))
            batch.terms.append(terms(self._free_text(record.text), key=self._key))
        self._batches.append(batch.packed())

    def contributions(self) -> Contributions:
        """Return the contributions of all records so far."""
        batches = self._batches
        return Contributions(
            sizes=Private(_stacked([b.sizes for b in batches], self.sizes.cells)),
            style=Private(_stacked([b.style for b in batches], self.style.cells)),
            columns=Private(_stacked([b.columns for b in batches], self.columns.cells)),
            quantities=Private(_stacked([b.quantities for b in batches], 2 * len(self._columns))),
            values=Private([row for b in batches for row in b.values]),
            terms=Private([row for b in batches for row in b.terms]),
        )

    def _free_text(self, text: str) -> str:
        if self._shape is None:
            return text
        return " ".join(content for _, content in self._shape.contents(text))

    def cells_of_sizes(self, text: str, *, records: int | None = None) -> list[int]:
        """Return the cells of a text in `sizes`. `records` is the number of its user's records."""
        starts, free = self._starts, self._free_text(text)
        lengths = {
            "characters": len(text),
            "words": count_words(text),
            "sentences": sentences(free),
            "turns": turns(free),
            **({} if self._shape is None else self._shape.lengths(text)),
        }
        cells = [0, *(starts[name] + LENGTHS.of(lengths[name]) for name in self._measures)]
        if records is not None:
            cells.append(starts["records per user"] + RECORDS.of(records))
        return cells

    def cells_of_style(self, text: str) -> list[int]:
        """Return the cells of a text in `style`."""
        free = self._free_text(text)
        cells = [number if rule(free) else NO_CELL for number, rule in enumerate(RULES.values())]
        return [*cells, self._language + LANGUAGES.index(language(free))]

    def _cells_of_columns(self, raw: Sequence[Any]) -> tuple[list[int], list[float]]:
        """Return the cells of a record, and its numbers and days."""
        cells, numbers, days = list[int](), list[float](), list[float]()
        for value, (kind, number, year) in zip(raw, self._column_starts, strict=True):
            found = kind_of(value)
            if isinstance(found, float):
                cells += [kind + KINDS.index(kind_of_number(found)), number + NUMBERS.of(found)]
                numbers.append(found)
                days.append(_NONE if (day := day_of_number(found)) is None else day)
            elif isinstance(found, date):
                cells += [kind + KINDS.index(DATE), year + YEARS.of(found.year)]
                numbers.append(_NONE)
                days.append(found.toordinal())
            else:
                cells += [kind + KINDS.index(found), NO_CELL]
                numbers.append(_NONE)
                days.append(_NONE)
        return cells, [*numbers, *days]

    def _values(self, raw: Sequence[Any]) -> tuple[str, ...]:
        found = ((c, value_of(cell)) for c, cell in zip(self._columns, raw, strict=True))
        return tuple(item_of(column, value) for column, value in found if value is not None)


@dataclass
class _BatchContributions:
    sizes: Any = field(default_factory=list)
    style: Any = field(default_factory=list)
    columns: Any = field(default_factory=list)
    quantities: Any = field(default_factory=list)
    values: list[tuple[str, ...]] = field(default_factory=list)
    terms: list[tuple[str, ...]] = field(default_factory=list)

    def packed(self) -> _BatchContributions:
        """Return the cells as small arrays, and equal items as one object."""
        known: dict[str, str] = {}

        def shared(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
            return [tuple(known.setdefault(item, item) for item in row) for row in rows]

        cells = (np.asarray(rows, np.int32) for rows in (self.sizes, self.style, self.columns))
        sizes, style, columns = cells
        quantities = np.asarray(self.quantities, np.float64)
        return _BatchContributions(
            sizes, style, columns, quantities, shared(self.values), shared(self.terms)
        )


def _stacked(batches: list[NDArray[_Number]], cells: int) -> NDArray[_Number]:
    rows = [rows.reshape(len(rows), cells) for rows in batches]
    return np.concatenate(rows) if rows else np.empty((0, cells), dtype=np.int32)  # no record
