"""Settings of `sugarbush.examples`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.settings import AtLeastOne, Section


class MakeExampleSettings(Section):
    """Settings of the embedded example corpus."""

    records: Annotated[int, Field(ge=100)] = 5600
    """Number of records in the corpus."""
    donated: AtLeastOne = 50
    """Number of donated examples."""
    seed: int = 1
    """Seed of the corpus."""
