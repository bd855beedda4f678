"""The Batch API: files of calls that the endpoint answers within a day, at a lower price.

    <state>/batches/<name>.json     one submitted batch: its id, and the keys of its calls

This file is written before the batch is created, and removed when its last answer is in the cache.
If the process is killed, the next run finds the file and resumes. If the file has the id of a
batch, the next run polls that batch. If the file has no id, the next run searches the endpoint for
the batch by its name, which is in the batch's metadata. It submits the calls again only if there is
no such batch.
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
from tenacity import stop_after_attempt

from sugarbush.errors import StorageError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.openai.cost import CapReachedError, Meter
from sugarbush.generators.openai.endpoint import Call, call_body, read_completion
from sugarbush.generators.openai.failures import (
    FAULTS,
    StopError,
    call_error,
    explain,
    retrying,
)
from sugarbush.generators.openai.settings import EndpointSettings
from sugarbush.paths import atomic_file, make_owner_only

FOLDER = "batches"

_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_WINDOW: Literal["24h"] = "24h"
_NAME_FIELD = "sugarbush"
# Lower than OpenAI's limits on one batch.
_MOST_CALLS = 50_000
_MOST_BYTES = 150_000_000
# A call that fails with 429 or 5xx inside a batch is submitted once more.
_SUBMISSIONS = 2
_WORTH_RETRYING = {408, 409, 429}
_ENDED = {"completed", "expired", "cancelled", "failed"}

T = TypeVar("T")
Receive = Callable[[Call, Completion], None]


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A batch that is submitted or will be submitted next.

    `id` comes from the endpoint and is None before.
    """

    name: str
    base_url: str
    model: str
    id: str | None
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BatchApi:
    """Submits, polls and collects batches. `folder` is the folder of `<name>.json`.

    `is_cached` says whether the cache has an answer; `receive` stores one.
    """

    client: openai.AsyncOpenAI
    params: EndpointSettings
    meter: Meter
    is_cached: Callable[[str], bool]
    receive: Receive
    folder: Path
    say: Callable[[str], None]

    async def ask(self, calls: Sequence[Call]) -> None:
        """Make all `calls`; failed ones get no answer.

        Raises CapReachedError when the caps allow no further call, StopError when the endpoint
        refuses a batch. The next run collects what was submitted.
        """
        waiting = {call.key: call for call in calls}
        for job in self._unfinished():
            if waiting.keys() & set(job.keys):
                # Other runs' answers are collected too: they are paid for.
                unknown = [key for key in job.keys if not self.is_cached(key)]
                mine = {key: waiting.get(key, _call_of_another_run(key)) for key in unknown}
                for key in await self._resume(job, mine):
                    waiting.pop(key, None)
        submissions: Counter[str] = Counter()
        while waiting:
            mine = self._next_batch(waiting)
            submissions.update(mine.keys())
            for key in await self._submit(mine):
                del waiting[key]
            waiting = {k: call for k, call in waiting.items() if submissions[k] < _SUBMISSIONS}

    def _unfinished(self) -> tuple[_Job, ...]:
        """Batches of this endpoint and model that no run has collected."""
        jobs = (_load(path) for path in sorted(self.folder.glob("*.json")))
        here = (self.params.base_url, self.params.model)
        return tuple(job for job in jobs if (job.base_url, job.model) == here)

    def _next_batch(self, waiting: dict[str, Call]) -> dict[str, Call]:
        """As many calls as the size of a batch and the caps allow, at least one."""
        chosen: dict[str, Call] = {}
        size = 0
        for call in waiting.values():
            size += len(_line(call, self.params))
            if chosen and (len(chosen) == _MOST_CALLS or size > _MOST_BYTES):
                break
            try:
                self.meter.admit(call.worst_cost)
            except CapReachedError:
                if not chosen:
                    raise
                break
            chosen[call.key] = call
        return chosen

    async def _submit(self, mine: dict[str, Call]) -> set[str]:
        """Submit a new batch and wait for its end. Returns the keys that need no further try."""
        job = _Job(
            name=uuid.uuid4().hex,
            base_url=self.params.base_url,
            model=self.params.model,
            id=None,
            keys=tuple(mine),
        )
        self._save(job)
        try:
            content = b"".join(_line(call, self.params) for call in mine.values())
            file = await self.client.files.create(
                file=(f"{job.name}.jsonl", content), purpose="batch"
            )
            # No retry: if a response is lost, a retry would create a second batch, and both are
            # billed. If the batch was created, the next run finds it by its name.
            batch = await self.client.batches.create(
                input_file_id=file.id,
                endpoint=_ENDPOINT,
                completion_window=_WINDOW,
                metadata={_NAME_FIELD: job.name},
            )
        except FAULTS as error:
            raise StopError(
                f"the batch could not be submitted: {explain(error, self.params)} Nothing is lost;"
                " run again."
            ) from None
        job = replace(job, id=batch.id)
        self._save(job)
        self.say(f"batch {batch.id}: {len(mine)} calls submitted")
        return await self._finish(job, batch, mine)

    async def _resume(self, job: _Job, mine: dict[str, Call]) -> set[str]:
        """As `_submit`, for a batch of an earlier run; returns no key if it was never created."""
        if job.id is not None:
            batch = await self._retried(self.client.batches.retrieve, job.id)
        elif (found := await self._find(job.name)) is not None:
            batch = found
        else:
            self._path(job).unlink(missing_ok=True)
            return set()
        self.meter.reserve(call.worst_cost for call in mine.values())
        self.say(f"batch {batch.id}: resuming the batch of an earlier run")
        return await self._finish(job, batch, mine)

    async def _finish(self, job: _Job, batch: Batch, mine: dict[str, Call]) -> set[str]:
        """Wait for a batch and receive its answers.

        Returns the keys that were answered or refused.
        """
        while batch.status not in _ENDED:
            await asyncio.sleep(self.params.batch_poll_s)
            batch = await self._retried(self.client.batches.retrieve, batch.id)
        missing = dict(mine)
        refused: dict[str, int] = {}
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is not None:
                refused |= await self._collect(file_id, missing)
        for call in missing.values():
            self.meter.release(call.worst_cost)
        self._path(job).unlink(missing_ok=True)
        if batch.status == "failed":
            raise StopError(f"batch {batch.id} was refused: {_reasons(batch)}")
        if missing:
            met = ", ".join(sorted({f"status {status}" for status in refused.values()}))
            self.say(
                f"batch {batch.id} ({batch.status}): {len(missing)} of {len(mine)} calls got no "
                f"answer{' (' + met + ')' if met else ''}"
            )
        return mine.keys() - missing.keys() | refused.keys()

    async def _collect(self, file_id: str, missing: dict[str, Call]) -> dict[str, int]:
        """Receive a file's answers, removing them from `missing`.

        Returns the status of each call that the endpoint would refuse again.
        """
        content = await self._retried(self.client.files.content, file_id)
        refused = {}
        for line in content.text.splitlines():
            try:
                fields = json.loads(line)
                call, response = missing[fields["custom_id"]], fields["response"] or {}
                status = int(response.get("status_code", 0))
                if status != 200:
                    if 400 <= status < 500 and status not in _WORTH_RETRYING:
                        refused[call.key] = status
                    continue
                completion = read_completion(ChatCompletion.construct(**response["body"]))
            except (*FAULTS, ValueError, KeyError, TypeError, AttributeError):
                continue  # a call of another run, or not a completion: the key stays missing
            self.receive(call, completion)
            del missing[call.key]
        return refused

    async def _find(self, name: str) -> Batch | None:
        """The endpoint's batch with this name; None if there is none."""
        try:
            async for batch in self.client.batches.list(limit=100):
                if (batch.metadata or {}).get(_NAME_FIELD) == name:
                    return batch
        except FAULTS as error:
            raise call_error(error, self.params) from None
        return None

    async def _retried(self, ask: Callable[[str], Awaitable[T]], argument: str) -> T:
        """A request that changes nothing, retried until it is answered."""
        attempts = retrying(stop=stop_after_attempt(self.params.max_retries + 1))
        try:
            return await attempts(ask, argument)
        except FAULTS as error:
            raise call_error(error, self.params) from None

    def _path(self, job: _Job) -> Path:
        return self.folder / f"{job.name}.json"

    def _save(self, job: _Job) -> None:
        make_owner_only(self.folder)
        with atomic_file(self._path(job)) as path:
            path.write_text(json.dumps(asdict(job)))


def _load(path: Path) -> _Job:
    try:
        fields = json.loads(path.read_text())
        return _Job(**{**fields, "keys": tuple(fields["keys"])})
    except (OSError, ValueError, KeyError, TypeError):
        raise StorageError(
            f"{path}: is not a record of a submitted batch. Its answers can still be fetched from "
            "the endpoint by hand; remove the file to continue without them."
        ) from None


def _call_of_another_run(key: str) -> Call:
    return Call(key=key, prompt="", seed=0, worst_cost=0.0)


def _line(call: Call, params: EndpointSettings) -> bytes:
    body = call_body(params, call)
    fields = {"custom_id": call.key, "method": "POST", "url": _ENDPOINT, "body": body}
    return json.dumps(fields).encode() + b"\n"


def _reasons(batch: Batch) -> str:
    """Why a batch was refused, in the words of the endpoint."""
    listed = batch.errors.data if batch.errors is not None and batch.errors.data else []
    if not listed:
        return "see the endpoint's own page of batches"
    return "; ".join(str(error.message)[:300] for error in listed[:3])
