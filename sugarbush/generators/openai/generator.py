"""Requests texts from any OpenAI-compatible endpoint. No text is paid twice.

Each text is one call. Each answer is written to the cache when it arrives. If a kill, a cap or a
refused key ends a run, the next run requests only the missing answers. An answer that fails the
checks is requested once more with another seed, and then dropped.

Guarantee: the generator accepts only `Released` requests, so private text cannot reach the
endpoint.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from sugarbush.data.shapes.interface import Shape
from sugarbush.errors import SugarbushError
from sugarbush.generators.answer_cache import AnswerCache, Completion, call_key, open_cache
from sugarbush.generators.answers import Asked, answer_all, fitting_prompts
from sugarbush.generators.interface import (
    NO_REQUESTS,
    Answer,
    Generator,
    Request,
    released_requests,
)
from sugarbush.generators.openai.batch_mode import batch_mode
from sugarbush.generators.openai.cost import CapReachedError, Meter
from sugarbush.generators.openai.endpoint import Call, Receive, open_client
from sugarbush.generators.openai.endpoint_settings import CallMode, EndpointSettings
from sugarbush.generators.openai.endpoints import Endpoints, open_endpoints
from sugarbush.generators.openai.failures import CallError, RejectedError, StopError
from sugarbush.generators.openai.probe import paid_probe
from sugarbush.generators.openai.submitted_calls import any_submitted, folder_in
from sugarbush.generators.prompts import estimate_tokens, render
from sugarbush.generators.shared_prefixes import shared_prefixes
from sugarbush.privacy.data_types import Released
from sugarbush.progress import progress
from sugarbush.randomness import seed_of

PROVIDER = "openai"

_FAILURES_IN_A_ROW = 20  # the run stops after this number of failed calls in a row
_SEED_LIMIT = 2**31  # several servers refuse a larger seed

_REFUSED_FORMAT = {400, 422}
_NO_SCHEMA = "the endpoint accepts no JSON Schema, so only the prompt contains it"
_CUT = (
    "the endpoint counted {} tokens in a prompt of more than twice as many words. The endpoint may "
    "cut long prompts without an error, as Ollama does if a prompt is longer than num_ctx. Raise "
    "num_ctx, or lower context_tokens"
)


class OpenAiGenerator(Generator):
    """A generator that calls an OpenAI-compatible endpoint."""

    def __init__(
        self,
        params: EndpointSettings,
        *,
        seed: int,
        state: Path,
        account: str,
        stage: str,
        say: Callable[[str], None],
    ) -> None:
        self._params, self._seed, self._state, self._say = params, seed, state, say
        self._meter = Meter(state, account=account, stage=stage, params=params)
        # None: no answer has shown yet whether the endpoint accepts a JSON Schema. A refusal would
        # end a whole batch.
        self._sends_schema = False if params.mode is CallMode.BATCH else None

    def check(self, planned: Released[tuple[Request, ...]] = NO_REQUESTS) -> None:
        """Check that the endpoint answers, and that each request of `planned` fits its context.

        The check costs one call. If the context length is unknown, this call is as long as the
        longest prompt of `planned`, and no longer. Raises ParamsError or GeneratorError, which says
        what to change.
        """
        prompts = map(self._rendered, released_requests(planned))
        longest = max(prompts, key=estimate_tokens, default="")
        result = paid_probe(self._params, self._meter, longest=longest, say=self._say)
        if result.whole is False:
            self._say(_CUT.format(result.completion.prompt_tokens))

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """Return one answer per request, in order. An answer has a text or a `problem`.

        The journal of paid calls and the progress bar show `what`. Raises PrivacyError for requests
        that are not released. Raises GeneratorError if the endpoint refuses every call, or if a cap
        is reached. Received answers stay in the cache.
        """
        request_values = released_requests(requests)
        with open_cache(self._state) as cache:
            return Released(self._answers(request_values, cache, what), requests.ledger_ids)

    def _answers(
        self, requests: tuple[Request, ...], cache: AnswerCache, what: str
    ) -> tuple[Answer, ...]:
        prompts = self._prompts(requests, what)

        def ask(indices: Sequence[int], attempt: int) -> Asked:
            calls = {
                i: self._call(prompts[i], requests[i].sample, attempt, shape=requests[i].shape)
                for i in indices
            }
            had, fresh = self._had(list(calls.values()), cache, what)
            return Asked(
                keys={i: call.key for i, call in calls.items()}, completions=had, fresh=fresh
            )

        return answer_all(requests, prompts, ask)

    def _had(
        self, calls: list[Call], cache: AnswerCache, what: str
    ) -> tuple[dict[str, Completion], set[str]]:
        """Return the answers by key, and the keys of new answers."""
        calls_by_key = {c.key: c for c in calls}
        had = cache.find(calls_by_key)
        fresh: dict[str, Completion] = {}
        in_batches = self._params.mode is CallMode.BATCH
        while missing := [c for key, c in calls_by_key.items() if key not in had]:
            # A batch may take a day, so the run does not hold the lock while it waits for one.
            if in_batches or self._in_flight(missing):
                fresh |= self._asked_for(missing, cache, what, send=in_batches)
                had |= cache.find(c.key for c in missing)
                if in_batches:
                    break
                continue
            with self._meter.alone(self._say):
                # Other runs may have stored answers before this run got the lock.
                had |= cache.find(c.key for c in missing)
                missing = [c for c in missing if c.key not in had]
                if self._in_flight(missing):
                    continue
                if missing:
                    fresh |= self._asked_for(missing, cache, what)
            break
        return had | fresh, set(fresh)

    def _in_flight(self, calls: Iterable[Call]) -> bool:
        return any_submitted(self._state, [call.key for call in calls])

    def _asked_for(
        self, calls: list[Call], cache: AnswerCache, what: str, *, send: bool | None = None
    ) -> dict[str, Completion]:
        """Return the answers by key, and cache them. A failed call has no answer.

        If `send` is None, each call is an HTTP call. If `send` is true, the calls are sent in
        batches. If `send` is false, only submitted batches are collected.
        """
        calls = _by_prefix(calls)
        received: dict[str, Completion] = {}
        retries = 0
        with progress(len(calls), what=what, unit="answers") as advance:

            def receive(call: Call, completion: Completion) -> None:
                self._meter.settle(
                    call.worst_cost,
                    completion,
                    what=what,
                    store=lambda: cache.put(call.key, completion),
                )
                received[call.key] = completion
                advance(1, self._progress_note(retries))

            def retry() -> None:
                nonlocal retries
                retries += 1
                advance(0, self._progress_note(retries))

            if send is not None:
                asyncio.run(self._ask_in_batches(calls, cache, receive, send=send))
            else:
                asyncio.run(self._ask(calls, receive, what, retry))
        return received

    def _progress_note(self, retries: int) -> str:
        counted = f"{retries} {'retries' if retries > 1 else 'retry'}, " if retries else ""
        return counted + self._meter.summary()

    async def _ask(
        self, calls: list[Call], receive: Receive, what: str, retry: Callable[[], None]
    ) -> None:
        async with open_endpoints(self._params, self._say) as endpoints:
            endpoints.on_retry = retry
            workers = _Workers(endpoints, self._meter, receive, sends_schema=self._sends_schema)
            try:
                await workers.ask(calls, at_once=self._params.most_calls_at_once)
            finally:
                if self._sends_schema is not False and workers.sends_schema is False:
                    self._say(f"{what}: {_NO_SCHEMA}")
                self._sends_schema = workers.sends_schema
                if workers.failed:
                    self._say(f"{what}: {workers.failed} calls failed. Last error: {workers.why}")

    async def _ask_in_batches(
        self, calls: list[Call], cache: AnswerCache, receive: Receive, *, send: bool
    ) -> None:
        async with open_client(self._params) as client:
            files = batch_mode().open(
                client=client,
                params=self._params,
                meter=self._meter,
                is_cached=lambda key: cache.get(key) is not None,
                receive=receive,
                folder=folder_in(self._state),
                say=self._say,
            )
            await (files.ask(calls) if send else files.collect(calls))

    def _prompts(self, requests: tuple[Request, ...], what: str) -> dict[int, str]:
        prompts = fitting_prompts(requests, self._rendered, what=what, say=self._say)
        inclusions = [text in prompts[i] for i in prompts for text in requests[i].examples]
        if not all(inclusions):
            self._say(
                f"{what}: {inclusions.count(False)} of {len(inclusions)} example texts were left "
                f"out, because {self._params.setting}.context_tokens={self._params.context_tokens} "
                "has no room"
            )
        return prompts

    def _rendered(self, request: Request) -> str:
        context_tokens, max_tokens = self._params.context_tokens, self._params.max_tokens
        return render(request, context_tokens=context_tokens, max_tokens=max_tokens)

    def _call(self, prompt: str, sample: int, attempt: int, *, shape: Shape | None = None) -> Call:
        params = self._params  # the prompt contains the schema, so the key needs no response_format
        return Call(
            key=call_key(
                provider=PROVIDER,
                **params.key_fields,
                messages=[("user", prompt)],
                seed=self._seed,
                sample=sample,
                attempt=attempt,
            ),
            prompt=prompt,
            seed=seed_of(self._seed, "openai", sample, attempt) % _SEED_LIMIT,
            worst_cost=self._meter.worst_cost(prompt),
            response_format=None if self._sends_schema is False else _response_format(shape),
        )


def _response_format(shape: Shape | None) -> dict[str, Any] | None:
    """Return the format of structured output, or None for a text that is no JSON.

    Not every JSON Schema is `strict` in the sense of OpenAI's API, so answers are always validated.
    """
    if shape is None or shape.json_schema is None:
        return None
    described = {"name": "record", "schema": dict(shape.json_schema)}
    return {"type": "json_schema", "json_schema": described}


def _by_prefix(calls: Sequence[Call]) -> list[Call]:
    """Sort the calls for an endpoint that caches the beginnings of prompts.

    First one call of each group with a common beginning, then the rest of each group. So the
    endpoint has the beginning in its cache before the rest of the group.
    """
    prefixes = shared_prefixes([call.prompt for call in calls])
    order = sorted(range(len(calls)), key=lambda i: (prefixes[i].leader != i, prefixes[i].leader))
    return [calls[index] for index in order]


class _Workers:
    """Makes concurrent calls until all calls are made, a cap is reached, or an error ends the run.

    At the end, the calls in flight may finish, because they will be billed.
    """

    def __init__(
        self, endpoints: Endpoints, meter: Meter, receive: Receive, *, sends_schema: bool | None
    ) -> None:
        self.failed, self.why, self.sends_schema = 0, "", sends_schema
        self._first = asyncio.Lock()
        self._endpoints, self._meter, self._receive = endpoints, meter, receive
        self._waiting: deque[Call] = deque()
        self._in_a_row = 0
        self._end: Exception | None = None

    async def ask(self, calls: Iterable[Call], *, at_once: int) -> None:
        """Make all `calls`. A failed call gets no answer. Raises an error that ends the run."""
        self._waiting.extend(calls)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(self._waiting))):
                group.create_task(self._work())
        if self._end is not None:
            raise self._end

    async def _work(self) -> None:
        while self._waiting and self._end is None:
            call = self._waiting.popleft()
            try:
                self._meter.admit(call.worst_cost)
            except CapReachedError as error:
                self._waiting.appendleft(call)
                # The running calls may cost less than they reserved, so the cap may still allow
                # this call when they end.
                if not self._meter.in_flight:
                    self._stop(error)
                return
            except SugarbushError as error:
                self._stop(error)
                return
            await self._make(call)

    async def _make(self, call: Call) -> None:
        try:
            completion = await self._complete(call)
            self._receive(call, completion)
            self._in_a_row = 0
        except CallError as error:
            self._meter.release(call.worst_cost)
            if self._end is None:
                self._failed(str(error))
        except Exception as error:  # a bug in Sugarbush must not lose the running calls
            self._meter.release(call.worst_cost)
            self._stop(error)

    async def _complete(self, call: Call) -> Completion:
        """Send the JSON Schema until an endpoint refuses it, and then only the prompt.

        The other calls wait until one call has shown whether an endpoint accepts the schema.
        """
        plain = replace(call, response_format=None)
        if call.response_format is None:
            return await self._endpoints.complete(plain)
        async with self._first if self.sends_schema is None else nullcontext():
            if self.sends_schema is not False:
                try:
                    completion = await self._endpoints.complete(call)
                    self.sends_schema = True
                    return completion
                except RejectedError as error:
                    if error.status not in _REFUSED_FORMAT:
                        raise
            completion = await self._endpoints.complete(plain)
            self.sends_schema = False
            return completion

    def _failed(self, why: str) -> None:
        self.failed, self.why = self.failed + 1, why
        self._in_a_row += 1
        if self._in_a_row >= _FAILURES_IN_A_ROW:
            self._stop(
                StopError(
                    f"{self._in_a_row} calls failed in a row. Last error: {why} Every answer "
                    "received is cached. Run again: the run requests only the missing answers."
                )
            )

    def _stop(self, error: Exception) -> None:
        self._end = self._end or error
        self._endpoints.close()
