"""Settings of `sugarbush.evaluation`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.settings import Count, Section


class EvaluateSettings(Section):
    """Metrics that compare synthetic with held-out texts. The results are internal, not DP."""

    show: bool = True
    """Whether metrics are computed and shown. The card counts the runs with shown metrics."""
    max_texts: Annotated[int, Field(ge=10)] = 2000
    """Maximum number of real texts, and of synthetic texts per method, that are used."""
    bootstrap: Count = 100
    """Number of bootstrap resamples for the confidence intervals."""
