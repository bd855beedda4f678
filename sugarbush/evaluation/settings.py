"""Settings of `sugarbush.evaluation`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from sugarbush.settings import Count, Section


class EvaluateSettings(Section):
    """Metrics against the held-out texts. They are internal: not DP."""

    removed: ClassVar[tuple[str, ...]] = ("next_token", "fine_tuned", "second_encoder")

    max_texts: Annotated[int, Field(ge=10)] = 2000
    """Real texts used, at most."""
    texts: Annotated[int, Field(ge=10)] | None = None
    """Texts of each final set; null: as many as the smallest set has."""
    clusters: Annotated[int, Field(ge=2)] | None = None
    """Clusters of MAUVE; null: a tenth of the texts of the smaller side."""
    bootstrap: Count = 100
    """Resamples for the confidence intervals."""
    seed: int = 1
    """Seed of clusters and resamples."""
