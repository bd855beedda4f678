"""Settings of `sugarbush.data`."""

from __future__ import annotations

import codecs
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from sugarbush.data.formats.rows import ReadOptions, ThreadColumns
from sugarbush.data.remote import is_database, is_remote
from sugarbush.privacy.remarks import ROWS_SETTING
from sugarbush.settings import AtLeastOne, Section

EXAMPLE_FOLDER = "data/public/example/"
# With these files, the ledger is inside the checkout.
EXAMPLE_FILE = EXAMPLE_FOLDER + "corpus.jsonl"
CONVERSATIONS_FILE = EXAMPLE_FOLDER + "conversations.jsonl"
EXAMPLE_FILES = (EXAMPLE_FILE, CONVERSATIONS_FILE)


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


# Codecs that are no encodings of a file, or that execute escapes in a text.
_NO_ENCODINGS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}


MOST_HEADER_ROWS = 20
FRAME = "a frame"  # the name of records that `sb.prepare` received


class MessageColumns(Section):
    """The columns of a file in which each row is a message."""

    thread: str
    """Column of the thread. All rows of a thread are one record."""
    speaker: str
    """Column of the speaker: one of the roles in the schema."""
    time: str | None = None
    """Column of the time; null: messages are in the order of the rows."""


class PrepareSettings(Section):
    """How the private file is read and split."""

    file: str = EXAMPLE_FILE
    """The private file, folder or database, also a URL: s3://, postgresql://, sqlite:///."""
    encoding: str | None = None
    """Encoding of csv and json files without a byte order mark, such as cp1252; null: UTF-8."""
    table: str | None = None
    """Sheet of a workbook, list in a JSON file, table or SELECT of a database; null: what fits."""
    header_rows: Annotated[int, Field(ge=1, le=MOST_HEADER_ROWS)] | None = None
    """Number of rows above the first record of a csv or xlsx file; null: 1."""
    rows_depend_on_other_rows: bool | None = None
    """false: you declare that no row depends on others, for a query that cannot be checked."""
    text_column: str = "text"
    """Column of the texts."""
    id_column: str | None = None
    """Column of the record's id; null: a hash of the text is the id."""
    user_column: str | None = None
    """Column of the user who wrote the record; only with privacy.unit: user."""
    messages: MessageColumns | None = None
    """If each row is a message: its columns thread, speaker and time. A thread is a record."""
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

    @property
    def read_options(self) -> ReadOptions:
        """How to read the private file."""
        return ReadOptions(
            encoding=self.encoding,
            table=self.table,
            header_rows=self.header_rows,
            thread=self.thread,
            rows_are_independent=self.rows_depend_on_other_rows is False,
        )

    @property
    def thread(self) -> ThreadColumns | None:
        """The columns of messages, if each row is one."""
        if (messages := self.messages) is None:
            return None
        return ThreadColumns(
            thread=messages.thread,
            speaker=messages.speaker,
            text=self.text_column,
            time=messages.time,
            user=self.user_column,
        )

    @model_validator(mode="after")
    def _thread_is_the_record(self) -> PrepareSettings:
        if self.messages is not None and self.id_column != self.messages.thread:
            raise ValueError(
                "with messages, a thread is a record. Set id_column to the column of the thread"
            )
        return self

    @model_validator(mode="after")
    def _rows_are_independent(self) -> PrepareSettings:
        if self.rows_depend_on_other_rows:
            raise ValueError(
                f"{ROWS_SETTING} is true, but then one more row could change many, and no "
                "guarantee holds. Write each row to a table of its own values, and read that table"
            )
        is_query = is_remote(self.file) and not is_database(self.file) and "?" in self.file
        if is_query and self.rows_depend_on_other_rows is None:
            raise ValueError(
                "file is a URL with a query, and a server may choose rows that depend on other "
                "rows, such as the newest 50. Name a file without `?`. If you know that no row "
                f"depends on others, set {ROWS_SETTING}: false; the release card will say so"
            )
        return self

    @field_validator("encoding")
    @classmethod
    def _is_an_encoding(cls, encoding: str | None) -> str | None:
        if encoding is None:
            return None
        try:
            name = codecs.lookup(encoding).name
            "text".encode(encoding)  # raises LookupError for a codec of bytes
        except (LookupError, ValueError):
            raise ValueError("is not the name of an encoding, such as cp1252") from None
        if name.replace("_", "-") in _NO_ENCODINGS:
            raise ValueError("is not an encoding of files. Choose another one, such as cp1252")
        return encoding
