"""Settings of `sugarbush.tables`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sugarbush.settings import AtLeastOne, Positive, Section


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
    max_cells: AtLeastOne = 10_000
    """Maximum number of cells in a marginal."""
    max_model_mb: Positive = 4.0
    """Maximum size of the graphical model. A larger model is slower and not more accurate."""
    label: str | None = None
    """augpe starts from DP counts of the values of this attribute; null: the first attribute."""
    seed: int = 1
    """Seed of the rows that are sampled from the fitted model."""
