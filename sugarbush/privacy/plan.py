"""How one budget is divided before the first draw.

Planning is done in Gaussian DP: mechanisms that are mu_i-GDP compose to sqrt(sum mu_i^2)-GDP
(Dong, Roth, Su 2022, Corollary 3.3), so a share is a share of mu^2. The epsilon that is printed
comes from the mechanisms' own privacy loss distributions; where the discrete Gaussian (or the
discretisation) makes that exceed the target, every mu is scaled down until it does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dp_accounting import get_sigma_gaussian

from sugarbush.errors import InvariantError, ParamsError
from sugarbush.privacy.accounting import epsilon as epsilon_of
from sugarbush.privacy.events import DiscreteGaussian, Event, GaussianDp

_SHARE_TOLERANCE = 1e-9
_STEPS = 8


@dataclass(frozen=True, kw_only=True)
class Part:
    """A mechanism's claim on the budget.

    `draws` discrete Gaussians of sensitivity 1; 0 means one mechanism that is proved to be mu-GDP
    and divides its own mu (AIM).
    """

    name: str
    share: float
    draws: int


@dataclass(frozen=True, kw_only=True)
class Allotment:
    """What a part may spend: `mu` in all, and `stddev` in counts for each of its draws."""

    name: str
    mu: float
    draws: int

    @property
    def stddev(self) -> float:
        """Sigma of each draw at sensitivity 1: mu = sqrt(draws)/sigma."""
        if self.draws == 0:
            raise InvariantError(f"{self.name} divides its own mu")
        return math.sqrt(self.draws) / self.mu

    @property
    def event(self) -> Event:
        """What the whole part will have cost."""
        if self.draws == 0:
            return GaussianDp(mu=self.mu)
        return DiscreteGaussian(stddev=self.stddev, count=self.draws)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every mechanism of a run, fixed before the first draw. `epsilon` never exceeds the target."""

    epsilon: float
    delta: float
    allotments: tuple[Allotment, ...]

    def holds(self, name: str) -> bool:
        """Whether a part of that name draws at all."""
        return any(allotment.name == name for allotment in self.allotments)

    def of(self, name: str) -> Allotment:
        """The allotment of one part. Raises InvariantError when the plan does not hold it."""
        for allotment in self.allotments:
            if allotment.name == name:
                return allotment
        raise InvariantError(f"the plan holds no part {name!r}")


def make_plan(parts: Sequence[Part], *, epsilon: float, delta: float) -> Plan:
    """The plan that spends (epsilon, delta) on `parts`, by their shares of mu^2.

    Raises ParamsError when the shares of a non-empty plan don't add up to 1.
    """
    if not parts:
        return Plan(epsilon=0.0, delta=delta, allotments=())
    total = sum(part.share for part in parts)
    if abs(total - 1) > _SHARE_TOLERANCE or any(part.share <= 0 for part in parts):
        raise ParamsError(f"privacy.shares must be positive and add up to 1, got {total:g}")
    mu = mu_of(epsilon=epsilon, delta=delta)
    plan = _at(parts, mu, delta)
    for _ in range(_STEPS):
        if plan.epsilon <= epsilon:
            return plan
        # Epsilon grows at least in proportion to mu, so this lands below the target, and as the
        # excess is a fraction of a percent, just below it.
        mu *= epsilon / plan.epsilon * (1 - 1e-6)
        plan = _at(parts, mu, delta)
    raise ParamsError(
        f"privacy.epsilon={epsilon:g} at delta={delta:g} cannot be planned: the noise would be "
        "too small for its distribution to be computed"
    )


def mu_of(*, epsilon: float, delta: float) -> float:
    """The mu at which mu-GDP is exactly (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8)."""
    return 1.0 / float(get_sigma_gaussian(epsilon, delta))


def _at(parts: Sequence[Part], mu: float, delta: float) -> Plan:
    allotments = tuple(
        Allotment(name=p.name, mu=mu * math.sqrt(p.share), draws=p.draws) for p in parts
    )
    spent = epsilon_of([a.event for a in allotments], delta=delta)
    return Plan(epsilon=spent, delta=delta, allotments=allotments)
