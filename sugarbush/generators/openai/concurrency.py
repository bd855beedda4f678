"""Finds the best number of concurrent calls to an endpoint.

A busy server such as vLLM puts further calls into a queue. Then more concurrent calls add latency
but no throughput. With several endpoints, calls would wait at a slow endpoint while a faster
endpoint is idle.

The search looks for the largest `throughput^3 / latency` (Kleinrock 1979, generalized power with
exponent 3). By Little's law, `throughput = calls in flight / latency`. So doubling the number of
calls must give 19% more throughput. The search compares latencies only with each other, as the
gradient limits of Netflix's concurrency-limits do. So no setting depends on the model or on the
length of its answers.
"""

from __future__ import annotations

import math

# Minimum number of answers per round. In a round with few answers, long answers could look like a
# slow server.
_START = 16
_STEP = 1.25


class ConcurrencyLimit:
    """Sets `value`, the number of calls that may be in flight: 1 to `ceiling`.

    The value starts low and doubles as long as rounds become better. Then the value changes in
    smaller steps. After a worse round, the value goes back, and then changes in the other
    direction. So the value follows a server that becomes faster or slower.

    >>> limit = ConcurrencyLimit(32)
    >>> while limit.value < 32:  # the latency does not depend on the calls in flight
    ...     limit.add(limit.round, in_flight=limit.value, latency_s=1.0)
    """

    def __init__(self, ceiling: int) -> None:
        self.value = min(_START, ceiling)
        self.round = 0
        self._ceiling, self._best, self._best_power = ceiling, self.value, 0.0
        self._probing, self._factor = False, 2.0
        self._answers, self._in_flight, self._latency_s = 0, 0, 0.0

    def add(self, round_: int, *, in_flight: int, latency_s: float) -> None:
        """Record an answer to a call that started in `round_`, when `in_flight` calls were running.

        Answers to calls of earlier rounds do not count, because their limit was different.
        """
        if round_ != self.round:
            return
        self._answers += 1
        self._in_flight += in_flight
        self._latency_s += latency_s
        # A round at the best value is three times as long as a round that tries another value.
        times = 1 if self._probing or not self.round else 3
        if self._answers < times * max(self.value, _START):
            return
        # With n calls in flight and latency T, throughput^3 / T = n^3 / T^4. Constant factors are
        # omitted.
        power = self._in_flight**3 * self._answers / max(self._latency_s, 1e-9) ** 4
        self.round += 1
        self._answers, self._in_flight, self._latency_s = 0, 0, 0.0
        self._decide(power)

    def time_out(self, round_: int) -> None:
        """Record that a call of `round_` got no answer in time, so the server has too many calls.

        The value goes back if it has just grown. Otherwise it is halved.
        """
        if round_ != self.round:
            return
        self.round += 1
        self._answers, self._in_flight, self._latency_s = 0, 0, 0.0
        has_grown = self._probing and self.value > self._best
        self._best = self._best if has_grown else max(1, self.value // 2)
        self.value, self._best_power = self._best, 0.0
        self._probing, self._factor = False, 1 / _STEP

    def _decide(self, power: float) -> None:
        better = power > self._best_power
        if better or not self._probing:
            self._best, self._best_power = self.value, power
        if self._probing and not better:
            self._turn()
            self._probing, self.value = False, self._best
            return
        if self._moved() == self._best:  # the value is at the ceiling or at 1
            self._turn()
        self._probing, self.value = True, self._moved()

    def _turn(self) -> None:
        self._factor = _STEP if self._factor < 1 else 1 / _STEP

    def _moved(self) -> int:
        moved = self._best * self._factor
        whole = math.ceil(moved) if self._factor > 1 else math.floor(moved)
        return max(1, min(whole, self._ceiling))
