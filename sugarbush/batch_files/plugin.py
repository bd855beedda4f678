"""Registers the Batch API as the entry point `batch` of the group `sugarbush.call_modes`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from sugarbush.batch_files.jobs import jobs_in, jobs_with

if TYPE_CHECKING:  # slow imports
    import openai

    from sugarbush.batch_files.api import BatchApi
    from sugarbush.generators.openai.cost import Meter
    from sugarbush.generators.openai.endpoint import Receive
    from sugarbush.generators.openai.endpoint_settings import EndpointSettings


class BatchFiles:
    """Submits files of calls, and knows which calls are in submitted files.

    `folder` contains the job files of the batches.
    """

    def reserved(self, folder: Path, *, account: str) -> tuple[int, float]:
        """Return the number and the maximum total cost of the calls of an account in batches that
        no run has collected."""
        jobs = [job for job in jobs_in(folder) if job.account == account]
        return sum(len(job.keys) for job in jobs), sum(job.worst_cost for job in jobs)

    def has_any(self, folder: Path, keys: Collection[str]) -> bool:
        """Return whether a submitted batch contains a call with one of `keys`."""
        return bool(jobs_with(folder, keys))

    async def require_endpoint(self, client: openai.AsyncOpenAI, params: EndpointSettings) -> None:
        """Raise ParamsError if the endpoint has no Batch API. Ignore all other failures."""
        from sugarbush.batch_files.api import require_batch_api

        await require_batch_api(client, params)

    def open(
        self,
        *,
        client: openai.AsyncOpenAI,
        params: EndpointSettings,
        meter: Meter,
        is_cached: Callable[[str], bool],
        receive: Receive,
        folder: Path,
        say: Callable[[str], None],
    ) -> BatchApi:
        """Open the Batch API of an endpoint."""
        from sugarbush.batch_files.api import BatchApi

        return BatchApi(
            client=client,
            params=params,
            meter=meter,
            is_cached=is_cached,
            receive=receive,
            folder=folder,
            say=say,
        )
