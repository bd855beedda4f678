"""Whom the guarantee protects, and which corpora are neighbours."""

from enum import StrEnum


class Unit(StrEnum):
    """The privacy unit. Neighbouring corpora differ by adding or removing one unit."""

    RECORD = "record"
    USER = "user"


ADJACENCY = "add/remove one unit"
