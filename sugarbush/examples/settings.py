"""Settings of `sugarbush.examples`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.settings import Section


class MakeExampleSettings(Section):
    """The embedded example corpus."""

    records: Annotated[int, Field(ge=100)]
    donated: Annotated[int, Field(ge=1)]
    seed: int
