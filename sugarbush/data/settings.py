"""Settings of `sugarbush.data`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sugarbush.settings import AtLeastOne, Section

EXAMPLE_FOLDER = "data/public/example/"
# With this file, the ledger is inside the checkout.
EXAMPLE_FILE = EXAMPLE_FOLDER + "corpus.jsonl"


def is_in_example(file: str | None) -> bool:
    """Return whether a setting names a file of the embedded example.

    >>> is_in_example("data/public/example/donated.jsonl"), is_in_example(None)
    (True, False)
    """
    return file is not None and file.startswith(EXAMPLE_FOLDER)


class BadRows(StrEnum):
    """What `prepare` does with a row without a usable text."""

    REFUSE = "refuse"
    DROP = "drop"


class PrepareSettings(Section):
    """How the private file is read and split."""

    file: str = EXAMPLE_FILE
    """The private file or folder: csv, jsonl (also .gz, .zst) or parquet. URLs: s3://."""
    text_column: str = "text"
    """Column of the texts."""
    id_column: str | None = None
    """Column of the record's id; null: a hash of the text is the id."""
    user_column: str | None = None
    """Column of the user who wrote the record; only with privacy.unit: user."""
    donated: str | None = EXAMPLE_FOLDER + "donated.jsonl"
    """File of donated examples, which are not protected; null: no examples."""
    accept_overlap: bool = False
    """Whether public texts may resemble records: you declare that all of them may be published."""
    schema_: str = Field(EXAMPLE_FOLDER + "schema.yaml", alias="schema")
    """File of the schema: the attributes of a record and their public values."""
    heldout_share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Fraction of the records that are held out for the metrics."""
    exclude_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Fraction of the texts that is removed and left to a pool with the same `share`."""
    max_characters: AtLeastOne = 100_000
    """Maximum number of characters in a text; a row with a longer text is a bad row."""
    min_records: Annotated[int, Field(ge=2)] = 100
    """Minimum number of training records; a smaller corpus is refused."""
    bad_rows: BadRows = BadRows.REFUSE
    """refuse: stop at a row without a usable text; drop: omit the row."""
