"""Finds how many calls at once an endpoint can use.

Servers such as vLLM do not refuse a call that they have no room for: they queue it. From then on,
more calls at once add latency and no throughput, and the calls of a slow endpoint wait while a
faster one is idle.

The limit climbs to the largest `throughput^3 / latency` (Kleinrock 1979, generalized power with
exponent 3). By Little's law, throughput is calls in flight / latency. So twice as many calls must
give 19% more throughput. Latencies are only compared with each other, as in the gradient limits of
Netflix's concurrency-limits: the model and the length of its answers need no setting.
"""

from __future__ import annotations

import math

# A round of fewer answers would mostly compare long answers with short ones.
_START = 16
_STEP = 1.25


class ConcurrencyLimit:
    """`value` is the number of calls that may be in flight: 1 to `ceiling`.

    It starts low and doubles while that pays. Then it goes in smaller steps, up or down: as long as
    a round is better than the one before, and back and the other way after a worse one. So it
    follows a server that becomes faster or slower.

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
        """Record an answer to a call that started in `round_` as one of `in_flight` calls.

        Answers to calls of an earlier round, which had another limit, do not count.
        """
        if round_ != self.round:
            return
        self._answers += 1
        self._in_flight += in_flight
        self._latency_s += latency_s
        # A step that may be worse lasts a third of a round at the best value.
        times = 1 if self._probing or not self.round else 3
        if self._answers < times * max(self.value, _START):
            return
        # The means of n^3 / T^4, up to a factor: throughput^3 / T with throughput n / T.
        power = self._in_flight**3 * self._answers / max(self._latency_s, 1e-9) ** 4
        self.round += 1
        self._answers, self._in_flight, self._latency_s = 0, 0, 0.0
        self._decide(power)

    def _decide(self, power: float) -> None:
        """Choose the value of the next round."""
        better = power > self._best_power
        if better or not self._probing:
            self._best, self._best_power = self.value, power
        if self._probing and not better:
            self._turn()
            self._probing, self.value = False, self._best
            return
        if self._moved() == self._best:  # at the ceiling or at 1
            self._turn()
        self._probing, self.value = True, self._moved()

    def _turn(self) -> None:
        self._factor = _STEP if self._factor < 1 else 1 / _STEP

    def _moved(self) -> int:
        """The best value, one step up or down."""
        moved = self._best * self._factor
        whole = math.ceil(moved) if self._factor > 1 else math.floor(moved)
        return max(1, min(whole, self._ceiling))
