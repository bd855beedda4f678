"""Limits the total cost of steps whose Gaussian-DP parameters depend on earlier results."""

from __future__ import annotations

import math

from sugarbush.errors import InvariantError
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.gaussian_dp import require_positive


class GaussianDpFilter:
    """Limits the total cost of adaptively chosen steps.

    Call `spend` before each step. Each step must be mu_i-GDP given the results of earlier steps.
    All steps together are mu-GDP, because `spend` keeps the sum of mu_i^2 at most mu^2. Source:
    Smith & Thakurta 2022 (arXiv:2210.17520), Theorem 3.1.
    """

    def __init__(self, mu: float) -> None:
        require_positive(mu=mu)
        self._limit = mu**2
        self._steps: list[float] = []

    @property
    def spent(self) -> float:
        """The sum of mu_i^2 so far."""
        return math.fsum(self._steps)

    @property
    def remaining(self) -> float:
        """mu^2 minus the sum of mu_i^2."""
        return max(0.0, self._limit - self.spent)

    def spend(self, mu: float) -> None:
        """Spend mu^2. Raises InvariantError if less than mu^2 is left."""
        require_positive(mu=mu)
        if math.fsum([*self._steps, mu**2]) > self._limit:
            raise InvariantError(
                f"a step of mu^2={rounded_up(mu**2)} would exceed the filter's limit "
                f"{rounded_up(self._limit)} (spent so far: {rounded_up(self.spent)})"
            )
        self._steps.append(mu**2)
