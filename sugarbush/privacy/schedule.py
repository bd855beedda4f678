"""Computes how many releases a cap allows, and which epsilon each of many releases may spend.

All releases read all records, so their costs compose (`Ledger.total`). A corpus that grows has two
other ways. A statistic that adds up can be drawn by a binary tree over the weeks (Chan, Shi, Song
2011; Dwork, Naor, Pitassi, Rothblum 2010): `TreeNoise` says what that would give. And weeks that
share no unit do not compose: each may spend the whole cap as a dataset of its own.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from sugarbush.errors import ParamsError
from sugarbush.privacy.accounting import SLACK_SHARE, gaussian_epsilon, gaussian_mu
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.events import Event
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.settings import LARGEST_EPSILON, SMALLEST_EPSILON

# the largest number of runs that is counted; 128 weekly releases take more than two years
MOST_RUNS = 128
MOST_WEEKS = 520
BETWEEN_DRAWS = (1, 2, 4, 13)  # weeks: every week, every second, every month, every quarter
TREE_IS_BETTER_FROM = 21  # weeks: from here on, every tree has less noise than equal new draws

EventsAt = Callable[[float], tuple[Event, ...]]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Equal releases, each on all records, with `weeks_between` weeks between two of them.

    `epsilon` is that of one release, rounded down to two digits, and `total` that of all charges of
    the dataset after the last release. `noise` is the noise of one release, relative to a single
    release that spends all that is left of the cap.
    """

    weeks_between: int
    releases: int
    epsilon: float
    total: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class TreeNoise:
    """The noise of running totals that are drawn by a binary tree over the weeks.

    The unit is the noise of one total that spends all that is left of the cap. The condition: the
    statistic adds up over the weeks, and a unit has records in one week only. A node is a block of
    1, 2, 4, ... weeks, and only nodes that a total needs are drawn. A week is in at most `levels`
    nodes, so each node has mu / sqrt(levels). The total of week t is a sum of as many nodes as t
    has binary ones. `most` is the largest noise of a total, and `mean` the mean over the weeks.
    """

    levels: int
    most: float
    mean: float


def tree_noise(weeks: int) -> TreeNoise:
    """Return the noise of a tree over `weeks` weeks.

    >>> tree = tree_noise(52)
    >>> tree.levels, round(tree.most, 2), round(tree.mean, 2)
    (6, 5.48, 3.98)
    """
    levels = weeks.bit_length()
    noise = [math.sqrt(levels * week.bit_count()) for week in range(1, weeks + 1)]
    return TreeNoise(levels=levels, most=max(noise), mean=math.fsum(noise) / weeks)


def schedules(ledger: Ledger, events_at: EventsAt, *, weeks: int) -> tuple[Schedule, ...]:
    """Return the schedules of `weeks` weeks that the rest of the cap allows, the most often first.

    `events_at` plans a run with a given epsilon. The last schedule is a single release. Nothing is
    charged. Raises ParamsError for a number of weeks below 1 or above `MOST_WEEKS`.
    """
    if not 1 <= weeks <= MOST_WEEKS:
        raise ParamsError(f"--weeks: expected 1 to {MOST_WEEKS} weeks (got {weeks})")
    between = sorted({min(each, weeks) for each in (*BETWEEN_DRAWS, weeks)})
    found = [_schedule(ledger, events_at, weeks, each) for each in between]
    return tuple(each for each in found if each is not None)


def _schedule(
    ledger: Ledger, events_at: EventsAt, weeks: int, weeks_between: int
) -> Schedule | None:
    releases = math.ceil(weeks / weeks_between)
    epsilon = largest_epsilon(ledger, events_at, releases=releases)
    if epsilon is None:
        return None
    mu = mu_of(epsilon=epsilon, delta=ledger.delta)
    return Schedule(
        weeks_between=weeks_between,
        releases=releases,
        epsilon=epsilon,
        total=ledger.total(*events_at(epsilon), runs=releases),
        noise=mu_left(ledger) / mu,
    )


def mu_left(ledger: Ledger) -> float:
    """Return what the charges leave of the cap, as the mu of one Gaussian mechanism."""
    whole = mu_of(epsilon=ledger.cap, delta=(1 - SLACK_SHARE) * ledger.delta)
    spent = gaussian_mu(entry.event for entry in ledger.entries())
    return math.sqrt(max(whole**2 - spent**2, 0.0))


def largest_epsilon(ledger: Ledger, events_at: EventsAt, *, releases: int) -> float | None:
    """Return the largest epsilon of two digits with which `releases` runs stay within the cap.

    The result is None if the smallest epsilon is too large, or if such a run cannot be planned. The
    search starts at the estimate of Gaussian DP, and the accountant of the ledger decides.
    """
    mu = mu_left(ledger) / math.sqrt(releases)
    if mu == 0:
        return None
    guess = gaussian_epsilon(mu, delta=ledger.delta)
    epsilon = _two_digits(min(max(guess, SMALLEST_EPSILON), LARGEST_EPSILON))

    def fits(epsilon: float) -> bool:
        return ledger.total(*events_at(epsilon), runs=releases) <= ledger.cap

    try:
        while epsilon >= SMALLEST_EPSILON and not fits(epsilon):
            epsilon = _two_digits(epsilon, steps=-1)
        if epsilon < SMALLEST_EPSILON:
            return None
        while (larger := _two_digits(epsilon, steps=1)) <= LARGEST_EPSILON and fits(larger):
            epsilon = larger
    except ParamsError:  # so small a run leaves nothing beside a profile, or has only noise
        return None
    return epsilon


def _two_digits(value: float, *, steps: int = 0) -> float:
    """Round down to two significant digits, and go `steps` such numbers up or down.

    >>> _two_digits(0.4659), _two_digits(0.46, steps=1), _two_digits(1.0, steps=-1)
    (0.46, 0.47, 0.99)
    """
    power = math.floor(math.log10(value * (1 + 1e-12))) - 1
    digits = math.floor(value / 10**power * (1 + 1e-12)) + steps
    if digits == 9:  # below 10, the numbers are ten times as close
        power, digits = power - 1, 99
    return float(f"{digits}e{power}")


def runs_within_cap(ledger: Ledger, events: tuple[Event, ...]) -> int:
    """Return how many more runs with `events` the cap allows, at most `MOST_RUNS`. The search
    starts at the estimate of Gaussian DP, because computing a total can take seconds."""

    cap = ledger.cap

    def fits(runs: int) -> bool:
        return ledger.total(*events, runs=runs) <= cap

    most = _expected_runs(ledger, events)
    beyond, step = most + 1, 1
    while most and not fits(most):
        most, beyond, step = max(0, most - step), most, 2 * step
    while beyond <= MOST_RUNS and fits(beyond):
        most, beyond, step = beyond, min(beyond + step, MOST_RUNS + 1), 2 * step
    return most + bisect_left(range(most + 1, beyond), True, key=lambda runs: not fits(runs))


def _expected_runs(ledger: Ledger, events: tuple[Event, ...]) -> int:
    """Estimate by Gaussian DP how many runs the cap allows, or 0 without a bound."""
    if math.isinf(ledger.cap):
        return MOST_RUNS
    spent = [entry.event for entry in ledger.entries()]
    return bisect_right(
        range(1, MOST_RUNS + 1),
        mu_of(epsilon=ledger.cap, delta=ledger.delta),
        key=lambda runs: gaussian_mu([*spent, *events * runs]),
    )
