"""Settings of `sugarbush.data`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from sugarbush.data.remote import has_credentials
from sugarbush.settings import AtLeastOne, Section

EXAMPLE_FOLDER = "data/public/example/"


# This path marks the example corpus, for which the ledger is inside the checkout.
EXAMPLE_FILE = EXAMPLE_FOLDER + "corpus.jsonl"


class BadRows(StrEnum):
    """What `prepare` does with rows without a usable text."""

    REFUSE = "refuse"
    DROP = "drop"


class PrepareSettings(Section):
    """The private file, how it is read, and how it is split."""

    file: str = EXAMPLE_FILE
    """The private file: csv, jsonl (also .gz, .zst) or parquet; or a folder of them. URLs: s3://."""
    text_column: str = "text"
    """Column of the texts."""
    id_column: str | None = None
    """Column of the record's id; null: a hash of the text."""
    user_column: str | None = None
    """Column of the user who wrote the record; only with privacy.unit: user."""
    donated: str | None = EXAMPLE_FOLDER + "donated.jsonl"
    """Donated examples, which are not protected; null: none (use null with your own file)."""
    schema_: str = Field(EXAMPLE_FOLDER + "schema.yaml", alias="schema")
    """The schema: attributes of a record and their public values."""
    heldout_share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the records that are held out for the metrics."""
    exclude_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the texts, chosen by hash, that is excluded for a public pool (its `share`)."""
    max_characters: AtLeastOne = 100_000
    """Maximum number of characters in a text; a row with a longer text is a bad row."""
    min_records: Annotated[int, Field(ge=2)] = 100
    """Minimum number of records in the train part; a smaller corpus is refused."""
    bad_rows: BadRows = BadRows.REFUSE
    """refuse: stop at a row without a usable text; drop: omit the row."""

    @field_validator("file")
    @classmethod
    def _without_credentials(cls, file: str) -> str:
        if has_credentials(file):
            raise ValueError(
                "a URL must have no user, password or query, because settings are public. Set the "
                "credentials in the environment"
            )
        return file
