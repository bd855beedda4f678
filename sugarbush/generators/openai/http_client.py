"""The HTTP client of every call to an endpoint. It limits the time and the size of each answer.

The time limit covers a whole request, from the connection to the last byte of the answer. The
limits of an ordinary client cover one read each, so a server that sends a byte at a time never
exceeds them. The size limit counts decoded bytes, because a small compressed answer may decode to
gigabytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Any

import httpx2
import openai

from sugarbush.generators.openai.failures import UnreadableAnswerError

# An answer with this size is 4 million characters, and a list of thousands of models is smaller.
MOST_BYTES = 4 * 2**20
_ENCODINGS = {"identity", "gzip", "deflate"}  # the client decodes these in small steps

_OF_THE_TRANSFER = {b"content-encoding", b"content-length", b"transfer-encoding"}

_most_bytes: ContextVar[int] = ContextVar("most_bytes", default=MOST_BYTES)


@contextmanager
def answers_up_to(size: int) -> Iterator[None]:
    """Allow answers of `size` decoded bytes in a block, if this is more than MOST_BYTES."""
    token = _most_bytes.set(max(size, MOST_BYTES))
    try:
        yield
    finally:
        _most_bytes.reset(token)


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """Reads each answer as a whole, within the request's timeout and the size limit.

    Raises openai.APITimeoutError and UnreadableAnswerError.
    """

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        # The SDK writes the timeout of a request into its extensions.
        limit_s = request.extensions["timeout"]["read"]
        request.headers["accept-encoding"] = "gzip, deflate"
        try:
            async with asyncio.timeout(limit_s):
                response = await super().send(request, stream=True, **options)
                try:
                    content = await _content(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise openai.APITimeoutError(request=request) from None
        return httpx2.Response(
            response.status_code,
            headers=[(k, v) for k, v in response.headers.raw if k.lower() not in _OF_THE_TRANSFER],
            content=content,
            request=request,
        )


async def _content(response: httpx2.Response) -> bytes:
    encodings = response.headers.get_list("content-encoding", split_commas=True)
    if len(encodings) > 1 or any(name.strip().lower() not in _ENCODINGS for name in encodings):
        raise UnreadableAnswerError("sent an answer with a content-encoding that was not requested")
    content, most = bytearray(), _most_bytes.get()
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            content += part
            if len(content) > most:
                raise UnreadableAnswerError(f"sent an answer of more than {most / 2**20:g} MiB")
    return bytes(content)
