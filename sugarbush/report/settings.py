"""Settings of `sugarbush.report`."""

from __future__ import annotations

from sugarbush.settings import Count, Section


class ReportSettings(Section):
    """The report's pages."""

    title: str | None = None
    """Title of the report; null: the schema's subject."""
    texts: Count = 5000
    """Number of texts of each method that the pages show. 5,000 of 100 words are about 4 MB."""
