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
    """Maximum number of real texts that are used."""
    texts: Annotated[int, Field(ge=10)] | None = None
    """Maximum number of synthetic texts per method that are used; null: max_texts."""
    clusters: Annotated[int, Field(ge=2)] | None = None
    """Number of clusters of MAUVE; null: 1/10 of the number of texts in the smaller sample."""
    bootstrap: Count = 100
    """Number of bootstrap resamples for the confidence intervals."""
    seed: int = 1
    """Seed of the clusters and the resamples."""
