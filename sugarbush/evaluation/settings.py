"""Settings of `sugarbush.evaluation`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.settings import Count, Section

DEFAULT_SHARE = 0.04  # of mu^2, for public figures (docs/log/first_look.md)


class EvaluateSettings(Section):
    """Metrics that compare synthetic with real texts: internal ones, and DP ones to publish."""

    public: bool | Annotated[float, Field(gt=0, lt=1)] = True
    """Share of the budget (of mu^2) to measure the release; true: 0.04 if the run spends budget."""
    show: bool = True
    """Whether metrics are computed and shown. The card counts the runs with shown metrics."""
    max_texts: Annotated[int, Field(ge=10)] = 2000
    """Maximum number of real texts, and of synthetic texts per method, that are used."""
    bootstrap: Count = 100
    """Number of bootstrap resamples for the confidence intervals."""

    @property
    def public_share(self) -> float:
        """The share of mu^2 for public figures; 0 if they are not measured."""
        if isinstance(self.public, bool):
            return DEFAULT_SHARE if self.public else 0.0
        return self.public
