"""Proposes `privacy.records_per_user` from the DP numbers of records of users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sugarbush.profiling.bins import RECORDS, consistent
from sugarbush.profiling.release import ReleasedProfile, percent

MOST: Final = 100
_SHARE: Final = 0.5  # the share of the records that the error below is about


@dataclass(frozen=True, kw_only=True)
class RecordsPerUser:
    """A limit of records per user, and the share of all records that are used with it.

    `used_with_one` is the share for the limit 1.
    """

    limit: int
    used: float
    used_with_one: float

    @property
    def cost(self) -> str:
        """Say what the limit costs and what it saves, from released counts alone."""
        used = f"about {percent(self.used)} of the records are used"
        if self.limit == 1:
            return f"{used}; a larger limit would add more noise than it adds records"
        return (
            f"{used} (with 1: {percent(self.used_with_one)}), and the noise of every count is "
            f"{self.limit} times as large"
        )


def proposed_records_per_user(profile: ReleasedProfile, *, stddev: float) -> RecordsPerUser | None:
    """Return the limit for which the share of a frequent value has the smallest error, or None if
    the unit is no user or the noise is too large.

    With the limit m, k records are used, and the noise of a count is m * `stddev`. The error of a
    share of 50% has the variance 0.25 / k from the choice of the records, and (m * stddev / k)^2
    from the noise. `stddev` is the noise of a count of the run with one record per user.
    """
    if profile.records_per_user is None or not profile.records_of_users():
        return None
    counts = consistent(
        np.array(profile.records_per_user), total=profile.records, stddev=profile.stddev["sizes"]
    )
    ends = (*RECORDS.edges[1:], RECORDS.edges[-1] + 1)
    of_bins = np.array(
        [(low + high - 1) / 2 for low, high in zip(RECORDS.edges, ends, strict=True)]
    )
    every = float(counts @ of_bins)
    used = {limit: float(counts @ np.minimum(of_bins, limit)) for limit in range(1, MOST + 1)}

    def error(limit: int) -> float:
        sampling = _SHARE * (1 - _SHARE) / used[limit]
        return math.hypot(math.sqrt(sampling), limit * stddev / used[limit])

    best = min(used, key=error)
    return RecordsPerUser(limit=best, used=used[best] / every, used_with_one=used[1] / every)
