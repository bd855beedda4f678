"""The unit that the guarantee protects."""

from enum import StrEnum


class Unit(StrEnum):
    """The privacy unit. Two neighbouring corpora differ by one added or removed unit."""

    RECORD = "record"
    USER = "user"


ADJACENCY = "add/remove one unit"
