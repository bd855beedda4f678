"""Settings of `sugarbush.privacy`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from sugarbush.errors import ParamsError
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.unit import Unit
from sugarbush.settings import NOT_IN_OUTPUT, AtLeastOne, Section

LARGE_DELTA = 1e-5
MOST_DAYS = 3660  # between two draws: ten years
SMALLEST_EPSILON, LARGEST_EPSILON = 0.001, 100
DEFAULT_CAP, LARGEST_CAP = 4.0, 1000.0
# The name is a part of paths in the state folder, so only safe characters are allowed.
DATASET_NAME = "[a-z0-9][a-z0-9_.-]{0,63}"


class Purpose(StrEnum):
    """The purpose of a run. Only a release may be published. A benchmark uses public data."""

    RELEASE = "release"
    BENCHMARK = "benchmark"
    EXAMPLE = "example"


class WhenSpent(StrEnum):
    """What a run does that the cap does not allow: it stops, or it reuses the last release."""

    REFUSE = "refuse"
    REUSE = "reuse"


class PrivacySettings(Section):
    """The protected unit, the guarantee and the ledger.

    If `dataset` or `purpose` is null, a project derives the value from the data file.

    >>> PrivacySettings(epsilon=1, delta=1e-6, dataset="tickets").delta
    1e-06
    """

    dataset: Annotated[str, Field(pattern=rf"^({DATASET_NAME})?$")] = ""  # no ledger accepts ""
    """Name of the ledger; all files about the same people need the same name."""
    different_from: tuple[str, ...] = ()
    """Datasets with similar texts that share no person with this dataset."""
    purpose: Purpose = Purpose.RELEASE
    """release, benchmark (public data) or example; null: derived from prepare.file."""
    unit: Unit = Unit.RECORD
    """The protected unit: a record, or a user with all of their records (prepare.user_column)."""
    records_per_user: AtLeastOne = 1
    """Maximum number of records per user; a larger number needs more noise on counts."""
    epsilon: Annotated[float, Field(ge=SMALLEST_EPSILON, le=LARGEST_EPSILON)] = 1.0
    """Epsilon that one run may spend."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-6
    """Delta for every epsilon: at most 1e-5, and below 1 / (number of units)."""
    allow_large_delta: bool = False
    """Allows a delta above 1e-5. With probability delta, a whole record may become public."""
    metadata_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of a run's budget (of mu^2) for DP metadata; votes, scores or DP-SGD get the rest."""
    cap: Annotated[float, Field(gt=0, le=LARGEST_CAP)] | None = None
    """Epsilon that all runs on this dataset may spend together; null: the stored cap, or 4."""
    when_spent: Annotated[WhenSpent, NOT_IN_OUTPUT] = WhenSpent.REFUSE
    """refuse: a run above the cap stops; reuse: it reuses the last release and charges nothing."""
    days_between_draws: Annotated[int, Field(ge=0, le=MOST_DAYS), NOT_IN_OUTPUT] = 0
    """A run sooner after the last draw reuses the last release and charges nothing; 0: never."""

    @model_validator(mode="after")
    def _consistent(self) -> PrivacySettings:
        if self.unit is Unit.RECORD and self.records_per_user != 1:
            raise ValueError(
                f"`records_per_user: {self.records_per_user}` needs `unit: user`, because with "
                "`unit: record` every record is used. Set `records_per_user: 1` or `unit: user`"
            )
        if self.dataset and self.dataset in self.different_from:
            raise ValueError(
                f"different_from names the dataset itself, '{self.dataset}'. A dataset has one "
                "budget for all purposes"
            )
        if self.delta > LARGE_DELTA and not self.allow_large_delta:
            raise ValueError(
                f"delta={rounded_up(self.delta)} is above {rounded_up(LARGE_DELTA)}. With this "
                "probability, a whole record may become public. Lower delta, or set "
                "`privacy.allow_large_delta: true`"
            )
        return self

    def is_large_delta(self, records: float) -> bool:
        """Return whether delta > 1 / `records`, and the settings do not allow it."""
        return not self.allow_large_delta and self.delta > 1 / max(records, 1)

    def check_delta(self, records: float | None) -> None:
        """Raise ParamsError if delta > 1 / `records`, the DP count of records (None: no count)."""
        if records is None or not self.is_large_delta(records):
            return
        raise ParamsError(
            f"params.yaml: privacy.delta={rounded_up(self.delta)} is above 1 / (DP count of "
            f"records, {records:.0f}). Lower delta, or set `privacy.allow_large_delta: true`"
        )

    @property
    def promise(self) -> list[str | int | float]:
        """The privacy settings in the cache key of a result, without the noise."""
        per_user = [self.records_per_user] if self.unit is Unit.USER else []
        return [self.unit.value, *per_user, self.delta]
