"""Calls one or more OpenAI-compatible endpoints, with rate limits, a deadline and retries.

`sugarbush.generators.openai.failures` decides which failures are retried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import openai
from aiolimiter import AsyncLimiter
from tenacity import RetryCallState

from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.cost import likely_prompt_tokens
from sugarbush.generators.openai.endpoint import Call, call_body, complete, open_client
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.generators.openai.failures import (
    FAULTS,
    CallError,
    NextStep,
    asked_wait_s,
    call_error,
    explain,
    retrying,
    verdict_on,
)

_BURST_S = 2.0  # the rate limit allows the calls of this many seconds at once
_FIRST_CALLS = 8
_ANSWERS_FOR_A_CALL = 100
_FAILURES_IN_A_ROW = 3
_LONGEST_REST = 6  # 2**6 seconds


class _ClosingError(Exception):
    """Raised when the run ends before a call is made."""


@dataclass
class _Clock:
    """The last address of one call, and the total time of its attempts.

    The time does not include waits for rate limits or for other calls.
    """

    params: EndpointSettings
    attempts_s: float = 0.0


class Endpoint:
    """An open connection to one address, with its limits and its state.

    `most_calls` may be in flight at once. Each answer allows one call more, up to `concurrency`. If
    a call gets no answer in time, too many calls wait in the server's queue. Then `most_calls` is
    halved, and every hundred answers allow one call more, because the cause may be gone.
    """

    def __init__(self, client: openai.AsyncOpenAI, params: EndpointSettings) -> None:
        self.params, self._ceiling = params, params.concurrency
        self.most_calls, self._halved_at = min(_FIRST_CALLS, params.concurrency), 0.0
        self._answers = 0  # since the last halving
        self.in_flight, self.refuses, self.is_named = 0, False, False
        self.rests_until = self._resume_at = self._rested_at = 0.0
        self.most_tokens = params.context_tokens + params.max_tokens
        self._client, self._failures = client, 0
        self._requests = _limiter(params.requests_per_minute, largest=1)
        self._tokens = _limiter(params.tokens_per_minute, largest=self.most_tokens)

    @property
    def load(self) -> float:
        return self.in_flight / self.most_calls

    async def wait_for_rate_limits(self, tokens: int) -> None:
        await self._requests.acquire()
        await self._tokens.acquire(tokens)
        while (pause_s := self._resume_at - time.monotonic()) > 0:
            await asyncio.sleep(pause_s)

    async def ask(self, body: dict[str, Any], clock: _Clock) -> Completion:
        clock.params = self.params
        started = time.monotonic()
        try:
            completion = await complete(self._client, body)
            self._failures, self.rests_until = 0, self._resume_at
            self._answers += 1
            if self._answers % _ANSWERS_FOR_A_CALL == 0:
                self._ceiling = min(self._ceiling + 1, self.params.concurrency)
            self.most_calls = min(self.most_calls + 1, self._ceiling)
        except FAULTS as error:
            # calls from before the last time do not count: they waited together
            if isinstance(error, openai.APITimeoutError) and started >= self._halved_at:
                self._ceiling = self.most_calls = max(1, self.most_calls // 2)
                self._halved_at, self._answers = time.monotonic(), 0
            self._heed(error, started)
            raise
        finally:
            clock.attempts_s += time.monotonic() - started
        return completion

    def _heed(self, error: Exception, started: float) -> None:
        """Delay calls after a 429 with a waiting time. Pause an endpoint after several failures."""
        now = time.monotonic()
        if isinstance(error, openai.APIStatusError) and error.status_code < 500:
            asked = asked_wait_s(error)
            if error.status_code == 429 and asked is not None:
                self._resume_at = max(self._resume_at, now + min(asked, self.params.deadline_s))
                self.rests_until = max(self.rests_until, self._resume_at)
        # failures of calls from before the last pause do not count
        elif started >= self._rested_at:
            self._failures += 1
            if (more := self._failures - _FAILURES_IN_A_ROW) >= 0:
                self._rested_at = now
                self.rests_until = max(self.rests_until, now + 2.0 ** min(more, _LONGEST_REST))

    @property
    def fails(self) -> bool:
        return self._failures >= _FAILURES_IN_A_ROW


class Endpoints:
    """Open connections to all addresses of the settings, for all calls of one event loop.

    A call goes to the address with the fewest calls in flight relative to its limit. If an address
    fails three times in a row, the address gets no calls for 1 to 64 seconds. If an address refuses
    every call, the address gets no more calls. The other addresses then get its calls. A single
    address always gets all calls. `on_retry` is called before each wait for another attempt.
    """

    def __init__(self, endpoints: Sequence[Endpoint], say: Callable[[str], None]) -> None:
        self._endpoints, self._say = endpoints, say
        self.on_retry: Callable[[], None] = lambda: None
        self._params = endpoints[0].params
        self._patience: set[asyncio.Timeout] = set()
        self._freed = asyncio.Condition()
        self._closing = False

    def close(self) -> None:
        """Stop all waits for another attempt. Running attempts may finish."""
        if not self._closing:
            self._closing = True
            for patience in self._patience:
                patience.reschedule(0)

    async def complete(self, call: Call) -> Completion:
        """Return the answer from one of the endpoints.

        Raises CallError if only this call failed, and StopError if all later calls would fail.
        """
        clock = _Clock(self._params)
        attempts = retrying(stop=lambda state: self._give_up(state, clock), sleep=self._sleep)
        body = call_body(self._params, call)
        tokens = likely_prompt_tokens(call.prompt) + self._params.max_tokens
        try:
            return await attempts(self._attempt, body, tokens, clock)
        except _ClosingError:
            raise CallError("the run ended before this call was made") from None
        except FAULTS as error:
            raise call_error(error, clock.params) from None

    async def _attempt(self, body: dict[str, Any], tokens: int, clock: _Clock) -> Completion:
        while True:
            async with self._turn() as endpoint:
                async with self._waiting():
                    await endpoint.wait_for_rate_limits(min(tokens, endpoint.most_tokens))
                try:
                    return await endpoint.ask(body, clock)
                except FAULTS as error:
                    if not self._is_left_out(endpoint, error):
                        raise

    def _is_left_out(self, endpoint: Endpoint, error: Exception) -> bool:
        """Return whether `endpoint` refuses every call while another endpoint accepts calls."""
        refuses = verdict_on(error) is NextStep.STOP
        endpoint.refuses = endpoint.refuses or refuses
        if all(e.refuses for e in self._endpoints):
            return False
        if (refuses or endpoint.fails) and len(self._endpoints) > 1 and not endpoint.is_named:
            endpoint.is_named = True
            self._say(f"{explain(error, endpoint.params)} The other addresses get its calls.")
        return refuses

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Endpoint]:
        """Wait until an endpoint is below its limit, and count one more call there."""
        async with self._waiting(), self._freed:
            endpoint = await self._freed.wait_for(self._next)
        assert endpoint is not None
        endpoint.in_flight += 1
        try:
            yield endpoint
        finally:
            endpoint.in_flight -= 1
            async with self._freed:
                rooms = (e.most_calls - e.in_flight for e in self._endpoints)
                self._freed.notify(sum(max(0, room) for room in rooms))

    def _next(self) -> Endpoint | None:
        """Choose the endpoint for the next call. Return None if all usable endpoints are busy."""
        now = time.monotonic()
        willing = [e for e in self._endpoints if not e.refuses] or self._endpoints
        awake = [e for e in willing if e.rests_until <= now] or willing
        return min((e for e in awake if e.load < 1), key=lambda e: e.load, default=None)

    def _give_up(self, state: RetryCallState, clock: _Clock) -> bool:
        spent_s = clock.attempts_s + state.idle_for + state.upcoming_sleep
        return (
            self._closing
            or state.attempt_number > self._params.max_retries
            or spent_s >= self._params.deadline_s
        )

    async def _sleep(self, seconds: float) -> None:
        self.on_retry()
        async with self._waiting():
            await asyncio.sleep(seconds)

    @asynccontextmanager
    async def _waiting(self) -> AsyncIterator[None]:
        """Run a block that waits before an attempt. Raises _ClosingError if the run ends."""
        if self._closing:
            raise _ClosingError
        try:
            async with asyncio.timeout(None) as patience:
                self._patience.add(patience)
                yield
        except TimeoutError:
            raise _ClosingError from None
        finally:
            self._patience.discard(patience)


@asynccontextmanager
async def open_endpoints(
    params: EndpointSettings, say: Callable[[str], None]
) -> AsyncIterator[Endpoints]:
    """Open a connection to every address. `say` gets a message about each failing address."""
    async with AsyncExitStack() as stack:
        opened = []
        for base_url in params.base_urls:
            endpoint_params = params.at(base_url)
            opened.append(
                Endpoint(
                    await stack.enter_async_context(open_client(endpoint_params)), endpoint_params
                )
            )
        yield Endpoints(opened, say)


def _limiter(per_minute: float, *, largest: float) -> AsyncLimiter:
    """Return a limiter of calls or tokens per minute. One call counts for at most `largest`."""
    capacity = max(per_minute * _BURST_S / 60, largest)
    return AsyncLimiter(capacity, capacity * 60 / per_minute)
