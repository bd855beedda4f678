"""Divides a budget among mechanisms, before the first mechanism runs.

The plan uses Gaussian DP: mechanisms that are mu_i-GDP compose to sqrt(sum mu_i^2)-GDP (Dong, Roth,
Su 2022, Corollary 3.3). A share of the budget is a share of mu^2. The reported epsilon is that of
`accounting.epsilon`. The discrete Gaussian is not exactly Gaussian, so this epsilon can exceed the
target. Every mu is then scaled down until epsilon is at most the target.

The plan first gives DP-SGD only a share of mu^2. If the sampling rate and the number of steps are
known, `with_subsampling` then chooses the noise of DP-SGD. If a DP count decides them,
`with_bound` plans a bound for every count, and `noise_within` chooses the noise when the count is
known. The epsilon of the whole plan meets the target. The noise of other mechanisms stays as it is.
If a profile of the records came before the plan, `with_gaussian_bound` plans a bound that composes
with the profile.

A unit of up to m records adds up to m to a histogram, so counts get m times the noise. This module
applies the factor m to histograms. `MarginalMeasurer` applies the factor in AIM. DP-SGD uses one
record of a unit per step, so the noise of DP-SGD does not depend on m.

A plan has each mu rounded down and each noise rounded up, to six significant digits. Cache keys,
charges and mechanisms use these numbers only. Other CPUs compute numbers that differ by a relative
1e-12, for example because numpy has other roundings of exp with AVX-512. They still plan the same
numbers, except with a probability of about 1e-6 for each number. So stored results are found when a
state folder moves to another machine.

Proof that rounding costs nothing. Every epsilon here is computed from the rounded numbers, and the
plan is only returned if this epsilon is at most the target. So the accounting of the charges never
exceeds the target, in whatever direction a number was rounded. The direction is the safe side: a
mu-GDP mechanism is also mu'-GDP for mu' >= mu, and Gaussian noise can be added to noise later. The
floats keep the direction: if a decimal number is at least the float x, then its nearest float is at
least x, because rounding to the nearest float is monotone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import lru_cache
from typing import Any, Protocol

from sugarbush.errors import InvariantError, ParamsError
from sugarbush.privacy.accounting import delta as delta_of
from sugarbush.privacy.accounting import epsilon as epsilon_of
from sugarbush.privacy.accounting import (
    rough_epsilon,
    roughly_within,
    rounded_up,
    rounding_error,
    within,
)
from sugarbush.privacy.events import (
    DiscreteGaussian,
    DpSgd,
    DpSgdBound,
    DpSgdGaussianBound,
    Event,
    GaussianDp,
    PlannedEvents,
    PoissonGaussian,
    event_from_dict,
)

_SHARE_TOLERANCE = 1e-9
# Shares of delta for each of the two mechanisms of a bound. At 0.5, epsilon meets the target,
# except for rounding. The larger share needs less noise, and mostly meets the target, too.
_SHARES_OF_DELTA = (0.65, 0.5, 0.4)
_STEPS = 8
# Share of delta that a training beside a profile uses. A larger share needs less noise, but a
# later run has a smaller slack. This share is within the slack of the first 31 groups of charges.
_DELTA_OF_TRAINING = 1e-5
_NOISE_TOLERANCE = 5e-4  # relative tolerance for the noise multipliers of subsampled mechanisms
_FIGURES = 6  # significant digits of each mu and each noise
_UPWARDS = Context(prec=_FIGURES, rounding=ROUND_CEILING)
_DOWNWARDS = Context(prec=_FIGURES, rounding=ROUND_FLOOR)


class Accountant(Protocol):
    """Computes epsilon from events."""

    def __call__(self, events: Sequence[Event], *, delta: float) -> float: ...


@dataclass(frozen=True, kw_only=True)
class BudgetRequest:
    """A mechanism that a method needs, and its share of the budget.

    `count` is the number of discrete Gaussians. With `count=0`, the mechanism divides its own mu
    (AIM, DP-SGD). `record_l2_sensitivity` is the L2 sensitivity of one Gaussian to one record.

    A method leaves `share` out. Its `pool` names the share of the budget that pays, and the
    requests of a pool get equal shares of it. Requests of the pool `figures` state their share of
    the whole budget. Methods that request the same name use the mechanism
    together. Messages show `setting`, which decides the count. The card shows `remarks`. With
    `one_record`, the mechanism reads one record of each unit, so its sensitivity is that of one
    record.
    """

    name: str
    count: int
    share: float = 1.0
    record_l2_sensitivity: int = 1
    pool: str = "synthesis"
    setting: str | None = None
    remarks: tuple[str, ...] = ()
    one_record: bool = False

    def __post_init__(self) -> None:
        if self.pool not in ("metadata", "synthesis", "figures"):
            raise InvariantError(f"{self.name}: no pool of a budget is named {self.pool!r}")


@dataclass(frozen=True, kw_only=True)
class Subsampling:
    """`steps` Gaussian mechanisms, each on a Poisson sample with sampling rate `rate`."""

    rate: float
    steps: int


@dataclass(frozen=True, kw_only=True)
class BudgetAllocation:
    """The budget of a mechanism: `mu` in total, and `stddev` for each of its `count` Gaussians.

    `sensitivity` is the L2 sensitivity of one Gaussian to one unit. `with_subsampling`,
    `with_bound` and `with_gaussian_bound` set `subsampled`, the cost of DP-SGD; `mu` is then only
    the planned share.
    """

    name: str
    mu: float
    count: int
    sensitivity: int = 1
    subsampled: DpSgd | None = None

    @property
    def stddev(self) -> float:
        """Sigma of each Gaussian, from mu = sensitivity sqrt(count) / sigma, rounded up."""
        if self.count == 0:
            raise InvariantError(f"{self.name} has no single stddev, because it divides its mu")
        return noise_upwards(self.sensitivity * math.sqrt(self.count) / self.mu)

    @property
    def event(self) -> Event:
        if self.subsampled is not None:
            return self.subsampled
        if self.count == 0:
            return GaussianDp(mu=self.mu)
        return DiscreteGaussian(stddev=self.stddev, sensitivity=self.sensitivity, count=self.count)


@dataclass(frozen=True, kw_only=True)
class BudgetPlan:
    """The budgets of all mechanisms of a run. The total `epsilon` is at most the target."""

    epsilon: float
    delta: float
    allocations: tuple[BudgetAllocation, ...]

    @property
    def planned(self) -> PlannedEvents:
        """The events of the plan, for the ledger."""
        events = tuple(allocation.event for allocation in self.allocations)
        said = json.dumps([self.delta, *(event.as_dict() for event in events)])
        return PlannedEvents(id=hashlib.sha256(said.encode()).hexdigest()[:16], events=events)

    def holds(self, name: str) -> bool:
        return any(allocation.name == name for allocation in self.allocations)

    def of(self, name: str) -> BudgetAllocation:
        """Return the allocation of a mechanism. Raises InvariantError for an unknown name."""
        for allocation in self.allocations:
            if allocation.name == name:
                return allocation
        raise InvariantError(f"the plan has no mechanism {name!r}")

    def as_dict(self) -> dict[str, Any]:
        """Return the plan for a JSON file."""
        rows = [
            vars(each) | {"subsampled": each.subsampled and each.subsampled.as_dict()}
            for each in self.allocations
        ]
        return {"epsilon": self.epsilon, "delta": self.delta, "allocations": rows}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> BudgetPlan:
        """Invert `as_dict`. Raises KeyError, TypeError, ValueError, AttributeError or
        InvariantError for fields that `as_dict` never returns."""
        rows = tuple(map(_allocation_of, fields["allocations"]))
        if len({row.name for row in rows}) < len(rows):
            raise InvariantError("two allocations have the same name")
        epsilon, delta = fields["epsilon"], fields["delta"]
        _require(float, epsilon=epsilon, delta=delta)
        if bool(rows) != (epsilon > 0):
            raise InvariantError("only a plan without allocations has epsilon 0")
        return cls(epsilon=epsilon, delta=delta, allocations=rows)


def _allocation_of(row: Mapping[str, Any]) -> BudgetAllocation:
    allocation = BudgetAllocation(**row)
    _require(str, name=allocation.name)
    _require(float, mu=allocation.mu)
    _require(int, count=allocation.count, sensitivity=allocation.sensitivity)
    if allocation.mu == 0 or allocation.sensitivity == 0:
        raise InvariantError(f"{allocation.name}: needs infinite noise, or none")
    if row["subsampled"] is None:
        return allocation
    training = event_from_dict(row["subsampled"])
    if not isinstance(training, DpSgd):
        raise InvariantError(f"{training.kind}: is no charge of a training")
    return replace(allocation, subsampled=training)


def _require(kind: type, **values: object) -> None:
    """Raise TypeError unless each value has this type and no number is negative or infinite."""
    for name, value in values.items():
        if type(value) is not kind or (kind is not str and not 0 <= value < math.inf):  # type: ignore[operator]
            raise TypeError(f"{name}: expected a {kind.__name__}")


def make_plan(
    requests: Sequence[BudgetRequest], *, epsilon: float, delta: float, records_per_unit: int = 1
) -> BudgetPlan:
    """Plan how `requests` spend (epsilon, delta) per unit, in proportion to their shares of mu^2.

    Raises ParamsError if the shares do not add up to 1.
    """
    return _plan(tuple(requests), epsilon, delta, records_per_unit)


@lru_cache(maxsize=64)  # the composition of narrow integer noise takes a fraction of a second
def _plan(
    requests: tuple[BudgetRequest, ...], epsilon: float, delta: float, records_per_unit: int
) -> BudgetPlan:
    if not requests:
        return BudgetPlan(epsilon=0.0, delta=delta, allocations=())
    total = sum(request.share for request in requests)
    if abs(total - 1) > _SHARE_TOLERANCE or any(request.share <= 0 for request in requests):
        raise ParamsError(f"the shares of a plan must be positive and add up to 1, got {total:g}")
    mu = mu_of(epsilon=epsilon, delta=delta)
    plan = _at(requests, mu, delta, records_per_unit)
    for _ in range(_STEPS):
        if plan.epsilon <= epsilon:
            return plan
        if math.isinf(plan.epsilon):  # delta is smaller than the truncated tail of the PLD
            break
        # Epsilon grows at least in proportion to mu, so the scaled plan is below the target. The
        # excess is a fraction of a percent, so the scaled plan is only slightly below.
        mu *= epsilon / plan.epsilon * (1 - 1e-6)
        plan = _at(requests, mu, delta, records_per_unit)
    raise ParamsError(
        f"privacy.epsilon={rounded_up(epsilon)} at delta={rounded_up(delta)} cannot be planned, "
        "because the noise or delta is too small to compute the privacy loss. Lower epsilon, or "
        "raise delta."
    )


@lru_cache(maxsize=256)
def mu_of(*, epsilon: float, delta: float) -> float:
    """Compute mu so that mu-GDP is exactly (epsilon, delta)-DP (Balle & Wang 2018, Theorem 8)."""
    from dp_accounting import get_sigma_gaussian

    return 1.0 / float(get_sigma_gaussian(epsilon, delta))


def with_subsampling(
    plan: BudgetPlan, trainings: Mapping[str, Subsampling], *, epsilon: float
) -> BudgetPlan:
    """Add DP-SGD to `plan`, with the noise for which the plan's epsilon is `epsilon`.

    `trainings` maps the names of the DP-SGD mechanisms to their steps. One factor scales the noise
    of all DP-SGD mechanisms. Raises ParamsError if no noise meets `epsilon`.
    """
    if not trainings:
        return plan
    for name, training in trainings.items():
        if plan.of(name).count or not (0 < training.rate <= 1 and training.steps > 0):
            raise InvariantError(f"{name}: Poisson subsampling cannot be planned with {training}")

    def at(scale: float) -> BudgetPlan:
        return _scaled(plan, trainings, scale, epsilon_of)

    if _scaled(plan, trainings, 1.0, rough_epsilon).epsilon < epsilon / 2 and not at(1.0).epsilon:
        return at(1.0)  # a unit is sampled with a probability below delta
    scale = _smallest_scale(
        lambda scale: at(scale).epsilon <= epsilon,
        roughly=lambda scale: _scaled(plan, trainings, scale, rough_epsilon).epsilon <= epsilon,
    )
    if scale is None:
        raise ParamsError(
            f"privacy.epsilon={rounded_up(epsilon)} at delta={rounded_up(plan.delta)} cannot be "
            "planned for "
            f"{', '.join(f'{own.steps} steps of {name}' for name, own in trainings.items())}. "
            "Lower the epochs, or raise epsilon."
        )
    return at(scale)


@lru_cache(maxsize=16)  # takes seconds
def with_bound(plan: BudgetPlan, name: str, largest: Subsampling, *, epsilon: float) -> BudgetPlan:
    """Add DP-SGD to `plan`, if a DP count will decide its sampling rate and number of steps.

    `largest` are the steps for a large count. The plan's epsilon is at most `epsilon` for every
    count, if the noise comes from `noise_within`. Proof: docs/decisions/adaptive-composition.md.
    Raises ParamsError if no noise meets `epsilon`.
    """
    others = delta_of([a.event for a in plan.allocations if a.name != name], epsilon=epsilon)
    for share in _SHARES_OF_DELTA:
        smaller = replace(plan, delta=others + share * (plan.delta - others))
        one_step, many_steps = (
            with_subsampling(smaller, {name: steps}, epsilon=epsilon).of(name).subsampled
            for steps in (Subsampling(rate=1.0, steps=1), largest)
        )
        assert isinstance(one_step, PoissonGaussian) and isinstance(many_steps, PoissonGaussian)
        bound = DpSgdBound(
            mu=mu_downwards(1 / one_step.noise_multiplier),
            noise_multiplier=many_steps.noise_multiplier,
            rate=many_steps.rate,
            steps=many_steps.count,
        )
        bounded = _with_events(plan, {name: bound}, epsilon_of)
        if bounded.epsilon <= epsilon:
            return bounded
    raise ParamsError(
        f"privacy.epsilon={rounded_up(epsilon)} at delta={rounded_up(plan.delta)} cannot be "
        f"planned for {name}, because delta is too small. Raise delta, or set the number of "
        "records (methods.dpft.records)."
    )


def with_gaussian_bound(plan: BudgetPlan, name: str, largest: Subsampling) -> BudgetPlan:
    """Add DP-SGD to `plan`, if a profile of the records came before the plan.

    The settings may then depend on private data, so the charge composes as a Gaussian mechanism
    does, with the mu of the training's share. The noise comes from `noise_within`. `largest` has
    the largest number of steps. Reason: docs/decisions/adaptive-composition.md.
    """
    delta = max(_DELTA_OF_TRAINING * plan.delta, 2 * rounding_error(largest.steps))
    bound = DpSgdGaussianBound(mu=plan.of(name).mu, delta=delta)
    return _with_events(plan, {name: bound}, epsilon_of)


def noise_within(bound: DpSgdBound | DpSgdGaussianBound, training: Subsampling) -> PoissonGaussian:
    """Return `training` with the smallest noise for which its privacy profile is within `bound`.

    The relative error of the noise is at most 0.05%.
    """

    def at(scale: float) -> PoissonGaussian:
        return _subsampled(bound.mu, training, scale)

    scale = _smallest_scale(
        lambda scale: within(at(scale), bound),
        roughly=lambda scale: roughly_within(at(scale), bound),
    )
    if scale is None:
        raise InvariantError(f"no noise keeps {training} within {bound}")
    return at(scale)


def _smallest_scale(
    is_enough: Callable[[float], bool], *, roughly: Callable[[float], bool]
) -> float | None:
    """Return the smallest scale that is enough, or None. It is too large by at most 0.05%.

    Larger scales than the result are enough, too. Every CPU tries the same scales. `roughly` is a
    quick test that finds where to look. `is_enough` alone decides: it holds for the result, and not
    for the next smaller scale that is tried.
    """
    lower, upper = _smallest_cell(roughly) or (0.0, 0.0)
    width = upper - lower
    for _ in range(_STEPS if width else 0):
        if not is_enough(math.exp(upper)):
            lower, upper = upper, upper + width
        elif is_enough(math.exp(lower)):
            lower, upper = lower - width, lower
        else:
            return math.exp(upper)
    cell = _smallest_cell(is_enough)
    return None if cell is None else math.exp(cell[1])


def _smallest_cell(is_enough: Callable[[float], bool]) -> tuple[float, float] | None:
    """Return the logarithms of two neighbouring scales. Only the second is enough.

    The scales are those of one grid, so a test that holds in the same places has the same result.
    """
    lower, upper = -0.1, 0.1
    for _ in range(_STEPS):
        if is_enough(math.exp(upper)):
            break
        lower, upper = upper, 2 * upper
    else:
        return None
    for _ in range(_STEPS):
        if not is_enough(math.exp(lower)):
            break
        lower, upper = 2 * lower, lower
    while upper - lower > _NOISE_TOLERANCE:
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if is_enough(math.exp(middle)) else (middle, upper)
    return lower, upper


def mu_downwards(mu: float) -> float:
    """Round mu down to six significant digits, as every plan does.

    >>> mu_downwards(0.123456789), mu_downwards(0.5)
    (0.123456, 0.5)
    """
    return float(_DOWNWARDS.create_decimal(repr(float(mu))))


def noise_upwards(noise: float) -> float:
    """Round the noise of a mechanism up to six significant digits, as every plan does.

    >>> noise_upwards(4.453256997), noise_upwards(8.0)
    (4.45326, 8.0)
    """
    return float(_UPWARDS.create_decimal(repr(float(noise))))


def _scaled(
    plan: BudgetPlan, trainings: Mapping[str, Subsampling], scale: float, epsilon: Accountant
) -> BudgetPlan:
    events = {
        name: _subsampled(plan.of(name).mu, training, scale) for name, training in trainings.items()
    }
    return _with_events(plan, events, epsilon)


def _with_events(plan: BudgetPlan, events: Mapping[str, DpSgd], epsilon: Accountant) -> BudgetPlan:
    allocations = tuple(
        replace(a, subsampled=events.get(a.name, a.subsampled)) for a in plan.allocations
    )
    spent = epsilon([a.event for a in allocations], delta=plan.delta)
    return replace(plan, epsilon=spent, allocations=allocations)


def _subsampled(mu: float, training: Subsampling, scale: float) -> PoissonGaussian:
    """Return an event with noise `scale` * sigma, where mu = rate sqrt(steps (exp(1/sigma^2) - 1)).

    The formula is exact in the limit of many steps (Bu, Dong, Long, Su 2020, Corollary 5.4). The
    search for `scale` therefore starts at 1.
    """
    sigma = math.log1p((mu / training.rate) ** 2 / training.steps) ** -0.5
    noise = noise_upwards(sigma * scale)
    return PoissonGaussian(noise_multiplier=noise, rate=training.rate, count=training.steps)


def _at(
    requests: Sequence[BudgetRequest], mu: float, delta: float, records_per_unit: int
) -> BudgetPlan:
    allocations = tuple(
        BudgetAllocation(
            name=p.name,
            mu=mu_downwards(mu * math.sqrt(p.share)),
            count=p.count,
            sensitivity=p.record_l2_sensitivity * (1 if p.one_record else records_per_unit),
        )
        for p in requests
    )
    spent = epsilon_of([a.event for a in allocations], delta=delta)
    return BudgetPlan(epsilon=spent, delta=delta, allocations=allocations)
