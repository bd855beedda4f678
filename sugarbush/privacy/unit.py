"""The unit that the guarantee protects, and the neighbours of a corpus."""

from enum import StrEnum


class Unit(StrEnum):
    """The privacy unit. Neighbouring corpora differ by adding or removing one unit."""

    RECORD = "record"
    USER = "user"


ADJACENCY = "add/remove one unit"
