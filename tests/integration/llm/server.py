"""An OpenAI-compatible HTTP server on the loopback interface, with configurable failures.

`behave(number, body)` returns the reply to chat request number `number` (from 0). Requests and
complete responses are recorded, so that a test can check that each request was sent once and no
response was lost. As a program (`python -m tests.integration.llm.server PORT_FILE [DELAY_S
[FAULT_SHARE [PORT [SLOTS]]]]`), it writes its port to a file, and a share of FAULT_SHARE of the
requests fails, with each kind of fault in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.parser
import email.policy
import json
import sys
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sugarbush.randomness import public_rng
from tests.integration.project import PRODUCTS
from tests.integration.project import WORDS as FAULTS_OF_PRODUCTS

MODEL = "tiny"
KEY = "sk-test-0123456789abcdef"
WORDS = (
    "the a this that lamp chair kettle box door table shop street morning evening week month "
    "arrived came went broke stopped worked called wrote asked waited paid returned opened found "
    "late early twice again never always under over with without before after from customer agent "
    "parcel courier receipt colour handle screw light cable wood steel paper small large heavy new"
)

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One HTTP response.

    `good` states whether it contains a completion. If `dropped` is true, the connection is closed
    after half of the response.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    delay_s: float = 0.0
    dropped: bool = False
    good: bool = False
    raw: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None
    """Writes the response byte by byte, in place of the other fields."""


def completion(
    text: str | None = None, *, finish_reason: str = "stop", delay_s: float = 0.0, **message: Any
) -> Reply:
    """Return a successful response with `text`."""
    body = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [
            {"index": 0, "finish_reason": finish_reason,
             "message": {"role": "assistant", "content": text} | message}
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }  # fmt: skip
    return Reply(content=json.dumps(body).encode(), delay_s=delay_s, good=True)


def no_choices() -> Reply:
    """Return a response with status 200 and an empty list of choices."""
    body = json.loads(completion("x").content) | {"choices": []}
    return Reply(content=json.dumps(body).encode())


def malformed() -> Reply:
    """Return a response with status 200 and half of a JSON document."""
    return Reply(content=completion("x").content[:40])


def dropped() -> Reply:
    """Return a successful response. The connection is closed in the middle of this response."""
    return Reply(content=completion("x").content, dropped=True)


def failure(status: int, message: str, *, code: str | None = None, **headers: str) -> Reply:
    """Return an error in OpenAI's format. In the names of `headers`, '_' stands for '-'."""
    body = {"error": {"message": message, "code": code, "type": "error", "param": None}}
    return Reply(
        status=status,
        content=json.dumps(body).encode(),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def good_text(body: Body) -> str:
    """Return a harmless text, which is different for each request."""
    return (
        "The customer called about a late delivery and the agent found the parcel at the depot, "
        f"reference {zlib.crc32(json.dumps(body, sort_keys=True).encode())}."
    )


def random_words(number: int, body: Body) -> Reply:
    """Forty random words, so no two answers are alike."""
    rng = public_rng(number, json.dumps(body, sort_keys=True))
    return completion(" ".join(rng.choice(WORDS.split(), size=40)).capitalize() + ".")


def always_good(number: int, body: Body) -> Reply:
    return completion(good_text(body))


def chosen(body: Body, *lists: tuple[str, ...]) -> list[str]:
    """Choose an item of each list. Other requests get other items."""
    digest = zlib.crc32(json.dumps(body, sort_keys=True).encode())
    return [each[digest // 7**i % len(each)] for i, each in enumerate(lists)]


def letter(number: int, body: Body) -> Reply:
    """Write a letter as the donated letters are, about the requested product and wish."""
    asked = str(body["messages"][0]["content"])
    product = next((p for p in PRODUCTS if f"product: {p}" in asked), "lamp")
    wish = "my money back" if "wish: refund" in asked else "another one"
    greeting, problem, ending = chosen(
        body,
        ("Dear shop", "Hello", "To the shop", "Good morning", "Dear all", "Hi there"),
        FAULTS_OF_PRODUCTS,
        ("Yours, a customer", "Thank you", "Regards", "Please answer soon", "I am waiting"),
    )
    order = zlib.crc32(json.dumps(body).encode()) % 9000
    return completion(
        f"{greeting}, the {product} which I ordered under number {order} {problem}, and I would "
        f"like {wish} before week {order % 50}. {ending}."
    )


@dataclass
class Batches:
    """The Files and Batch endpoints: a batch is complete after `polls` polls."""

    polls: int = 1
    limit: int | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: dict[str, int] = field(default_factory=dict)
    ending: str = "completed"
    create: Reply | None = None
    ascii: bool = True  # whether the file of answers escapes other characters

    def reply(
        self, server: FaultServer, method: str, path: str, headers: dict[str, str], content: bytes
    ) -> Reply:
        match method, path.partition("?")[0].removeprefix("/v1/").split("/"):
            case "POST", ["files"]:
                name = f"file-{len(self.files)}"
                self.files[name] = _uploaded(headers, content)
                return _json(
                    {
                        "id": name,
                        "object": "file",
                        "bytes": 1,
                        "created_at": 1,
                        "filename": "b.jsonl",
                        "purpose": "batch",
                        "status": "processed",
                    }
                )
            case "GET", ["files", name, "content"]:
                return Reply(content=self.files[name])
            case "POST", ["batches"]:
                if self.create is not None:
                    return self.create
                return _json(self._new(json.loads(content)))
            case "GET", ["batches"]:
                return _json(
                    {"object": "list", "data": list(self.jobs.values()), "has_more": False}
                )
            case "GET", ["batches", name]:
                return _json(self._look(server, name))
        return failure(404, f"no route {path}")

    def _new(self, body: Body) -> dict[str, Any]:
        name = f"batch-{len(self.jobs)}"
        self.jobs[name] = {
            "id": name, "object": "batch", "endpoint": body["endpoint"], "created_at": 1,
            "input_file_id": body["input_file_id"], "completion_window": "24h",
            "status": "validating", "metadata": body.get("metadata"),
        }  # fmt: skip
        return self.jobs[name]

    def _look(self, server: FaultServer, name: str) -> dict[str, Any]:
        job = self.jobs[name]
        self.looks[name] = self.looks.get(name, 0) + 1
        if job["status"] in {"validating", "in_progress"}:
            job["status"] = "in_progress"
            if self.looks[name] > self.polls:
                self._finish(server, job)
        return job

    def _finish(self, server: FaultServer, job: dict[str, Any]) -> None:
        good: list[Any] = []
        bad: list[Any] = []
        lines = self.files[job["input_file_id"]].splitlines()[: self.limit]
        # The order of the answers differs from the order of the requests.
        for line in reversed(lines):
            fields = json.loads(line)
            reply, body = server.chat(fields["body"])
            try:
                content = json.loads(reply.content)
            except ValueError:
                content = {"what": "no completion"}
            whole = {
                "id": "r", "custom_id": fields["custom_id"], "error": None,
                "response": {"status_code": reply.status, "request_id": "r", "body": content},
            }  # fmt: skip
            written = json.dumps(whole, ensure_ascii=self.ascii)
            (good if reply.status == 200 else bad).append(written)
            if reply.good:
                server.answered.append(body)
        for kind, found in (("output_file_id", good), ("error_file_id", bad)):
            if found:
                self.files[f"{kind}-{job['id']}"] = "\n".join(found).encode()
                job[kind] = f"{kind}-{job['id']}"
        job["status"] = self.ending


@dataclass
class FaultServer:
    """The server and its recorded requests, which tests read."""

    behave: Callable[[int, Body], Reply] = always_good
    models: Reply = field(
        default_factory=lambda: Reply(
            content=json.dumps(
                {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
            ).encode()
        )
    )
    key: str | None = KEY
    port: int = 0
    asked: list[Body] = field(default_factory=list)
    answered: list[Body] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    slots: int = 10**6
    """Requests that are worked on at the same time. The others wait, as in vLLM."""
    loads: list[int] = field(default_factory=list)
    """The requests under way when each request came, with itself."""
    raw: bytearray = field(default_factory=bytearray)
    batches: Batches = field(default_factory=Batches)
    has_batches: bool = True

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.slots)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, ready: Callable[[], None]) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            ready()
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        try:
            with contextlib.suppress(*gone):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    method, path, headers = _parse_head(head)
                    content = await reader.readexactly(int(headers.get("content-length", 0)))
                    self.raw += head + content
                    if not await self._answer(writer, method, path, headers, content):
                        break
        finally:
            writer.transport.abort()

    async def _answer(
        self,
        writer: asyncio.StreamWriter,
        method: str,
        path: str,
        headers: dict[str, str],
        content: bytes,
    ) -> bool:
        reply, body = self._reply(method, path, headers, content)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.loads.append(self.under_way)
        async with self._slots:
            await asyncio.sleep(reply.delay_s)
        self.under_way -= 1
        if reply.raw is not None:
            await reply.raw(writer)
            return False
        headers = {"content-type": "application/json"} | reply.headers
        head = f"HTTP/1.1 {reply.status} X\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        whole = f"{head}content-length: {len(reply.content)}\r\n\r\n".encode() + reply.content
        if reply.dropped:
            writer.write(whole[: -len(reply.content) // 2])
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            return False
        if body is not None and reply.good:
            # A response is recorded before its bytes are sent. So every answer that a test received
            # is in the record.
            self.answered.append(body)
        writer.write(whole)
        await writer.drain()
        return True

    def _reply(
        self, method: str, path: str, headers: dict[str, str], content: bytes
    ) -> tuple[Reply, Body | None]:
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            sent = headers.get("authorization", "")
            return failure(401, f"Incorrect API key provided: {sent}", code="invalid_api_key"), None
        if (method, path) == ("GET", "/v1/models"):
            return self.models, None
        if (method, path) == ("POST", "/v1/chat/completions"):
            return self.chat(json.loads(content))
        if self.has_batches and path.startswith(("/v1/files", "/v1/batches")):
            return self.batches.reply(self, method, path, headers, content), None
        return failure(404, f"no route {path}"), None

    def chat(self, body: Body) -> tuple[Reply, Body]:
        number = len(self.asked)
        self.asked.append(body)
        self.times.append(time.monotonic())
        return self.behave(number, body), body


def _json(fields: dict[str, Any]) -> Reply:
    return Reply(content=json.dumps(fields).encode())


def _uploaded(headers: dict[str, str], content: bytes) -> bytes:
    """Return the content of the part named 'file' in a multipart form."""
    head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
    form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + content)
    for part in form.iter_parts():
        if part.get_param("name", header="content-disposition") == "file":
            return bytes(part.get_payload(decode=True)).replace(b"\r\n", b"\n")
    raise AssertionError("no file in the form")


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *rest = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.partition(":") for line in rest if line)
    return method, path, {name.lower(): value.strip() for name, _, value in pairs}


@contextlib.contextmanager
def running(server: FaultServer) -> Iterator[FaultServer]:
    """Run the server in a thread until the `with` block ends."""
    ready = threading.Event()
    loop = asyncio.new_event_loop()

    async def until_cancelled() -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await server.serve(ready.set)
        finally:
            # A connection that was just accepted gets its transport first: a task that is cancelled
            # before it starts would leave the socket open.
            await asyncio.sleep(0.05)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await asyncio.sleep(0)  # the event loop closes aborted transports in its next iteration

    task = loop.create_task(until_cancelled())
    thread = threading.Thread(target=loop.run_until_complete, args=(task,), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
        loop.close()


FAULTS = (
    failure(429, "slow down", retry_after_ms="2"),
    failure(500, "oops", retry_after_ms="2"),
    dropped(),
    malformed(),
    no_choices(),
)


def faulty(share: float) -> Callable[[int, Body], Reply]:
    """Return a behaviour: one in `1/share` requests gets a fault, each time the next of FAULTS."""
    every = round(1 / share)

    def behave(number: int, body: Body) -> Reply:
        turn, place = divmod(number, every)
        return FAULTS[turn % len(FAULTS)] if place == every - 1 else always_good(number, body)

    return behave


def main(
    port_file: str,
    delay_s: float = 0.0,
    fault_share: float = 0.0,
    port: float = 0,
    slots: float = 10**6,
) -> None:
    behave = faulty(fault_share) if fault_share else _after(delay_s)
    server = FaultServer(behave=behave, port=int(port), slots=int(slots))
    asyncio.run(server.serve(lambda: _announce(Path(port_file), server.port)))


def _after(delay_s: float) -> Callable[[int, Body], Reply]:
    return lambda number, body: replace(random_words(number, body), delay_s=delay_s)


def _announce(path: Path, port: int) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(str(port))
    temporary.replace(path)


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
