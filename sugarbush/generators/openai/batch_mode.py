"""Opens the installed call mode `batch`, which sends files of calls (`mode: batch`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import openai

from sugarbush.generators.openai.cost import Meter
from sugarbush.generators.openai.endpoint import Call, Receive
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.generators.openai.submitted_calls import BATCH
from sugarbush.registry import CALL_MODES, load_plugin


class CallFiles(Protocol):
    """Sends calls in files to one endpoint, and receives the answers."""

    async def ask(self, calls: Sequence[Call]) -> None:
        """Send all calls and receive their answers. A failed call gets no answer."""

    async def collect(self, calls: Sequence[Call]) -> None:
        """Receive the answers to those of `calls` that are submitted. No new call is sent."""


class BatchMode(Protocol):
    """The plug-in: an entry point `batch` of the group `sugarbush.call_modes`.

    It is a class without arguments, and also has the functions of `SubmittedCalls`.
    """

    async def require_endpoint(self, client: openai.AsyncOpenAI, params: EndpointSettings) -> None:
        """Raise ParamsError if the endpoint accepts no files of calls."""

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
    ) -> CallFiles:
        """Open the endpoint.

        `is_cached` returns whether the cache has an answer for a key. `receive` stores an answer.
        `folder` contains the files of submitted calls.
        """


def batch_mode() -> BatchMode:
    """Return the plug-in. Raises ParamsError if no installed package provides it."""
    mode: BatchMode = load_plugin(CALL_MODES, BATCH)()
    return mode
