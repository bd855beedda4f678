"""Settings of `sugarbush.evaluation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sugarbush.settings import Count, Section


class EvaluateSettings(Section):
    """Metrics against the held-out texts. They are internal: not DP."""

    removed_settings: ClassVar[Mapping[str, Any]] = {
        "next_token": None,
        "fine_tuned": None,
        "second_encoder": None,
    }

    show: bool = True
    """Whether figures are computed and shown; the card counts the runs whose figures were."""
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
