"""Settings of `sugarbush.data`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sugarbush.settings import Section

EXAMPLE_FOLDER = "data/public/example/"


EXAMPLE_FILE = EXAMPLE_FOLDER + "corpus.jsonl"  # and no other: its ledger is thrown away with it


class BadRows(StrEnum):
    """What becomes of rows that hold no usable text."""

    REFUSE = "refuse"
    DROP = "drop"


class PrepareSettings(Section):
    """The user's file and how it is read and split. `user_column` says whose a record is."""

    file: str
    text_column: str
    id_column: str | None
    user_column: str | None
    donated: str | None
    schema_: str = Field(alias="schema")
    heldout_share: Annotated[float, Field(gt=0, lt=1)]
    exclude_share: Annotated[float, Field(ge=0, lt=1)]
    max_characters: Annotated[int, Field(ge=1)]
    min_records: Annotated[int, Field(ge=2)]
    bad_rows: BadRows
