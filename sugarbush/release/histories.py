"""Converts released histories to one row for each record, with `person` and the number `record`.

A released history has the texts of a synthetic person in order, and the attributes of the person.
The mean gap between its records is the attribute with the column `gap_days`, and the date of the
first record that with the column `by` of the schema. The days of the other records are drawn: all
divisions of the time between the first and the last record are equally likely, so the mean gap is
the released one.

Guarantee: post-processing. The inputs are released rows, the public schema and public randomness.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sugarbush.data.quantities import Kind
from sugarbush.data.schema import Schema
from sugarbush.data.shapes.history import DAYS, GAP_DAYS, PERSON, RECORD, History
from sugarbush.json_lines import read_json_lines
from sugarbush.randomness import public_rng
from sugarbush.release.columns import Column, TypedTable, typed_table

_DAY_S: Final = 86_400


def history_of(schema: Schema) -> History | None:
    """Return the shape of the records if they are histories, or None."""
    return schema.shape if isinstance(schema.shape, History) else None


def records_as_lines(lines: str, schema: Schema) -> str:
    """Convert the lines of synthetic.jsonl to a JSON object for each record. Equal lines give equal
    records."""
    rows = (
        {name: _json(value) for name, value in row.items()}
        for each in read_json_lines(lines)
        for row in _records(each, schema)
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def records_table(lines: str, schema: Schema) -> TypedTable:
    """Convert the lines of synthetic.jsonl to a table with a row for each record."""
    history = _history(schema)
    people, persons = typed_table(lines, schema), read_json_lines(lines)
    records = [row for each in persons for row in _records(each, schema)]
    counts = [len(each[history.column]) for each in persons]
    repeated = people.arrow.take(np.repeat(np.arange(len(persons)), counts))
    own = {column.name: column for column in _own_columns(history)}
    columns = {column.name: column for column in people.columns} | own
    names = tuple(records[0]) if records else tuple(own)
    arrays = [
        pa.array([row[name] for row in records], columns[name].arrow)
        if name in own
        else repeated[name].combine_chunks()
        for name in names
    ]
    return TypedTable(
        columns=tuple(columns[name] for name in names), arrow=pa.table(arrays, names=list(names))
    )


def table_of(lines: str, schema: Schema) -> TypedTable:
    """Convert the lines of synthetic.jsonl to the table of a publication: a row for each text, or
    for each record of the histories."""
    of = typed_table if history_of(schema) is None else records_table
    return of(lines, schema)


def _own_columns(history: History) -> tuple[Column, ...]:
    is_date = history.kind is Kind.DATE
    return (
        Column(name=PERSON, type="int64", description="number of the synthetic person"),
        Column(name=RECORD, type="int64", description="1 for the first record of the person"),
        Column(
            name=history.by,
            type="date32" if is_date else "timestamp[ms]",
            description="drawn from the first date and the mean gap of the person",
        ),
        Column(
            name=DAYS,
            type="int64" if is_date else "float64",
            description="days since the first record, drawn from the mean gap of the person",
        ),
        Column(name=history.column, type="string", description="the synthetic text of the record"),
    )


def _records(row: Mapping[str, Any], schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield the records of a released history. A date is left out if the schema has no attribute
    for it."""
    history = _history(schema)
    texts = row[history.column]
    columns = {attribute.name: attribute.column for attribute in schema.attributes}
    first = _value(row, columns, history.by)
    gap = _value(row, columns, GAP_DAYS)
    days = _days(len(texts), gap, person=int(row["id"]), kind=history.kind)
    has_gap, has_first = GAP_DAYS in columns.values(), history.by in columns.values()
    own = {"id", history.column, *((history.by,) if has_gap and has_first else ())}
    others = {name: value for name, value in row.items() if name not in own}
    for number, (text, day) in enumerate(zip(texts, days, strict=True), start=1):
        dates: dict[str, Any] = {}
        if has_gap and has_first:
            dates[history.by] = _moment(first, day, kind=history.kind)
        if has_gap:
            dates[DAYS] = day
        yield {PERSON: row["id"], RECORD: number, **dates, history.column: text, **others}


def _history(schema: Schema) -> History:
    history = history_of(schema)
    assert history is not None
    return history


def _value(row: Mapping[str, Any], columns: Mapping[str, str | None], column: str) -> Any:
    """Return the released value of the attribute that has a column, or None."""
    return next((row.get(name) for name, own in columns.items() if own == column), None)


def _days(count: int, gap: Any, *, person: int, kind: Kind) -> Sequence[float | None]:
    """Return the days of `count` records since the first one, with the mean gap `gap`."""
    if count == 1:
        return [0]
    if not isinstance(gap, int | float):
        return [0, *[None] * (count - 1)]
    within = np.sort(public_rng(person, "gaps of a history").random(count - 2))
    days = [0.0, *(within * gap * (count - 1)).tolist(), float(gap * (count - 1))]
    return [round(day) if kind is Kind.DATE else round(day, 4) for day in days]


def _moment(first: Any, day: float | None, *, kind: Kind) -> date | None:
    """Return the date of a record. `first` is in ISO form."""
    if first is None or day is None:
        return None
    if kind is Kind.DATE:
        return date.fromisoformat(str(first)[:10]) + timedelta(days=day)
    moment = datetime.fromisoformat(str(first)).replace(tzinfo=None)
    return moment + timedelta(seconds=round(day * _DAY_S))


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
