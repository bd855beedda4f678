"""Settings of `sugarbush.tables`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sugarbush.settings import Section


class Engine(StrEnum):
    """Who synthesizes the DP table."""

    SUGARBUSH = "sugarbush"
    SMARTNOISE = "smartnoise"
    MST = "mst"
    INDEPENDENT = "independent"


class SynthesizeMetadataSettings(Section):
    """AIM. `attributes` limits the table to some of the schema's; None: all."""

    engine: Engine
    attributes: Annotated[tuple[str, ...], Field(min_length=1)] | None
    degree: Annotated[int, Field(ge=1, le=4)]
    max_cells: Annotated[int, Field(ge=1)]
    max_model_mb: Annotated[float, Field(gt=0)]
    label: str | None
    seed: int
