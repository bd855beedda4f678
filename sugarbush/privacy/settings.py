"""Settings of `sugarbush.privacy`."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from sugarbush.privacy.unit import Unit
from sugarbush.settings import Section, Share


class Purpose(StrEnum):
    """What the result is for. Only a release may be published; a benchmark's data is public."""

    RELEASE = "release"
    BENCHMARK = "benchmark"
    EXAMPLE = "example"


class Shares(Section):
    """Shares of mu^2: the metadata stage's and the synthesis's (votes)."""

    metadata: Share
    synthesis: Share

    @model_validator(mode="after")
    def _whole(self) -> Shares:
        total = self.metadata + self.synthesis
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"must add up to 1, got {total:g}")
        return self


class PrivacySettings(Section):
    """Whose privacy, how much, and which budget it draws on.

    `dataset` null takes the data file's name, `purpose` null is the example's for the example and
    a release for everything else; `parse_params` fills both in. `records_per_user` is how many
    records of one person are used at most; under `unit: record` it is 1.
    """

    dataset: str
    purpose: Purpose
    unit: Unit
    records_per_user: Annotated[int, Field(ge=1)]
    epsilon: Annotated[float, Field(gt=0, le=100)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    shares: Shares
    cap: Annotated[float, Field(gt=0)]

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
        """What of the promise a draw depends on, beside its noise: for the digest of the draw."""
        per_user = [self.records_per_user] if self.unit is Unit.USER else []
        return [self.unit.value, *per_user, self.delta]
