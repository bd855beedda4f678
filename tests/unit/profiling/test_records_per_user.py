"""Tests the proposal of `privacy.records_per_user`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sugarbush.profiling.bins import RECORDS
from sugarbush.profiling.records_per_user import proposed_records_per_user
from tests.unit.profiling.test_draft import profile_of

NOISE = 13.0  # of a count of a run with epsilon 1 and a tenth of mu^2


@pytest.mark.parametrize(
    ("name", "users", "mean"),
    [("one each", 3000, 1.0), ("few", 3500, 2.3), ("many", 3000, 12.0), ("few users", 300, 9.0)],
)
def test_the_proposal_has_the_smallest_error_of_a_share(name: str, users: int, mean: float) -> None:
    records = np.random.default_rng(1).geometric(1 / mean, users)
    counts = np.bincount([RECORDS.of(n) for n in records], minlength=RECORDS.size)
    profile = replace(profile_of([1.0] * users), records_per_user=tuple(counts.tolist()))
    found = proposed_records_per_user(profile, stddev=NOISE)
    assert found is not None
    used = {m: int(np.minimum(records, m).sum()) for m in range(1, 101)}
    error = {m: math.hypot(0.5 / math.sqrt(k), m * NOISE / k) for m, k in used.items()}
    assert error[found.limit] <= 1.05 * min(error.values()), name
    assert found.used == pytest.approx(used[found.limit] / records.sum(), abs=0.05)
    assert found.used_with_one == pytest.approx(users / records.sum(), abs=0.05)
    assert f"{found.limit} times as large" in found.cost or found.limit == 1


def test_without_users_or_with_too_much_noise_nothing_is_proposed() -> None:
    profile = profile_of([1.0] * 300)
    assert proposed_records_per_user(profile, stddev=NOISE) is None
    counts = tuple([300] + [0] * (RECORDS.size - 1))
    noisy = replace(profile, records_per_user=counts, stddev={**profile.stddev, "sizes": 99.0})
    assert proposed_records_per_user(noisy, stddev=NOISE) is None
