"""Computes epsilon from events: by a formula, or with privacy loss distributions (PLDs).

Mechanisms that are mu-Gaussian DP compose to a Gaussian mechanism. Its epsilon has a formula.
Integer noise is Gaussian DP, too, and its exact mu is close to 1/stddev if the noise is wide.
DP-SGD and narrow integer noise have PLDs. Epsilon is an upper bound, because dp_accounting
(google/differential-privacy) discretises PLDs pessimistically ("connect the dots"). The arithmetic
is float64. Up to epsilon 25, rounding errors are smaller than discretisation errors.

Compose only events with the same privacy unit. The slow import of dp_accounting is inside
functions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from functools import lru_cache, reduce
from itertools import count
from typing import TYPE_CHECKING, Any

from sugarbush.errors import InvariantError
from sugarbush.privacy.events import (
    ConfidentialTraining,
    DiscreteGaussian,
    DpSgd,
    DpSgdBound,
    DpSgdGaussianBound,
    Event,
    GaussianDp,
    NonPrivate,
    PoissonGaussian,
    ThresholdedGaussian,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Distributions compose only if they have the same discretisation interval. With the fine interval,
# epsilon of AugPE's published settings is within 1e-4 of the exact Gaussian value. The coarse
# interval saves time for thousands of DP-SGD steps.
_FINE_INTERVAL = 2e-5
_COARSE_INTERVAL = 1e-4
_ROUGH = 10  # times this interval, where a search needs no exact value
SLACK_SHARE = 0.01  # fraction of delta reserved for events that are not exactly Gaussian
_LARGEST_MU = 64.0
_LARGEST_EXPONENT = 710.0  # above it, e^x is infinite in float64
_MU_OF_EXACT_EPSILON = 1e4  # above it, floats have too few digits for the formula
_WIDE_NOISE = 5.0  # from this stddev on, the exact mu is within 0.2% of 1/stddev
_WIDER_NOISE = 16.0  # and from this stddev on, within 0.02%
_NARROW_NOISE = 2.0  # and from this stddev on, within 1.1%
_MOST_PLDS = 2  # of integer noise; the PLD of each takes about a second at a large epsilon
_FLOOR = 1e-11  # the divergence of DpSgdBound is at least this number
# Rounding error of the divergence for each composed step. The library composes by FFT. Its absolute
# error is at most 6.3e-17 for each step, compared with exact values (docs/log/attacks.md).
_ERROR_PER_STEP = 1e-16


class Relation(StrEnum):
    """Whether two neighbouring datasets differ by adding a unit or by replacing a unit.

    Confidentiality uses REPLACE_ONE. Replacing a unit changes a clipped sum by at most 2 clip
    norms. Adding a unit changes the sum by at most 1 clip norm.
    """

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"


def epsilon(
    events: Iterable[Event], *, delta: float, relation: Relation = Relation.ADD_OR_REMOVE_ONE
) -> float:
    """Compute the smallest epsilon for which the composition of `events` is (epsilon, delta)-DP.

    Epsilon is infinite if an event is not private, and 0 without events. REPLACE_ONE supports only
    DP-SGD and confidential training. Under add/remove, epsilon of confidential training is
    infinite. Raises InvariantError if `delta` is not between 0 and 1.

    >>> from sugarbush.privacy.events import DiscreteGaussian
    >>> round(epsilon([DiscreteGaussian(stddev=10.0)] * 4, delta=1e-6), 2)
    0.83
    >>> epsilon([NonPrivate()], delta=1e-6)
    inf
    """
    return _epsilon(tuple(events), delta, relation, grid=1)


def rough_epsilon(events: Iterable[Event], *, delta: float) -> float:
    """Compute `epsilon` with a grid ten times as coarse, for a search. Charges never use it."""
    return _epsilon(tuple(events), delta, Relation.ADD_OR_REMOVE_ONE, grid=_ROUGH)


def _epsilon(every: tuple[Event, ...], delta: float, relation: Relation, *, grid: int) -> float:
    if not 0 < delta < 1:
        raise InvariantError(f"delta={delta!r} is not between 0 and 1")
    if _is_unbounded(every, relation):
        return math.inf
    return _composed_epsilon(_Composed.of(every), delta, relation, grid) if every else 0.0


def _is_unbounded(events: Iterable[Event], relation: Relation = Relation.ADD_OR_REMOVE_ONE) -> bool:
    """Return whether an event has no finite epsilon, whatever delta is."""
    return any(
        isinstance(event, NonPrivate)
        or (isinstance(event, ConfidentialTraining) and relation is not Relation.REPLACE_ONE)
        for event in events
    )


@dataclass(frozen=True, kw_only=True)
class _Composed:
    """Events, divided by how they are composed.

    `mu` is that of all mechanisms that are Gaussian DP together. `others` are mechanisms with a
    PLD, and how often they ran. `delta` is added to the divergence of these mechanisms: the deltas
    of thresholds and of bounded trainings, and the rounding errors.
    """

    mu: float
    others: tuple[tuple[Event, int], ...]
    delta: float

    @classmethod
    def of(cls, events: Iterable[Event]) -> _Composed:
        gaussian, others, deltas = list[Event](), Counter[Event](), list[float]()
        for charged in events:
            event, own_delta = _without_delta(charged)
            deltas.append(own_delta)
            if _is_gaussian(event):
                gaussian.append(event)
            else:
                others[_one(event)] += getattr(event, "count", 1)
        narrow = [event for event in others if isinstance(event, DiscreteGaussian)]
        if len(narrow) > _MOST_PLDS:
            wide = [event for event in narrow if event.stddev >= _NARROW_NOISE]
            gaussian += [replace(event, count=others.pop(event)) for event in wide]
        deltas += [_rounding_error(event, count) for event, count in others.items()]
        return cls(mu=gaussian_mu(gaussian), others=tuple(others.items()), delta=math.fsum(deltas))

    def distribution(self, interval: float, relation: Relation) -> Any:
        """Return the PLD of all mechanisms. There is at least one."""
        if self.mu and relation is Relation.REPLACE_ONE:
            raise InvariantError(f"epsilon cannot be computed for Gaussian DP under {relation}")
        losses = [_distribution(event, times, interval, relation) for event, times in self.others]
        return reduce(
            lambda whole, each: whole.compose(each),
            [*losses, *([_gaussian(self.mu, interval)] if self.mu else [])],
        )

    @property
    def interval(self) -> float:
        is_sampled = any(isinstance(e, PoissonGaussian | DpSgdBound) for e, _ in self.others)
        return _COARSE_INTERVAL if is_sampled else _FINE_INTERVAL


@lru_cache(maxsize=1024)  # because a ledger computes the same total before and after a charge
def _composed_epsilon(composed: _Composed, delta: float, relation: Relation, grid: int) -> float:
    exact = delta - composed.delta
    if exact <= 0:
        return math.inf
    if not composed.others and relation is Relation.ADD_OR_REMOVE_ONE:
        return gaussian_epsilon(composed.mu, delta=exact)
    return _smallest_epsilon(composed.distribution(composed.interval * grid, relation), exact)


def _rounding_error(event: Event, count: int) -> float:
    """Bound the rounding error of the divergence of `count` composed events.

    DpSgdBound contains the error of its steps. Other events are composed by a formula, or are few.
    """
    sampled = isinstance(event, PoissonGaussian) and count > 1
    return rounding_error(count) if sampled else 0.0


def rounding_error(steps: int) -> float:
    """Bound the rounding error of the divergence of DP-SGD with `steps` steps."""
    return _ERROR_PER_STEP * steps


def delta(events: Iterable[Event], *, epsilon: float) -> float:
    """Compute the smallest delta for which the composition of `events` is (epsilon, delta)-DP.

    Delta is 1 if an event is not private under add/remove.

    >>> from sugarbush.privacy.events import GaussianDp
    >>> round(delta([GaussianDp(mu=1.0)], epsilon=1.0), 4)
    0.1269
    """
    events = tuple(events)
    if _is_unbounded(events):
        return 1.0
    composed = _Composed.of(events)
    if composed.others:
        whole = composed.distribution(composed.interval, Relation.ADD_OR_REMOVE_ONE)
        divergence = float(whole.get_delta_for_epsilon(epsilon))
    else:
        divergence = float(_gaussian_delta(composed.mu, epsilon)) if composed.mu else 0.0
    return min(1.0, divergence + composed.delta)


def within(event: PoissonGaussian, bound: DpSgdBound | DpSgdGaussianBound) -> bool:
    """Return whether the privacy profile of `event` is at most the profile of `bound`.

    The check of the grid points covers all x (proof: docs/decisions/adaptive-composition.md). The
    PLD of `event` is linear in e^x between these points, and so is the PLD of a DpSgdBound. For a
    DpSgdGaussianBound, see `_GaussianCheck`.
    """
    return _is_within(event, bound, _COARSE_INTERVAL)


def roughly_within(event: PoissonGaussian, bound: DpSgdBound | DpSgdGaussianBound) -> bool:
    """Compute `within` with a grid ten times as coarse, for a search. No training relies on it."""
    return _is_within(event, bound, _COARSE_INTERVAL * _ROUGH)


def _is_within(
    event: PoissonGaussian, bound: DpSgdBound | DpSgdGaussianBound, interval: float
) -> bool:
    import numpy as np

    whole = _distribution(_one(event), event.count, interval, Relation.ADD_OR_REMOVE_ONE)
    error = _rounding_error(_one(event), event.count)
    if isinstance(bound, DpSgdGaussianBound):
        check = _GaussianCheck.of(whole, interval, slack=bound.delta - error)
        return check is not None and check.fits(bound.mu)
    most = _profile(bound, interval)
    x = np.arange(len(most)) * interval
    return bool((_divergence(whole, x) + error <= most).all())


@lru_cache(maxsize=16)
def _profile(bound: DpSgdBound, interval: float) -> NDArray[np.float64]:
    """Compute the divergence of `bound` at every point of the grid, until it reaches its floor.

    The floor is `_FLOOR`, or 1.1 times the rounding error of the steps.
    """
    import numpy as np

    sampled = bound.sampled
    whole = _distribution(_one(sampled), sampled.count, interval, Relation.ADD_OR_REMOVE_ONE)
    error = _rounding_error(_one(sampled), sampled.count)
    floor = max(_FLOOR, 1.1 * error)
    ends = (
        gaussian_epsilon(bound.mu, delta=floor),
        _smallest_epsilon(whole, floor - error),
    )
    if math.isinf(max(ends)):
        return np.ones(2)  # no guarantee
    x = np.arange(math.ceil(max(ends) / interval) + 2) * interval
    gaussian: NDArray[np.float64] = _gaussian_delta(bound.mu, x)
    return np.maximum(np.maximum(gaussian, _divergence(whole, x) + error), floor)


def adaptive_epsilon(events: Iterable[Event], *, delta: float) -> float:
    """Bound the epsilon of `events`, even if earlier results decided which events came later.

    `epsilon` assumes that all settings are fixed in advance. This function bounds each event by
    Gaussian DP, which composes under fully adaptive choices (Smith and Thakurta 2022). DP-SGD and
    noise on integers are not exactly Gaussian, so each such event gets a mu and a slack. At every
    epsilon, the event's hockey-stick divergence is at most the divergence of N(mu, 1) from N(0, 1),
    plus the slack. The slacks together are at most SLACK_SHARE of delta. Source:
    docs/decisions/adaptive-composition.md.

    >>> from sugarbush.privacy.events import DiscreteGaussian
    >>> round(adaptive_epsilon([DiscreteGaussian(stddev=10.0)] * 4, delta=1e-6), 2)
    0.83
    """
    numbers = count(1)
    return filtered_epsilon(
        [((event,), next(numbers) if needs_slack(event) else 0) for event in events], delta=delta
    )


def filtered_epsilon(steps: Iterable[tuple[tuple[Event, ...], int]], *, delta: float) -> float:
    """Bound the epsilon of `steps`, even if earlier results decided which steps came later.

    A step contains events that were fixed together, and its slack number. The mu and the slack of a
    step depend on the step and delta alone. So later steps do not change them, and the bound is a
    filter. The numbers of steps that need a slack must differ. The number of other steps is 0.
    """
    if not 0 < delta < 1:
        raise InvariantError(f"delta={delta!r} is not between 0 and 1")
    numbers, squares = set[int](), list[float]()
    for events, number in steps:
        if number in numbers or any(needs_slack(event) > number for event in events):
            raise InvariantError(f"slack number {number} is missing or used twice")
        numbers |= {number} - {0}
        mu = gaussian_mu(events)
        if number:
            slack = slack_fraction(number) * delta
            mu = min(mu, _mu_of_wide_noise(events, slack))
            if math.isinf(mu) or not any(_without_delta(event)[1] for event in events):
                mu = min(mu, _mu_with_slack(events, slack))
        squares.append(mu**2)
    # the order of the steps changes no digit
    return gaussian_epsilon(math.sqrt(math.fsum(squares)), delta=(1 - SLACK_SHARE) * delta)


def slack_fraction(number: int) -> float:
    """Return the fraction of delta that is the slack of number 1, 2, and so on.

    The 2^k numbers from 2^k to 2^(k+1) - 1 have the same fraction, so few searches for a mu are
    needed. These numbers together have SLACK_SHARE / 2^(k+1), and all numbers have SLACK_SHARE.

    >>> [round(slack_fraction(number) / SLACK_SHARE, 6) for number in (1, 2, 3, 4)]
    [0.5, 0.125, 0.125, 0.03125]
    """
    return math.ldexp(SLACK_SHARE, 1 - 2 * number.bit_length())


def needs_slack(event: Event) -> bool:
    """Return whether a slack makes the mu of an event much smaller."""
    match event:
        case DiscreteGaussian():
            return event.sensitivity == 1 and event.stddev < _WIDE_NOISE
    return isinstance(event, ThresholdedGaussian | DpSgd)


def _without_delta(event: Event) -> tuple[Event, float]:
    """Return a mechanism and a delta. The divergence of `event` is at most that of the mechanism
    plus the delta, also in a composition."""
    match event:
        case ThresholdedGaussian():
            return event.counts, event.delta
        case DpSgdGaussianBound():
            return event.gaussian, event.delta
    return event, 0.0


def _is_gaussian(event: Event) -> bool:
    """Return whether the event's exact mu is used in place of its PLD.

    A PLD for integer noise supports sensitivity 1 only. For several records of a unit, mu comes
    from group privacy (docs/decisions/user-as-the-unit.md).
    """
    match event:
        case DiscreteGaussian():
            return event.sensitivity > 1 or event.stddev >= _WIDER_NOISE
    return isinstance(event, GaussianDp)


def _mu_of_wide_noise(events: Sequence[Event], slack: float) -> float:
    """Return a mu for events if their deltas are at most `slack` together, else inf.

    The hockey-stick divergence of the composition is at most that of the events without their
    deltas, plus the deltas. The events without their deltas are exactly Gaussian DP.
    """
    pairs = [_without_delta(event) for event in events]
    deltas = sum(delta for _, delta in pairs)
    if not deltas or deltas > slack:
        return math.inf
    return gaussian_mu(event for event, _ in pairs)


def gaussian_epsilon(mu: float, *, delta: float) -> float:
    """Compute epsilon of mu-GDP at `delta` (Balle and Wang 2018, Theorem 8), rounded up.

    Above mu 10,000, the result is the bound from zCDP, which is larger.
    """
    from scipy.optimize import brentq

    if math.isinf(mu):
        return math.inf
    if mu == 0 or _gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    upper = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))  # a bound from zCDP
    if mu > _MU_OF_EXACT_EPSILON:
        return upper
    root = float(brentq(lambda x: _gaussian_delta(mu, x) - delta, 0.0, upper, xtol=1e-12))
    return root + 1e-9


def _gaussian_delta(mu: float, x: Any) -> Any:
    """Compute the hockey-stick divergence of N(mu,1) from N(0,1) at e^x."""
    import numpy as np
    from scipy.special import log_ndtr, ndtr

    return ndtr(mu / 2 - x / mu) - np.exp(x + log_ndtr(-mu / 2 - x / mu))


@lru_cache(maxsize=256)
def _mu_with_slack(events: tuple[Event, ...], slack: float) -> float:
    """Find the smallest mu such that the divergence of `events` exceeds mu-GDP by at most `slack`.

    The divergence is that of the composition. The relative error is 1e-5.
    """
    if _is_unbounded(events):
        return math.inf
    composed = _Composed.of(events)
    if slack <= composed.delta:
        return math.inf
    whole = composed.distribution(_COARSE_INTERVAL, Relation.ADD_OR_REMOVE_ONE)
    check = _GaussianCheck.of(whole, _COARSE_INTERVAL, slack=slack - composed.delta)
    if check is None:
        return math.inf
    fits = check.fits
    lower, upper = 1e-4, 1.0
    while not fits(upper):
        lower, upper = upper, 2 * upper
        if upper > _LARGEST_MU:
            return math.inf
    while upper > lower * (1 + 1e-5):
        middle = math.sqrt(lower * upper)
        lower, upper = (lower, middle) if fits(middle) else (middle, upper)
    return upper


@dataclass(frozen=True, kw_only=True)
class _GaussianCheck:
    """Checks whether a divergence exceeds that of mu-GDP by at most `slack`, at every x.

    `divergence` (n,) contains the divergence at the grid points `x` (n,) >= 0. Beyond the last
    point it is at most `slack`. Between two points it is linear in e^x, and the divergence of
    mu-GDP is above its tangent at the left point. So the check of the grid points covers all x
    (proof: docs/decisions/adaptive-composition.md).
    """

    x: NDArray[np.floating]
    divergence: NDArray[np.float64]
    slack: float

    @classmethod
    def of(cls, distribution: Any, interval: float, *, slack: float) -> _GaussianCheck | None:
        """Return the check of a distribution. The result is None if no mu fits."""
        import numpy as np

        end = _smallest_epsilon(distribution, slack) if slack > 0 else math.inf
        if end > _LARGEST_EXPONENT:  # no mu fits, because the check of e^x would overflow
            return None
        x = np.arange(math.ceil(end / interval) + 2) * interval
        return cls(x=x, divergence=_divergence(distribution, x), slack=slack)

    def fits(self, mu: float) -> bool:
        import numpy as np
        from scipy.special import ndtr

        x, at_left = self.x, _gaussian_delta(mu, self.x)
        at_right = at_left[:-1] - ndtr(-mu / 2 - x[:-1] / mu) * np.diff(np.exp(x))
        return bool(
            (self.divergence - at_left <= self.slack).all()
            and (self.divergence[1:] - at_right <= self.slack).all()
        )


def _divergence(distribution: Any, x: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compute `distribution.get_delta_for_epsilon` at every x >= 0.

    This function vectorises the library's formula, because the library's loop takes seconds.
    """
    import numpy as np

    worst = np.zeros(len(x))
    for order in _orders(distribution):
        above = len(order.losses) - np.searchsorted(order.losses, x, side="right")
        upper = np.cumsum(np.r_[order.infinite, order.probs[::-1]])
        lower = np.cumsum(np.r_[0.0, (order.probs * np.exp(-order.losses))[::-1]])
        worst = np.maximum(worst, upper[above] - np.exp(x) * lower[above])
    return worst


@dataclass(frozen=True, kw_only=True)
class _Order:
    """One order of the neighbours: increasing losses (n,), and the probability of each (n,)."""

    losses: NDArray[np.float64]
    probs: NDArray[np.float64]
    infinite: float  # the probability of an infinite loss


def _orders(distribution: Any) -> list[_Order]:
    import numpy as np

    orders = []
    for name in ("_pmf_remove", "_pmf_add"):
        masses = vars(vars(distribution)[name])
        if (sparse := masses.get("_loss_probs")) is not None:
            steps, probs = np.array(sorted(sparse.items())).T
        else:
            probs = np.asarray(masses["_probs"])
            steps = np.arange(len(probs)) + masses["_lower_loss"]
        losses = steps * masses["_discretization"]
        orders.append(_Order(losses=losses, probs=probs, infinite=float(masses["_infinity_mass"])))
    return orders


def _smallest_epsilon(distribution: Any, delta: float) -> float:
    """Compute `distribution.get_epsilon_for_delta`: vectorised, as in `_divergence`."""
    return max(_smallest_epsilon_of(order, delta) for order in _orders(distribution))


def _smallest_epsilon_of(order: _Order, delta: float) -> float:
    import numpy as np

    if order.infinite > delta:
        return math.inf
    losses, probs = order.losses[::-1], order.probs[::-1]
    # masses of the losses that are larger than each loss, then of all
    upper = np.cumsum(np.r_[order.infinite, probs])
    with np.errstate(all="ignore"):  # overflows of losses below -700, which come after the end
        lower = np.cumsum(np.r_[0.0, np.exp(-losses) * probs])
        crossing = np.where(upper > delta, np.log((upper - delta) / lower), -math.inf)
    if (early := np.flatnonzero((upper >= delta) & (lower == 0))).size:
        return max(0.0, float(losses[max(int(early[0]) - 1, 0)]))  # exp(-loss) is 0 for floats
    ends = np.flatnonzero(crossing[:-1] >= losses)
    last = int(ends[0]) if len(ends) else len(losses)
    return max(0.0, float(crossing[last]))


def gaussian_mu(events: Iterable[Event]) -> float:
    """Return a mu so that the composition of `events` is mu-GDP, or inf if no mu is known.

    >>> from sugarbush.privacy.events import DiscreteGaussian
    >>> round(gaussian_mu([DiscreteGaussian(stddev=10.0)] * 4), 3)
    0.2
    """
    from sugarbush.privacy.gaussian_dp import discrete_gaussian_mu

    counts = Counter[float]()  # of each mu, so that one event with a count has the same result
    for event in events:
        match event:
            case DiscreteGaussian():
                mu = discrete_gaussian_mu(event.stddev, sensitivity=event.sensitivity)
                counts[mu] += event.count
            case GaussianDp():
                counts[event.mu] += event.count
            case _:
                return math.inf
    return math.sqrt(math.fsum(count * mu**2 for mu, count in counts.items()))


def _one(event: Event) -> Event:
    match event:
        case DiscreteGaussian():
            return DiscreteGaussian(stddev=event.stddev, sensitivity=event.sensitivity)
        case PoissonGaussian() | ConfidentialTraining():
            return PoissonGaussian(
                noise_multiplier=event.noise_multiplier, rate=event.rate, count=1
            )
        case DpSgdBound():
            return event
    raise InvariantError(f"epsilon cannot be computed for events of kind {event.kind}")


@lru_cache(maxsize=64)
def _sampled_once(noise_multiplier: float, rate: float, interval: float, relation: Relation) -> Any:
    """Compute the distribution of one DP-SGD step. Cached, because the computation is slow."""
    from sugarbush.privacy.privacy_loss import sampled_gaussian

    replaced = relation is Relation.REPLACE_ONE
    return sampled_gaussian(noise_multiplier, rate=rate, interval=interval, replaced=replaced)


@lru_cache(maxsize=256)
def _distribution(event: Event, count: int, interval: float, relation: Relation) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    if relation is Relation.REPLACE_ONE and not isinstance(event, PoissonGaussian):
        raise InvariantError(f"epsilon cannot be computed for {event.kind} under {relation}")
    match event:
        case DiscreteGaussian():
            distribution = pld.from_discrete_gaussian_mechanism(
                event.stddev, 1, value_discretization_interval=interval
            )
        case PoissonGaussian():
            distribution = _sampled_once(event.noise_multiplier, event.rate, interval, relation)
        case DpSgdBound():
            from sugarbush.privacy.privacy_loss import from_profile

            distribution = from_profile(_profile(event, interval), interval)
        case _:
            raise InvariantError(f"epsilon cannot be computed for events of kind {event.kind}")
    if count == 1:
        return distribution
    from sugarbush.privacy.privacy_loss import self_composed

    return self_composed(distribution, count)


@lru_cache(maxsize=64)
def _gaussian(mu: float, interval: float) -> Any:
    """Compute the distribution of a mu-GDP mechanism."""
    from sugarbush.privacy.privacy_loss import gaussian

    return gaussian(1.0 / mu, interval)


def rounded_up(value: float, figures: int = 4) -> str:
    """Format an upper bound with `figures` significant digits, rounded up.

    All texts, tables and messages print epsilon, delta, mu and other bounds of a risk with this
    function, and noise and lower bounds with `rounded_down`.

    The result is never below `value` as a float. A number of few digits stays as it is.

    >>> rounded_up(1.0049, 3), rounded_up(0.7349, 2), rounded_up(1e-5), rounded_up(1.2341e-6, 3)
    ('1.01', '0.74', '1e-5', '1.24e-6')
    """
    return _rounded(value, Context(prec=figures, rounding=ROUND_CEILING))


def rounded_down(value: float, figures: int = 4) -> str:
    """Format a lower bound with `figures` significant digits, rounded down.

    >>> rounded_down(1.0059, 3)
    '1'
    """
    return _rounded(value, Context(prec=figures, rounding=ROUND_FLOOR))


def _rounded(value: float, context: Context) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    rounded = float(context.create_decimal(Decimal(repr(float(value)))))
    return f"{rounded:.{context.prec}g}".replace("e-0", "e-")
