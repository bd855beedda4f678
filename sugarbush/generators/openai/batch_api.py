"""The Batch API: files of calls that the endpoint answers within a day, at a lower price.

    <state>/batches/<name>.json     one submitted batch: its id, and the keys of its calls

A batch's file is written before the batch is created and removed after its last answer is in the
cache. A process that died at any point leaves a file behind, and the next run goes on from it: a
batch with an id is polled; one without is looked for at the endpoint by its name, which it carries
as metadata, and submitted anew only when it is not there. Answers are collected in any order.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import openai
from openai.types import Batch
from openai.types.chat import ChatCompletion
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

from sugarbush.errors import StorageError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.cost import CapReachedError, Meter
from sugarbush.generators.openai.endpoint import Call, call_body, read_completion
from sugarbush.generators.openai.failures import (
    FAULTS,
    StopError,
    explain,
    told,
    wait_s,
    worth_retrying,
)
from sugarbush.generators.openai.settings import EndpointSettings
from sugarbush.paths import atomic_file, make_owner_only

FOLDER = "batches"

_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_WINDOW: Literal["24h"] = "24h"
_NAME_FIELD = "sugarbush"
# OpenAI's limits on one batch, with room to spare.
_MOST_CALLS = 50_000
_MOST_BYTES = 150_000_000
# A call that met 429 or 5xx inside a batch goes into one more.
_SUBMISSIONS = 2
_WORTH_RETRYING = {408, 409, 429}
_ENDED = {"completed", "expired", "cancelled", "failed"}

T = TypeVar("T")
Receive = Callable[[Call, Completion], None]


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A batch that was, or is about to be, submitted. `id` is the endpoint's, once it is known."""

    name: str
    base_url: str
    model: str
    id: str | None
    keys: tuple[str, ...]


async def ask_in_batches(
    calls: Sequence[Call],
    *,
    client: openai.AsyncOpenAI,
    params: EndpointSettings,
    meter: Meter,
    known: Callable[[str], bool],
    receive: Receive,
    state: Path,
    say: Callable[[str], None],
) -> None:
    """Make all `calls`; those that failed are left out.

    `known` says whether an answer is in the cache. Raises CapReachedError when not one more call
    may be submitted, StopError when the endpoint refuses a batch. Batches that were submitted stay
    on file and are collected by the next run.
    """
    desk = _Desk(
        client, params=params, meter=meter, receive=receive, folder=state / FOLDER, say=say
    )
    waiting = {call.key: call for call in calls}
    for job in desk.left_behind():
        if not waiting.keys() & set(job.keys):
            continue
        mine = {k: waiting.get(k, _of_another_run(k)) for k in job.keys if not known(k)}
        for key in await desk.go_on(job, mine):
            waiting.pop(key, None)
    submissions: Counter[str] = Counter()
    while waiting:
        mine = desk.admitted(waiting)
        submissions.update(mine.keys())
        for key in await desk.submit(mine):
            del waiting[key]
        waiting = {k: call for k, call in waiting.items() if submissions[k] < _SUBMISSIONS}


class _Desk:
    """Submits, polls and collects."""

    def __init__(
        self,
        client: openai.AsyncOpenAI,
        *,
        params: EndpointSettings,
        meter: Meter,
        receive: Receive,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._client, self._params, self._meter = client, params, meter
        self._receive, self._folder, self._say = receive, folder, say

    def left_behind(self) -> tuple[_Job, ...]:
        """Batches of this endpoint and model that an earlier run has not collected."""
        jobs = (_load(path) for path in sorted(self._folder.glob("*.json")))
        here = (self._params.base_url, self._params.model)
        return tuple(job for job in jobs if (job.base_url, job.model) == here)

    def admitted(self, waiting: dict[str, Call]) -> dict[str, Call]:
        """The calls of the next batch: as many as its size and the caps allow, at least one."""
        chosen: dict[str, Call] = {}
        size = 0
        for call in waiting.values():
            size += len(_line(call, self._params))
            if chosen and (len(chosen) == _MOST_CALLS or size > _MOST_BYTES):
                break
            try:
                self._meter.admit(call.worst_cost)
            except CapReachedError:
                if not chosen:
                    raise
                break
            chosen[call.key] = call
        return chosen

    async def submit(self, mine: dict[str, Call]) -> set[str]:
        """A new batch of the calls `mine`, to its end. Returns the keys that are settled."""
        job = _Job(
            name=uuid.uuid4().hex,
            base_url=self._params.base_url,
            model=self._params.model,
            id=None,
            keys=tuple(mine),
        )
        self._save(job)
        try:
            content = b"".join(_line(call, self._params) for call in mine.values())
            file = await self._client.files.create(
                file=(f"{job.name}.jsonl", content), purpose="batch"
            )
            # Not tried again: an answer that got lost would leave two batches, both billed. The
            # next run finds by its name the one that may have been made.
            batch = await self._client.batches.create(
                input_file_id=file.id,
                endpoint=_ENDPOINT,
                completion_window=_WINDOW,
                metadata={_NAME_FIELD: job.name},
            )
        except FAULTS as error:
            raise StopError(
                f"the batch could not be submitted: {explain(error, self._params)} Nothing is lost;"
                " run again."
            ) from None
        job = replace(job, id=batch.id)
        self._save(job)
        self._say(f"batch {batch.id}: {len(mine)} calls submitted")
        return await self._finish(job, batch, mine)

    async def go_on(self, job: _Job, mine: dict[str, Call]) -> set[str]:
        """A batch of an earlier run, to its end. Returns the keys that are settled.

        None are when the batch never got to the endpoint.
        """
        if job.id is not None:
            batch = await self._retried(self._client.batches.retrieve, job.id)
        else:
            found = await self._named(job.name)
            if found is None:
                self._path(job).unlink(missing_ok=True)
                return set()
            batch = found
        self._meter.hold(call.worst_cost for call in mine.values())
        self._say(f"batch {batch.id}: going on with what an earlier run submitted")
        return await self._finish(job, batch, mine)

    async def _finish(self, job: _Job, batch: Batch, mine: dict[str, Call]) -> set[str]:
        """Wait for a batch, receive its answers; the keys of calls that were answered or refused.

        The others met a fault that another submission may not meet.
        """
        while batch.status not in _ENDED:
            await asyncio.sleep(self._params.batch_poll_s)
            batch = await self._retried(self._client.batches.retrieve, batch.id)
        left = dict(mine)
        refused: dict[str, int] = {}
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is not None:
                refused |= await self._collect(file_id, left)
        for call in left.values():
            self._meter.release(call.worst_cost)
        self._path(job).unlink(missing_ok=True)
        if batch.status == "failed":
            raise StopError(f"batch {batch.id} was refused: {_errors(batch)}")
        if left:
            met = ", ".join(sorted({f"status {status}" for status in refused.values()}))
            self._say(
                f"batch {batch.id} ({batch.status}): {len(left)} of {len(mine)} calls brought no "
                f"answer{' (' + met + ')' if met else ''}"
            )
        return mine.keys() - left.keys() | refused.keys()

    async def _collect(self, file_id: str, left: dict[str, Call]) -> dict[str, int]:
        """Receive the answers in a file and take them out of `left`.

        Returns the calls that would be refused again, with the status that each met.
        """
        content = await self._retried(self._client.files.content, file_id)
        refused = {}
        for line in content.text.splitlines():
            try:
                fields = json.loads(line)
                call, response = left[fields["custom_id"]], fields["response"] or {}
                status = int(response.get("status_code", 0))
                if status != 200:
                    if 400 <= status < 500 and status not in _WORTH_RETRYING:
                        refused[call.key] = status
                    continue
                completion = read_completion(ChatCompletion.construct(**response["body"]))
            except (*FAULTS, ValueError, KeyError, TypeError, AttributeError):
                continue  # not one of ours, or no completion: it stays in `left`
            self._receive(call, completion)
            del left[call.key]
        return refused

    async def _named(self, name: str) -> Batch | None:
        """The batch that carries `name`, if the endpoint has it."""
        try:
            async for batch in self._client.batches.list(limit=100):
                if (batch.metadata or {}).get(_NAME_FIELD) == name:
                    return batch
        except FAULTS as error:
            raise told(error, self._params) from None
        return None

    async def _retried(self, ask: Callable[[str], Awaitable[T]], argument: str) -> T:
        """A question that changes nothing, asked until it is answered."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(worth_retrying),
            wait=wait_s,
            stop=stop_after_attempt(self._params.max_retries + 1),
            reraise=True,
        )
        try:
            return await retrying(ask, argument)
        except FAULTS as error:
            raise told(error, self._params) from None

    def _path(self, job: _Job) -> Path:
        return self._folder / f"{job.name}.json"

    def _save(self, job: _Job) -> None:
        make_owner_only(self._folder)
        with atomic_file(self._path(job)) as path:
            path.write_text(json.dumps(asdict(job)))


def _load(path: Path) -> _Job:
    try:
        fields = json.loads(path.read_text())
        return _Job(**{**fields, "keys": tuple(fields["keys"])})
    except (OSError, ValueError, KeyError, TypeError):
        raise StorageError(
            f"{path}: is no record of a submitted batch. Its answers can still be fetched from the "
            "endpoint by hand; remove the file to go on without them."
        ) from None


def _of_another_run(key: str) -> Call:
    """A call that this run did not ask for, but whose answer was paid for and is worth keeping."""
    return Call(key=key, messages=(), seed=0, worst_cost=0.0)


def _line(call: Call, params: EndpointSettings) -> bytes:
    fields = {
        "custom_id": call.key,
        "method": "POST",
        "url": _ENDPOINT,
        "body": call_body(params, call),
    }
    return json.dumps(fields).encode() + b"\n"


def _errors(batch: Batch) -> str:
    """Why a batch was refused, in the endpoint's own words."""
    listed = batch.errors.data if batch.errors is not None and batch.errors.data else []
    if not listed:
        return "see the endpoint's own page of batches"
    return "; ".join(str(error.message)[:300] for error in listed[:3])
