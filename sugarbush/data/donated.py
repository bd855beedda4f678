"""Donated examples: the columns that they need, and their labels. They are public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from sugarbush.data.private_store import LABEL
from sugarbush.data.reading import Row
from sugarbush.data.records import as_text, columns_of, frame_of, usable
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError


def wanted_columns(params: PrepareSettings, schema: Schema, *, private: bool) -> Mapping[str, str]:
    """Every required column, and the settings that name it. Donated texts need no id."""
    columns = {params.text_column: "prepare.text_column"}
    if private and params.id_column is not None:
        columns.setdefault(params.id_column, "prepare.id_column")
    for name, column in columns_of(schema).items():
        columns.setdefault(column, f"attribute '{name}'")
    if private and params.user_column is not None:
        if params.user_column in columns and params.user_column != params.id_column:
            raise InputError(
                f"column '{params.user_column}' names the user of a record (prepare.user_column) "
                f"and is used by {columns[params.user_column]} too. It would be written into "
                "prompts and texts: remove it there"
            )
        columns.setdefault(params.user_column, "prepare.user_column")
    return columns


def donated_records(
    rows: Sequence[Row], settings: PrepareSettings, schema: Schema, *, source: str
) -> pd.DataFrame:
    """The donated examples of `rows`, in the columns of the private ones.

    An attribute that is read from the text gets its true values in column `label_<attribute>`, if
    the rows have a column with the attribute's name.
    """
    without_id = settings.model_copy(update={"id_column": None, "user_column": None})
    records, _ = usable(rows, without_id, schema, source=source, setting="prepare.donated")
    frame = frame_of(records, schema)
    fields = {row.number: row.fields for row in rows}
    for attribute in schema.attributes:
        if attribute.column is None:
            labels = [as_text(fields[r.number].get(attribute.name)) for r in records]
            frame[LABEL + attribute.name] = pd.Series(labels, dtype="object")
    return frame
