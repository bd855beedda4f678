"""Converts rows to records: text, id, user, and the raw values of the schema's columns.

Donated examples, which are public, become records with labels.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sugarbush.data.cells import is_half, may_be_rounded, text_of
from sugarbush.data.formats.interface import find_format
from sugarbush.data.numbers import NotationsOfColumns
from sugarbush.data.private_store import LABEL, RAW
from sugarbush.data.reading import Row
from sugarbush.data.schema import Schema, UnlistedColumn
from sugarbush.data.settings import BadRows, PrepareSettings
from sugarbush.data.shapes.interface import Shape, ShapeError
from sugarbush.data.shapes.one_text import OneText
from sugarbush.data.user_cells import problem_of_user, user_of
from sugarbush.errors import InputError

if TYPE_CHECKING:  # a slow import
    import pandas as pd

_SHOWN_ROWS = 5


class Record(NamedTuple):
    """One usable row, with the raw values of the schema's columns.

    `user` is the owner of the record, or None if the unit is a record.
    """

    number: int
    id: str
    text: str
    raw: tuple[Any, ...]
    user: str | None = None


def require_decimal_signs(
    notations: NotationsOfColumns, schema: Schema, *, source: str, setting: str
) -> None:
    """Raise InputError if the decimal sign of a column of numbers is not clear.

    Every row counts, and the error does not depend on `bad_rows`: one record must never change how
    the cells of other records are read.
    """
    for attribute in schema.attributes:
        if attribute.column is not None and attribute.needs_decimal_sign:
            of_profile = isinstance(attribute, UnlistedColumn)
            find = notations.profile_problem if of_profile else notations.problem
            if (problem := find(attribute.column)) is not None:
                advice = attribute.advice_on_decimal_sign
                raise InputError(f"{source}: {problem}. {advice} (setting {setting})")


def columns_of(schema: Schema) -> dict[str, str]:
    """Map the name of an attribute to its column, for all attributes with a column."""
    return {a.name: a.column for a in schema.attributes if a.column is not None}


def shape_of(schema: Schema, params: PrepareSettings) -> Shape:
    """Return the shape that the schema declares. The default is one string in
    prepare.text_column."""
    return OneText(params.text_column) if schema.text is None else schema.text.shape


def usable(
    rows: Sequence[Row],
    params: PrepareSettings,
    schema: Schema,
    *,
    source: str,
    setting: str,
    notations: NotationsOfColumns | None = None,
    omitted: Counter[str] | None = None,
) -> tuple[tuple[Record, ...], dict[str, int]]:
    """Return the usable rows in order, and the number of bad rows by problem. Count the notations
    of numbers in `notations`, and in `omitted` what the shape leaves out of usable rows.

    A usable row has a text, and a value in the id column and the user column of the settings. The
    check of a row depends on this row alone. With `bad_rows: refuse`, an InputError names the first
    few bad rows. Also raises InputError for an id that may be rounded.
    """
    records: list[Record] = []
    bad: dict[str, list[int]] = {}
    of_columns = tuple(a for a in schema.attributes if a.column is not None)
    raw_columns = tuple(columns_of(schema).values())
    counted = {a.column for a in of_columns if a.column is not None and a.needs_decimal_sign}
    columns = [c for c in (params.id_column, params.user_column, *raw_columns) if c is not None]
    shape = shape_of(schema, params)
    for row in rows:
        for name in (params.id_column, params.user_column):
            if name is not None and may_be_rounded(row.fields.get(name)):
                raise InputError(
                    f"{source}, row {row.number}: column '{name}' has a number that is too large "
                    f"for its type. Save the column as text (setting {setting})"
                )
        try:
            if row.problem:
                raise ShapeError(row.problem)
            text, fields = shape.text_of(row.fields), shape.expanded(row.fields)
            if notations is not None:
                for column in counted:
                    notations.add(column, fields.get(column))
            whole = row if fields is row.fields else row._replace(fields=dict(fields))
            problem = _problem(whole, text, params, columns) or _problem_of_value(whole, schema)
            if problem is not None:
                raise ShapeError(problem)
        except ShapeError as error:
            bad.setdefault(str(error), []).append(row.number)
            continue
        if omitted is not None:
            omitted.update(shape.omitted(row.fields))
        user_column = row.fields.get(params.user_column or "")
        records.append(
            Record(
                number=row.number,
                id=_id_of(row, params, text),
                user=None if params.user_column is None else user_of(user_column),
                text=text,
                raw=tuple([a.raw(fields.get(a.column or "")) for a in of_columns]),
            )
        )
    if bad and params.bad_rows is BadRows.REFUSE:
        problem, numbers = next(iter(bad.items()))
        raise InputError(
            f"{source}, {_rows(numbers)}: {problem} (setting {setting}). Fix the file, or set "
            f"prepare.bad_rows: drop.{_header_note(source, params)}"
        )
    return tuple(records), {problem: len(numbers) for problem, numbers in bad.items()}


def _header_note(source: str, params: PrepareSettings) -> str:
    form = find_format(source)
    if form is None or not form.header_is_row_1:
        return ""
    rows = params.header_rows or 1
    return " The header is row 1." if rows == 1 else f" Rows 1 to {rows} are the header."


def _problem(row: Row, text: str, params: PrepareSettings, columns: Sequence[str]) -> str | None:
    if _says_nothing(row, params.id_column):
        return f"has no id in column '{params.id_column}' (prepare.id_column)"
    user = params.user_column
    if user is not None and (problem := problem_of_user(row.fields.get(user), user)) is not None:
        return problem
    for column in columns:
        if is_half(text_of(row.fields.get(column)) or ""):
            return f"column '{column}' contains half a character (a lone surrogate)"
    return _problem_of_text(text, params)


def _problem_of_value(row: Row, schema: Schema) -> str | None:
    """Return what is wrong with a cell of an attribute with numbers or dates, or None."""
    for attribute in schema.attributes:
        if attribute.quantity is not None and attribute.column is not None:
            problem = attribute.problem(row.fields.get(attribute.column))
            if problem is not None:
                return (
                    f"column '{attribute.column}' {problem} (attribute '{attribute.name}', whose "
                    "`missing` lists words for no value)"
                )
    return None


def _problem_of_text(text: str, params: PrepareSettings) -> str | None:
    if not text.strip():
        return "the text is empty"
    if "\0" in text:
        return "the text contains a NUL byte"
    if len(text) > params.max_characters:
        return f"the text is longer than prepare.max_characters={params.max_characters}"
    return "the text contains half a character (a lone surrogate)" if is_half(text) else None


def _rows(numbers: Sequence[int]) -> str:
    first_rows = ", ".join(map(str, numbers[:_SHOWN_ROWS]))
    more = f" and {len(numbers) - _SHOWN_ROWS} more" if len(numbers) > _SHOWN_ROWS else ""
    return f"row{'s' if len(numbers) > 1 else ''} {first_rows}{more}"


def _id_of(row: Row, params: PrepareSettings, text: str) -> str:
    if params.id_column is None:
        return hashlib.sha256(text.encode()).hexdigest()[:32]
    return str(text_of(row.fields[params.id_column]))


def _says_nothing(row: Row, column: str | None) -> bool:
    return column is not None and not (text_of(row.fields.get(column)) or "").strip()


def frame_of(records: Sequence[Record], schema: Schema) -> pd.DataFrame:
    """Return a frame with columns id, text and raw_<attribute>. Missing raw values are None."""
    import pandas as pd

    names = list(columns_of(schema))
    columns: dict[str, Any] = {
        "id": pd.Series([r.id for r in records], dtype="str"),
        "text": pd.Series([r.text for r in records], dtype="str"),
    }
    for index, name in enumerate(names):
        columns[RAW + name] = pd.Series([r.raw[index] for r in records], dtype="object")
    return pd.DataFrame(columns)


def wanted_columns(params: PrepareSettings, schema: Schema, *, private: bool) -> Mapping[str, str]:
    """Map each required column to the setting that names the column."""
    shape = shape_of(schema, params)
    columns = dict(shape.columns)
    if private and params.id_column is not None:
        columns.setdefault(params.id_column, "prepare.id_column")
    for name, column in columns_of(schema).items():
        if not shape.is_computed(column):
            columns.setdefault(column, f"attribute '{name}'")
    if private and params.user_column is not None:
        columns.setdefault(params.user_column, "prepare.user_column")
    return columns


def donated_records(
    rows: Sequence[Row], settings: PrepareSettings, schema: Schema, *, source: str
) -> pd.DataFrame:
    """Convert `rows` to donated examples: the columns of private records, and labels.

    An attribute that is read from the text has its labels in the column `label_<attribute>`. The
    labels are the values in the file's column with the attribute's name, or None.
    """
    import pandas as pd

    without_id = settings.model_copy(update={"id_column": None, "user_column": None})
    setting, notations = "prepare.donated", NotationsOfColumns()
    rows = tuple(shape_of(schema, settings).grouped(rows))
    records, _ = usable(
        rows, without_id, schema, source=source, setting=setting, notations=notations
    )
    require_decimal_signs(notations, schema, source=source, setting=setting)
    frame = frame_of(records, schema)
    fields = {row.number: row.fields for row in rows}
    for attribute in schema.attributes:
        if attribute.column is None:
            labels = [attribute.raw(fields[r.number].get(attribute.name)) for r in records]
            frame[LABEL + attribute.name] = pd.Series(labels, dtype="object")
    return frame
