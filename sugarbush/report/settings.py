"""Settings of `sugarbush.report`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.settings import Section


class ReportSettings(Section):
    """The pages."""

    title: str | None
    texts: Annotated[int, Field(ge=0)]
