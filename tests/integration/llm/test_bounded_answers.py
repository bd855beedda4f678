"""No endpoint can hold a run for ever or fill the memory, in any request."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sugarbush.attributes.llm_labels import Labeller
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.data.schema import Attribute
from sugarbush.errors import GeneratorError
from sugarbush.generators.openai.generator import OpenAiGenerator
from sugarbush.generators.openai.http_client import MOST_BYTES
from tests.integration.llm.conftest import Bench, wishes
from tests.integration.llm.server import MODEL, Reply, completion

Start = Callable[..., Bench]
LIMIT_S = 1.0
HEAD = b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n"
MANY = 2**28  # decoded bytes of a bomb
MOST_MEMORY = 12 * MOST_BYTES


def bomb(wbits: int) -> bytes:
    """Return 256 MiB of spaces in 256 KiB, as gzip (31), zlib (15) or raw deflate (-15).

    Compressed blocks that are flushed in full can be repeated, so only one is compressed.
    """
    block, count = b" " * 2**20, MANY // 2**20
    coder = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = (coder.compress(block) + coder.flush(zlib.Z_FULL_FLUSH)) * count + coder.flush()
    check = zlib.crc32 if wbits == 31 else zlib.adler32
    value = 0 if wbits == 31 else 1
    for _ in range(count if wbits > 0 else 0):
        value = check(block, value)
    match wbits:
        case 31:
            return gzip.compress(b"")[:10] + body + struct.pack("<II", value, MANY)
        case 15:
            return b"\x78\xda" + body + struct.pack(">I", value)
    return body


def trickled(*, start: bytes, byte: bytes) -> Reply:
    """Return a response whose bytes come one by one, for ever."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(byte)
            await writer.drain()
            await asyncio.sleep(0.05)

    return Reply(raw=write)


def endless(*, start: bytes, block: bytes) -> Reply:
    """Return a response that sends `block` again and again, as fast as it can."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        for _ in itertools.count():
            writer.write(block)
            await writer.drain()

    return Reply(raw=write)


def encoded(content: bytes, encoding: str) -> Reply:
    return Reply(content=content, headers={"content-encoding": encoding})


SLOW = {
    "body": trickled(start=HEAD + b"content-length: 9999999\r\n\r\n{", byte=b" "),
    "head": trickled(start=HEAD, byte=b"x"),
    "chunks": trickled(start=HEAD + b"transfer-encoding: chunked\r\n\r\n", byte=b"1\r\n \r\n"),
}
LARGE = {
    "endless": endless(start=HEAD + b"connection: close\r\n\r\n", block=b" " * 2**16),
    "chunked": endless(
        start=HEAD + b"transfer-encoding: chunked\r\n\r\n",
        block=b"10000\r\n" + b" " * 2**16 + b"\r\n",
    ),
    "gzip": encoded(bomb(31), "gzip"),
    "deflate": encoded(bomb(15), "deflate"),
    "raw deflate": encoded(bomb(-15), "deflate"),
}
ENCODED = {
    "twice": encoded(bomb(31), "gzip, gzip"),
    "brotli": encoded(b"\x0b\x02\x80hello\x03", "br"),
    "zstandard": encoded(b"(\xb5/\xfd", "zstd"),
}


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if a block takes much memory. The responses never end, so a block without a time limit
    does not end either."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


def refused(run: Bench, *, says: str, **changes: Any) -> None:
    """Check that the check of the endpoint fails within the limits, with one clear message."""
    generator = run.generator(timeout_s=LIMIT_S, max_retries=0, **changes)
    with bounded(), pytest.raises(GeneratorError) as caught:
        generator.check()
    message = str(caught.value)
    assert says in message
    assert "generator.openai.base_url" in message
    assert run.server.base_url in message
    assert "\n" not in message


@pytest.mark.parametrize("route", ["models", "chat"])
@pytest.mark.parametrize("reply", SLOW.values(), ids=list(SLOW))
def test_a_check_ends_within_its_time_limit(bench: Start, reply: Reply, route: str) -> None:
    run = bench(**hostile(route, reply))
    refused(run, says=f"generator.openai.timeout_s={LIMIT_S:g}")


@pytest.mark.parametrize("route", ["models", "chat"])
@pytest.mark.parametrize("reply", LARGE.values(), ids=list(LARGE))
def test_a_check_reads_no_endless_answer(bench: Start, reply: Reply, route: str) -> None:
    run = bench(**hostile(route, reply))
    refused(run, says="more than 4 MiB")


@pytest.mark.parametrize("route", ["models", "chat"])
@pytest.mark.parametrize("reply", ENCODED.values(), ids=list(ENCODED))
def test_an_encoding_that_was_not_requested_is_refused(
    bench: Start, reply: Reply, route: str
) -> None:
    refused(bench(**hostile(route, reply)), says="content-encoding")


def hostile(route: str, reply: Reply) -> dict[str, Any]:
    """Return the fields of a server that sends `reply` on one route."""
    return {"models": reply} if route == "models" else {"behave": lambda number, body: reply}


@pytest.mark.parametrize("status", [400, 500, 503])
def test_an_endless_error_is_not_read_either(bench: Start, status: int) -> None:
    start = HEAD.replace(b"200", str(status).encode()) + b"connection: close\r\n\r\n"
    run = bench(behave=lambda number, body: endless(start=start, block=b" " * 2**16))
    refused(run, says="more than 4 MiB")


def test_a_compressed_answer_is_read(bench: Start) -> None:
    coder = zlib.compressobj(9, zlib.DEFLATED, 31)
    content = completion("ready").content
    packed = coder.compress(content) + coder.flush()
    run = bench(behave=lambda n, b: replace(encoded(packed, "gzip"), good=True))
    run.generator(timeout_s=LIMIT_S).check()
    assert b"accept-encoding: gzip, deflate\r\n" in bytes(run.server.raw).lower()


def test_a_list_of_millions_of_models_stays_small(bench: Start) -> None:
    listed = b'{"data": [' + b"{}," * (MOST_BYTES // 3 - 20) + b'{"id": "tiny"}]}'
    assert len(listed) < MOST_BYTES
    run = bench(models=Reply(content=listed))
    tracemalloc.start()
    try:
        run.generator().check()
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("reply", [SLOW["body"], LARGE["gzip"]], ids=["slow", "gzip"])
def test_a_run_ends_and_keeps_the_other_answers(bench: Start, reply: Reply) -> None:
    run = bench(behave=lambda number, body: completion("A good text.") if number else reply)
    generator = run.generator(timeout_s=LIMIT_S, max_retries=0, concurrency=1)
    with bounded():
        answers = generator.generate(wishes(3)).value
    assert [answer.problem is None for answer in answers].count(False) <= 1


@pytest.mark.parametrize("reply", [SLOW["body"], LARGE["gzip"]], ids=["slow", "gzip"])
def test_a_label_endpoint_is_bounded_too(bench: Start, tmp_path: Path, reply: Reply) -> None:
    run = bench(behave=lambda number, body: reply)
    params = LabelEndpoint(
        base_url=run.server.base_url,
        model=MODEL,
        key_variable="OPENAI_API_KEY",
        trusted=True,
        timeout_s=LIMIT_S,
        max_retries=0,
    )
    attribute = Attribute(name="mood", values=("angry", "calm"), source="llm")
    labeller = Labeller(params, [attribute], folder=tmp_path / "labels", account="tickets")
    with bounded(), pytest.raises(GeneratorError, match=r"base_url|refuses every call"):
        labeller.check("A lamp came broken.")


@pytest.mark.parametrize("kind", ["output_file_id", "batches"])
def test_a_batch_is_bounded_too(bench: Start, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The file of a batch may be larger than an answer, by the number of its calls."""
    run = bench()
    usual = run.server.batches.reply

    def reply(server: Any, method: str, path: str, headers: Any, content: bytes) -> Reply:
        if kind in path and method == "GET":
            return LARGE["gzip"]
        return usual(server, method, path, headers, content)

    monkeypatch.setattr(run.server.batches, "reply", reply)
    generator: OpenAiGenerator = run.generator(timeout_s=LIMIT_S, max_retries=0, mode="batch")
    with bounded(), pytest.raises(GeneratorError, match="more than"):
        generator.generate(wishes(3))


def test_an_answer_up_to_the_limit_is_whole(bench: Start) -> None:
    text = "word " * (MOST_BYTES // 6)
    run = bench(behave=lambda number, body: completion(text))
    assert len(json.dumps(text)) < MOST_BYTES
    run.generator(timeout_s=10).check()
