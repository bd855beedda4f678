"""Settings of `sugarbush.report`."""

from __future__ import annotations

from sugarbush.settings import Count, Section


class ReportSettings(Section):
    """The report's pages."""

    title: str | None = None
    """Title of the report; null: the schema's subject."""
    texts: Count = 300
    """Number of synthetic texts that the pages show."""
