"""Uses the Batch API: the endpoint answers a file of calls within a day, at a lower price.

Each batch has a job file in the state folder (`sugarbush.batch_files.jobs`). A run
writes the job file before it creates the batch. The run removes the job file when all answers are
in the cache. If a run needs a call of a submitted batch, the run waits for the batch and does not
send the call again.

If a process is killed, the next run finds the job file. If the job file has the id of a batch, the
run polls this batch. Otherwise the run asks the endpoint for a batch with the job's name in its
metadata. The run submits the calls again only if no such batch exists.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import httpx2
import openai
from filelock import FileLock, Timeout
from openai.types import Batch
from tenacity import stop_after_attempt

from sugarbush.batch_files.jobs import (
    BatchJob,
    job_lock,
    job_path,
    jobs_with,
    remove_job,
    save_job,
)
from sugarbush.errors import ParamsError
from sugarbush.generators.openai.cost import CapReachedError, Meter
from sugarbush.generators.openai.endpoint import Call, Receive, call_body, read_completion
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.generators.openai.failures import FAULTS, StopError, call_error, explain, retrying
from sugarbush.generators.openai.http_client import answers_up_to
from sugarbush.json_lines import json_lines

_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_WINDOW: Literal["24h"] = "24h"
_NAME_FIELD = "sugarbush"
# These values must be within OpenAI's limits for one batch.
_MOST_CALLS = 50_000
_MOST_BYTES = 150_000_000
# A call that fails with 429 or 5xx inside a batch is submitted once more.
_SUBMISSIONS = 2
_WORTH_RETRYING = {408, 409, 429}
_ENDED = {"completed", "expired", "cancelled", "failed"}
# Maximum size of a line in a file of answers: its fields, and the tokens in escaped characters.
_LINE_BYTES, _TOKEN_BYTES = 4096, 16
# Maximum time between two attempts to lock a batch that another run polls
_LOOK_S = 1.0
POLL_S = 30.0  # time between two polls of a submitted batch

_NO_SUCH_PATH = {404, 405, 501}

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class BatchApi:
    """Submits batches, polls them, and collects their answers. `folder` contains the job files.

    `is_cached` returns whether the cache has an answer for a key. `receive` stores an answer.
    """

    client: openai.AsyncOpenAI
    params: EndpointSettings
    meter: Meter
    is_cached: Callable[[str], bool]
    receive: Receive
    folder: Path
    say: Callable[[str], None]

    async def ask(self, calls: Sequence[Call]) -> None:
        """Make all `calls` in batches. A failed call gets no answer.

        Calls of a submitted batch are not sent again; their answers come from this batch. Raises
        CapReachedError if the caps allow no further call, and StopError if the endpoint refuses a
        batch. After an error, the next run collects the submitted batches.
        """
        waiting = {call.key: call for call in calls}
        submissions: Counter[str] = Counter()
        while True:
            await self._collect_in_flight(waiting)
            with self.meter.alone(self.say):
                waiting = {k: call for k, call in waiting.items() if not self.is_cached(k)}
                if jobs_with(self.folder, waiting):
                    continue  # another run has just submitted these calls
                if not waiting:
                    return
                mine = self._next_batch(waiting)
                submissions.update(mine.keys())
                lock, job, batch = await self._submit(mine)
            try:
                for key in await self._finish(job, batch, mine):
                    del waiting[key]
            finally:
                lock.release()
            waiting = {k: call for k, call in waiting.items() if submissions[k] < _SUBMISSIONS}

    async def collect(self, calls: Sequence[Call]) -> None:
        """Collect the answers to `calls` from submitted batches. No new call is sent."""
        await self._collect_in_flight({call.key: call for call in calls})

    async def _collect_in_flight(self, waiting: dict[str, Call]) -> None:
        """Wait for the submitted batches that contain a call of `waiting`.

        Calls that need no further attempt are removed from `waiting`.
        """
        for job in jobs_with(self.folder, waiting):
            async with self._polling(job):
                if not job_path(self.folder, job).exists():  # another run has collected the batch
                    remove_job(self.folder, job)
                    continue
                # The run also collects the answers to other runs' calls, because these calls are
                # already paid.
                unknown = [key for key in job.keys if not self.is_cached(key)]
                other = Call(key="", prompt="", seed=0, worst_cost=0.0)
                mine = {key: waiting.get(key, replace(other, key=key)) for key in unknown}
                for key in await self._resume(job, mine):
                    waiting.pop(key, None)

    @asynccontextmanager
    async def _polling(self, job: BatchJob) -> AsyncIterator[None]:
        """Hold the lock for polling a batch. If another run holds the lock, wait."""
        lock = job_lock(self.folder, job)
        said = False
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if not said:
                    self.say(f"waiting: another run polls batch {job.id or job.name}")
                    said = True
                await asyncio.sleep(min(POLL_S, _LOOK_S))
        try:
            yield
        finally:
            lock.release()

    def _next_batch(self, waiting: dict[str, Call]) -> dict[str, Call]:
        """Choose the most calls that the batch size and the caps allow, but at least one."""
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

    async def _submit(self, mine: dict[str, Call]) -> tuple[FileLock, BatchJob, Batch]:
        """Submit a new batch inside `Meter.alone`. Return the lock, the job and the batch."""
        job = BatchJob(
            name=uuid.uuid4().hex,
            base_url=self.params.address,
            model=self.params.model,
            id=None,
            keys=tuple(mine),
            account=self.meter.account,
            worst_cost=sum(call.worst_cost for call in mine.values()),
        )
        lock = job_lock(self.folder, job)
        lock.acquire()
        try:
            save_job(self.folder, job)
            # The job file now counts these calls for all runs, so the meter must not count them
            # again.
            for call in mine.values():
                self.meter.release(call.worst_cost)
            self.meter.count_batches()
            job, batch = await self._created(job, mine)
        except BaseException:
            lock.release()
            raise
        return lock, job, batch

    async def _created(self, job: BatchJob, mine: dict[str, Call]) -> tuple[BatchJob, Batch]:
        try:
            content = b"".join(_line(call, self.params) for call in mine.values())
            file = await self.client.files.create(
                file=(f"{job.name}.jsonl", content),
                purpose="batch",
                timeout=self.params.deadline_s,
            )
            # This request is not retried. If only the response was lost, a retry would create a
            # second batch, and both batches would be billed. The next run finds a lost batch by its
            # name.
            batch = await self.client.batches.create(
                input_file_id=file.id,
                endpoint=_ENDPOINT,
                completion_window=_WINDOW,
                metadata={_NAME_FIELD: job.name},
            )
        except FAULTS as error:
            raise StopError(
                f"the batch could not be submitted: {explain(error, self.params)} No answer is "
                "lost. Run again."
            ) from None
        job = replace(job, id=batch.id)
        save_job(self.folder, job)
        self.say(f"batch {batch.id}: {len(mine)} calls submitted")
        return job, batch

    async def _resume(self, job: BatchJob, mine: dict[str, Call]) -> set[str]:
        """Collect a batch of an earlier run. Return an empty set for a batch that does not
        exist."""
        if job.id is not None:
            batch = await self._retried(self.client.batches.retrieve, job.id)
        elif (earlier_batch := await self._find(job.name)) is not None:
            batch = earlier_batch
        else:
            with self.meter.alone(self.say):
                remove_job(self.folder, job)
            return set()
        self.say(f"batch {batch.id}: resuming the batch of an earlier run")
        return await self._finish(job, batch, mine)

    async def _finish(self, job: BatchJob, batch: Batch, mine: dict[str, Call]) -> set[str]:
        """Receive the answers of a batch. Return the keys of all answered or refused calls."""
        while batch.status not in _ENDED:
            await asyncio.sleep(POLL_S)
            batch = await self._retried(self.client.batches.retrieve, batch.id)
        with answers_up_to(len(job.keys) * (_LINE_BYTES + _TOKEN_BYTES * self.params.max_tokens)):
            contents = [
                (await self._retried(self._content, file_id)).content.decode("utf-8-sig", "replace")
                for file_id in (batch.output_file_id, batch.error_file_id)
                if file_id is not None
            ]
        missing = dict(mine)
        refused: dict[str, int] = {}
        with self.meter.alone(self.say):
            self.meter.reserve(call.worst_cost for call in mine.values())
            try:
                for content in contents:
                    refused |= self._receive_all(content, missing)
                remove_job(self.folder, job)
            finally:
                for call in missing.values():
                    self.meter.release(call.worst_cost)
        if batch.status == "failed":
            raise StopError(f"batch {batch.id} was refused: {_reasons(batch)}")
        if missing:
            met = ", ".join(sorted({f"status {status}" for status in refused.values()}))
            self.say(
                f"batch {batch.id} ({batch.status}): {len(missing)} of {len(mine)} calls got no "
                f"answer{' (' + met + ')' if met else ''}"
            )
        return mine.keys() - missing.keys() | refused.keys()

    async def _content(self, file_id: str) -> openai.HttpxBinaryResponseContent:
        return await self.client.files.content(file_id, timeout=self.params.deadline_s)

    def _receive_all(self, content: str, missing: dict[str, Call]) -> dict[str, int]:
        """Receive the answers in a file's content, and remove their calls from `missing`.

        Returns, by key, the status of each call that the endpoint would refuse again.
        """
        refused = {}
        for line in json_lines(content):
            try:
                fields = json.loads(line)
                call, response = missing[fields["custom_id"]], fields["response"] or {}
                status = int(response.get("status_code", 0))
                if status != 200:
                    if 400 <= status < 500 and status not in _WORTH_RETRYING:
                        refused[call.key] = status
                    continue
                completion = read_completion(response["body"])
            except (*FAULTS, ValueError, OverflowError, KeyError, TypeError, AttributeError):
                continue  # skip lines without a completion, and answers to calls of other runs
            self.receive(call, completion)
            del missing[call.key]
        return refused

    async def _find(self, name: str) -> Batch | None:
        try:
            async with asyncio.timeout(self.params.deadline_s):  # a list may have endless pages
                async for batch in self.client.batches.list(limit=100):
                    if (batch.metadata or {}).get(_NAME_FIELD) == name:
                        return batch
        except FAULTS as error:
            raise call_error(error, self.params) from None
        return None

    async def _retried(self, ask: Callable[[str], Awaitable[T]], argument: str) -> T:
        """Send a read-only request, and retry the request up to `max_retries` times."""
        attempts = retrying(stop=stop_after_attempt(self.params.max_retries + 1))
        try:
            return await attempts(ask, argument)
        except FAULTS as error:
            raise call_error(error, self.params) from None


async def require_batch_api(client: openai.AsyncOpenAI, params: EndpointSettings) -> None:
    """Raise ParamsError if the endpoint has no Batch API. Ignore all other failures."""
    try:
        await client.get("/batches?limit=1", cast_to=httpx2.Response)
    except openai.APIStatusError as error:
        if error.status_code in _NO_SUCH_PATH:
            raise ParamsError(
                f"params.yaml: {params.setting}.mode=batch, but {params.address} has no Batch API "
                f"(status {error.status_code}). Set `mode: direct`"
            ) from None
    except FAULTS:
        return


def _line(call: Call, params: EndpointSettings) -> bytes:
    body = call_body(params, call)
    fields = {"custom_id": call.key, "method": "POST", "url": _ENDPOINT, "body": body}
    return json.dumps(fields).encode() + b"\n"


def _reasons(batch: Batch) -> str:
    listed = batch.errors.data if batch.errors is not None and batch.errors.data else []
    if not listed:
        return "the endpoint gave no reason. Look at the endpoint's web page of batches"
    return "; ".join(str(error.message)[:300] for error in listed[:3])
