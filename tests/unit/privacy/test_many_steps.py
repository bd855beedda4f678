"""Tests that rounding of many composed steps never makes epsilon too small."""

from __future__ import annotations

import math

import pytest

from sugarbush.privacy.accounting import delta, epsilon, gaussian_epsilon
from sugarbush.privacy.events import PoissonGaussian


@pytest.mark.parametrize(
    ("steps", "mu"), [(5_000, 0.2), (20_000, 1.0), (100_000, 0.2), (1_000_000, 0.5)]
)
@pytest.mark.parametrize("promised", [1e-6, 1e-9, 1e-10, 1e-11, 1e-12, 1e-14])
def test_many_steps_have_at_least_the_exact_epsilon(steps: int, mu: float, promised: float) -> None:
    """With rate 1, the steps equal one Gaussian mechanism, and its epsilon has a formula."""
    event = PoissonGaussian(noise_multiplier=math.sqrt(steps) / mu, rate=1.0, count=steps)
    exact = gaussian_epsilon(mu, delta=promised)
    printed = epsilon([event], delta=promised)
    assert printed >= exact - 1e-8
    assert printed <= 1.05 * exact or promised < 1e-9
    if math.isfinite(printed):
        assert delta([event], epsilon=exact) >= promised * (1 - 1e-6)


def test_a_delta_below_the_rounding_error_has_no_finite_epsilon() -> None:
    event = PoissonGaussian(noise_multiplier=1000.0, rate=1.0, count=1_000_000)
    assert epsilon([event], delta=1e-11) == math.inf
