"""Settings of `sugarbush.report`."""

from __future__ import annotations

from sugarbush.settings import Count, Section


class ReportSettings(Section):
    """Settings of the pages of the report."""

    title: str | None = None
    """Title of the report; null: the schema's subject."""
    accept_poor: bool = False
    """Whether a release with the verdict poor is a success; false: exit code 3."""
    texts: Count = 5000
    """Maximum number of texts per method on the pages. 5,000 texts of 100 words need about 4 MB."""
