"""Tests how the number of calls at once follows the latency of a server."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest

from sugarbush.generators.openai.concurrency import ConcurrencyLimit
from sugarbush.generators.openai.endpoints import _limiter

ROUNDS = 60


def used(limit: ConcurrencyLimit, latency: Callable[[int], float], *, rounds: int) -> list[int]:
    """The limit in each of the next rounds, on a server whose latency depends on the calls."""
    found = []
    for _ in range(rounds):
        found.append(limit.value)
        round_ = limit.round
        while limit.round == round_:
            limit.add(round_, in_flight=found[-1], latency_s=latency(found[-1]))
    return found


def queue(slots: int) -> Callable[[int], float]:
    """A server that works on `slots` calls at once, and lets the others wait."""
    return lambda calls: max(1.0, calls / slots)


@pytest.mark.parametrize("slots", [1, 2, 4, 16, 60, 200])
def test_the_limit_settles_at_the_slots_of_a_server_that_queues(slots: int) -> None:
    last = used(ConcurrencyLimit(1000), queue(slots), rounds=ROUNDS)[-10:]
    assert slots <= median(last) <= 1.5 * slots
    assert slots / 2 <= min(last) <= max(last) <= 2 * slots


def test_the_limit_follows_a_server_that_becomes_slower_or_faster() -> None:
    limit = ConcurrencyLimit(1000)
    for slots in (64, 16, 64):
        last = used(limit, queue(slots), rounds=ROUNDS)[-10:]
        assert 0.6 * slots <= sum(last) / 10 <= 1.6 * slots


def test_batching_that_still_pays_is_used() -> None:
    """A batch of 64 takes twice as long as one call, and has 32 times its throughput."""
    last = used(ConcurrencyLimit(64), lambda calls: 1 + calls / 64, rounds=ROUNDS)[-10:]
    assert min(last) >= 51
    assert max(last) == 64


@pytest.mark.parametrize("ceiling", [1, 3, 8, 50])
def test_the_limit_is_between_one_and_its_ceiling(ceiling: int) -> None:
    for latency in (queue(1), queue(1000), lambda calls: float(calls) ** 3):
        values = used(ConcurrencyLimit(ceiling), latency, rounds=ROUNDS)
        assert 1 <= min(values) <= max(values) <= ceiling


def test_answers_of_an_earlier_round_do_not_count() -> None:
    limit = ConcurrencyLimit(100)
    used(limit, queue(1000), rounds=1)
    before = limit.value
    for _ in range(1000):
        limit.add(0, in_flight=8, latency_s=99.0)
    assert limit.value == before


def test_latencies_of_zero_are_no_error() -> None:
    assert used(ConcurrencyLimit(10), lambda calls: 0.0, rounds=5)[-1] >= 1


@pytest.mark.parametrize("slots", [1, 3, 12])
def test_after_a_timeout_the_limit_falls_to_what_the_server_answers_in_time(slots: int) -> None:
    """A server that answers `slots` calls at once, in 1 s, and a timeout of 4 s."""
    limit, timeouts, answered = ConcurrencyLimit(1000), 0, queue(slots)
    seen = []
    for _ in range(ROUNDS):
        calls, round_ = limit.value, limit.round
        seen.append(calls)
        while limit.round == round_:
            if answered(calls) > 4:
                limit.time_out(round_)
                timeouts += 1
            else:
                limit.add(round_, in_flight=calls, latency_s=answered(calls))
    assert slots <= median(seen[-20:]) <= 1.5 * slots
    assert timeouts <= 4


def test_a_timeout_takes_back_a_growth_and_halves_any_other_limit() -> None:
    limit = ConcurrencyLimit(100)
    used(limit, queue(1000), rounds=1)
    assert limit.value == 32
    seen = []
    for _ in range(7):
        limit.time_out(limit.round)
        seen.append(limit.value)
    assert seen == [16, 8, 4, 2, 1, 1, 1]
    assert max(used(limit, queue(1000), rounds=30)) == 100  # it grows again after answers


def test_timeouts_of_an_earlier_round_do_not_count() -> None:
    limit = ConcurrencyLimit(100)
    for _ in range(15):  # the calls that were in flight together
        limit.time_out(0)
    assert limit.value == 8


@pytest.mark.parametrize("per_minute", [1 / 1440, 6.0, 240.0, 1e6])
@pytest.mark.parametrize("largest", [1, 1500])
def test_a_rate_limit_refills_what_the_setting_says_and_holds_the_largest_call(
    per_minute: float, largest: int
) -> None:
    limiter = _limiter(per_minute, largest=largest)
    assert limiter.max_rate / limiter.time_period * 60 == pytest.approx(per_minute)
    assert limiter.max_rate >= largest
