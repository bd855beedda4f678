"""The unit that the guarantee protects, and the limits of its records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sugarbush.errors import PrivacyError


class Unit(StrEnum):
    """The privacy unit. Two neighbouring corpora differ by one added or removed unit."""

    RECORD = "record"
    USER = "user"


ADJACENCY = "add/remove one unit"


@dataclass(frozen=True, kw_only=True)
class ContributionBounds:
    """The protected unit, and the maximum number of records per unit.

    Stage prepare applies the bounds and stores them with the records. `user_column` is the column
    of the user, or None if the unit is a record.

    >>> ContributionBounds.from_json(ContributionBounds().as_json()) == ContributionBounds()
    True
    """

    unit: Unit = Unit.RECORD
    user_column: str | None = None
    records_per_unit: int = 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Any) -> ContributionBounds:
        return cls(
            unit=Unit(fields["unit"]),
            user_column=fields["user_column"],
            records_per_unit=int(fields["records_per_unit"]),
        )

    def __str__(self) -> str:
        if self.unit is Unit.RECORD:
            return "unit record"
        return (
            f"unit user by column '{self.user_column}' with at most {self.records_per_unit} "
            "records per user"
        )

    def require(self, bounds: ContributionBounds) -> None:
        """Raise PrivacyError if the settings' `bounds` differ from these bounds."""
        if bounds != self:
            raise PrivacyError(
                f"params.yaml: the settings say {bounds}, but stage prepare split the records for "
                f"{self}. The noise would be wrong for these records. Run `sugarbush run` (or "
                "`dvc repro prepare`), or set privacy.unit, privacy.records_per_user and "
                "prepare.user_column back"
            )
