"""Tests of exact binomial bounds of a share."""

import numpy as np
import pytest

from sugarbush.privacy.binomial import share


def test_no_miss_in_200_still_leaves_one_and_a_half_percent():
    assert share([False] * 200, confidence=0.95).upper == pytest.approx(0.01487, abs=1e-5)


def test_the_bound_is_1_if_all_cases_are_true_and_without_cases():
    assert share([True] * 5, confidence=0.95).upper == 1
    assert (share([], confidence=0.95).lower, share([], confidence=0.95).upper) == (0, 1)


def test_the_bounds_cover_at_their_rate():
    # 400 samples of 60 cases at each of three rates. If the coverage is 95%, the probability that
    # fewer than 362 intervals contain the rate is below 5e-5. Wald's interval, which is not exact,
    # contains the rate much less often at rate 0.02.
    rng = np.random.default_rng(5)
    for rate in (0.02, 0.1, 0.5):
        draws = rng.random((400, 60)) < rate
        bounds = [share(list(row), confidence=0.95) for row in draws]
        assert sum(b.upper >= rate for b in bounds) >= 362
        assert sum(b.lower <= rate for b in bounds) >= 362
