"""Settings of `sugarbush.tables`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sugarbush.settings import Section


class Engine(StrEnum):
    """The algorithm that synthesizes the DP table."""

    SUGARBUSH = "sugarbush"
    SMARTNOISE = "smartnoise"
    INDEPENDENT = "independent"


class SynthesizeMetadataSettings(Section):
    """The DP table of metadata, by AIM."""

    engine: Engine = Engine.SUGARBUSH
    """sugarbush: our AIM; smartnoise: smartnoise-synth's AIM; independent: one-way marginals."""
    attributes: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Attributes of the schema that the table contains; null: all."""
    degree: Annotated[int, Field(ge=1, le=4)] = 2
    """Maximum number of attributes in a marginal."""
    label: str | None = None
    """augpe starts from DP counts of the values of this attribute; null: the first attribute."""
