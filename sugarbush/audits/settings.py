"""Settings of `sugarbush.audits`."""

from __future__ import annotations

from sugarbush.settings import Section


class AuditSettings(Section):
    """Attacks on the texts and the methods, for the example or public data. Internal: not DP."""

    enabled: bool = False
    """Whether stage audit runs."""
