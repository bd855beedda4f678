"""Tests the limits of calls to an endpoint."""

from __future__ import annotations

import pytest

from sugarbush.generators.openai.endpoints import _limiter


@pytest.mark.parametrize("per_minute", [1 / 1440, 6.0, 240.0, 1e6])
@pytest.mark.parametrize("largest", [1, 1500])
def test_a_rate_limit_refills_what_the_setting_says_and_holds_the_largest_call(
    per_minute: float, largest: int
) -> None:
    limiter = _limiter(per_minute, largest=largest)
    assert limiter.max_rate / limiter.time_period * 60 == pytest.approx(per_minute)
    assert limiter.max_rate >= largest
