"""Settings of `sugarbush.audits`."""

from __future__ import annotations

from sugarbush.settings import Section


class AuditSettings(Section):
    """Attacks on texts and methods, for the example or for public data. The results are not DP."""

    enabled: bool = False
    """Whether stage audit runs."""
