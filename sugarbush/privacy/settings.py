"""Settings of `sugarbush.privacy`."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from sugarbush.privacy.unit import Unit
from sugarbush.settings import AtLeastOne, Positive, Section, Share


class Purpose(StrEnum):
    """What the result is for. Only a release may be published; a benchmark's data is public."""

    RELEASE = "release"
    BENCHMARK = "benchmark"
    EXAMPLE = "example"


class Shares(Section):
    """How the budget is split: shares of mu^2 in Gaussian DP, which add up to 1."""

    metadata: Share = 0.1
    """Share of the DP metadata."""
    synthesis: Share = 0.9
    """Share of votes, or of the training by DP-SGD."""

    @model_validator(mode="after")
    def _whole(self) -> Shares:
        total = self.metadata + self.synthesis
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"must add up to 1, got {total:g}")
        return self


class PrivacySettings(Section):
    """What is protected, how strongly, and which ledger is charged.

    A project derives `dataset` and `purpose` from the data file if they are null or missing.

    >>> PrivacySettings(epsilon=1, delta=1e-6, dataset="tickets").cap
    4.0
    """

    dataset: str = ""  # an invalid name, which no ledger accepts
    """Name of the ledger that is charged; null: the name of the data file."""
    purpose: Purpose = Purpose.RELEASE
    """release, benchmark (public data) or example; null: by the data file."""
    unit: Unit = Unit.RECORD
    """What is protected: one record, or a user with all their records (prepare.user_column)."""
    records_per_user: AtLeastOne = 1
    """Maximum of records used per user; the noise of counts grows with it."""
    epsilon: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Epsilon that one run may spend."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-6
    """Delta of every epsilon."""
    shares: Shares = Shares()
    cap: Positive = 4.0
    """Epsilon that all runs on this dataset may spend together."""

    @model_validator(mode="after")
    def _one_record_a_record(self) -> PrivacySettings:
        if self.unit is Unit.RECORD and self.records_per_user != 1:
            raise ValueError(
                f"records_per_user={self.records_per_user} is for unit: user; with unit: record "
                "every record is used. Set it to 1, or unit to user"
            )
        return self

    @property
    def promise(self) -> list[str | int | float]:
        """Settings that a cached result depends on, besides its noise: part of its cache key."""
        per_user = [self.records_per_user] if self.unit is Unit.USER else []
        return [self.unit.value, *per_user, self.delta]
