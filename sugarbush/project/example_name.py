"""The names of the embedded examples, for `sugarbush init --example`."""

from enum import StrEnum


class ExampleName(StrEnum):
    """What a record of the embedded example is."""

    TEXTS = "texts"
    CONVERSATIONS = "conversations"
