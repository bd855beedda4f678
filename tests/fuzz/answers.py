"""Answers of language models, and of endpoints that mean harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import openai
from hypothesis import strategies as st

from sugarbush.attributes.label_prompts import read_labels
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.batch_files.api import BatchApi
from sugarbush.data.schema import Attribute
from sugarbush.generators.answer_cache import Completion, open_cache
from sugarbush.generators.answer_checks import bare_text, check
from sugarbush.generators.interface import RandomRequest, VariationRequest
from sugarbush.generators.openai.cost import Meter, read_journal, spending_by_batch
from sugarbush.generators.openai.endpoint import Call
from sugarbush.generators.openai.endpoints import Endpoint, Endpoints
from sugarbush.generators.openai.settings import OpenAI
from tests.fuzz.damage import (
    CANARY,
    bytes_like,
    damaged,
    edit,
    fields_like,
    more_damaged,
    values,
    with_damage,
)

_ATTRIBUTES = (
    Attribute(name="mood", values=("angry", "İ calm"), source="llm"),
    Attribute(name="end", values=("open",), source="llm"),
)
_ENDPOINT = {
    "model": "m", "key_variable": None, "base_url": "http://x/v1", "max_retries": 0,
    "requests_per_minute": 1e9,
    "tokens_per_minute": 1e12, "temperature": None,
    "prices": {"m": {"input": 1.5, "output": 2, "date": "2026-01-01"}},
}  # fmt: skip
_PRIVATE = LabelEndpoint.model_validate(_ENDPOINT | {"trusted": True})
_PUBLIC = OpenAI.model_validate(_ENDPOINT)
_PARTS = (
    "Sure, here is the text:\n", "I'm sorry, but I cannot ", "help with that request", "<think>",
    "</think>", "```json\n",
    "```", "____", "Example 1:", '{"a": 1}', "As an AI", "here's " * 50, "I am " * 50, "sure " * 99,
    "\\begin{", "<a b>", "<a ",
    "der die das und ist nicht ein eine ich sie mit den dem von zu auf für sich es auch wir ",
    "\u0000", "\ud800", "“", "”",
    "日本語のテキスト", "Привет, как дела ", "x" * 9000, " " * 9000, "#" * 300, '[{"' * 300, "\n**",
    "(" * 500, "**" * 500,
)  # fmt: skip
_REQUESTS = (
    RandomRequest(subject="letters", words=20),
    RandomRequest(
        subject="letters", examples=("A letter about a lamp that came broken.", "{}", "\ud800")
    ),
    VariationRequest(
        subject="letters", parent="A letter about ____ that came broken, dear shop.", mask_share=0.2
    ),
    VariationRequest(subject="letters", parent="", mask_share=1.0, examples=("",)),
)
_ENDINGS = ("stop", "length", "content_filter", None, "", CANARY)
_LABELS = json.dumps({"mood": "angry", "end": "open"})

texts = st.tuples(
    st.one_of(
        st.lists(st.one_of(st.sampled_from(_PARTS), st.text(max_size=20)), max_size=6).map("".join),
        fields_like({"mood": "angry", "end": "open"}).map(json.dumps),
        bytes_like(_LABELS.encode(), f"<think>a</think>```json\n{_LABELS}\n```".encode()).map(
            lambda content: content.decode("utf-8", "surrogateescape")
        ),
    ),
    st.sampled_from(_REQUESTS),
    st.sampled_from(_ENDINGS),
)


def more_damaged_answer(
    case: tuple[str, Any, str | None], rng: Random
) -> tuple[str, Any, str | None]:
    text = case[0] if rng.random() < 0.5 else rng.choice(_PARTS) + case[0]
    edited = more_damaged(text.encode("utf-8", "surrogatepass"), rng)
    request, ending = rng.choice(_REQUESTS), rng.choice(_ENDINGS)
    return edited.decode("utf-8", "surrogateescape"), request, ending


def check_answer(case: tuple[str, Any, str | None], folder: Path) -> None:
    text, request, ending = case
    bare = bare_text(text, request)
    check(bare, request, ending)
    codes = read_labels(text, _ATTRIBUTES)
    assert codes is None or all(
        0 <= c < len(a.domain) for c, a in zip(codes, _ATTRIBUTES, strict=True)
    )


_MESSAGE = {"role": "assistant", "content": _LABELS, "refusal": None}
_CHOICE = {"index": 0, "message": _MESSAGE, "finish_reason": "stop"}
_USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
_BODY = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [_CHOICE],
    "usage": _USAGE,
}
_ERROR = {
    "message": f"I refuse: {CANARY}",
    "type": "x",
    "code": "insufficient_quota",
    "param": CANARY,
}
_bodies = st.one_of(
    fields_like(_MESSAGE).map(lambda own: _BODY | {"choices": [_CHOICE | {"message": own}]}),
    fields_like(_CHOICE).map(lambda own: _BODY | {"choices": [own]}),
    fields_like(_USAGE).map(lambda own: _BODY | {"usage": own}),
    fields_like(_BODY),
    fields_like(_ERROR).map(lambda own: {"error": own}),
    fields_like(_ERROR),
    values,
).map(lambda body: json.dumps(body).encode())
_raw = st.builds(damaged, _bodies, st.lists(edit, max_size=2))
_HEADERS = (
    "7", "0", "-1", "nan", "inf", "1e308", "9" * 400, "Sat, 21 Nov 2026 12:00:30 -0000",
    "Sat, 99 Nov 99999 12:00:30 +9999",
    "Mon, 01 Jan 0001 00:00:00 +2359", "Fri, 31 Dec 9999 23:59:59 -2359", CANARY, "",
    f"http://h/{CANARY}", "gzip", "br", "utf-99",
    "application/json", "text/plain; charset=utf-7", "text/html; charset=\\", "deflate, gzip",
)  # fmt: skip
_headers = st.dictionaries(
    st.sampled_from(
        [
            "retry-after",
            "retry-after-ms",
            "location",
            "content-type",
            "x-should-retry",
            "x-request-id",
        ]
    ),
    st.sampled_from(_HEADERS),
    max_size=3,
)
_FAULTS: tuple[Callable[[httpx2.Request], Exception], ...] = (
    lambda r: httpx2.RemoteProtocolError(f"illegal status line: {CANARY}", request=r),
    lambda r: httpx2.ReadTimeout(CANARY, request=r),
    lambda r: httpx2.ConnectError(f"refused {CANARY}", request=r),
    lambda r: httpx2.DecodingError(CANARY, request=r),
)
_STATUSES = [200] * 6 + [
    100,
    204,
    206,
    301,
    307,
    400,
    401,
    402,
    403,
    404,
    408,
    409,
    413,
    422,
    429,
    500,
    503,
    599,
]
responses: st.SearchStrategy[Any] = st.one_of(
    st.tuples(st.sampled_from(_STATUSES), _headers, _raw),
    st.tuples(st.sampled_from(_STATUSES), st.just({}), _raw),
    st.sampled_from(_FAULTS),
)


def more_damaged_response(case: Any, rng: Random) -> Any:
    status, headers, content = (200, {}, b"") if callable(case) else case
    body = _BODY if rng.random() < 0.7 else {"error": _ERROR}
    fresh = json.dumps(with_damage(body, rng)).encode()
    content = fresh if callable(case) or rng.random() < 0.6 else more_damaged(content, rng)
    return (status if rng.random() < 0.5 else rng.choice(_STATUSES)), headers, content


class _Harm:
    """One loop and one client, whose endpoint answers with the case at hand."""

    def __init__(self) -> None:
        self.case: Any = None
        self.loop = asyncio.new_event_loop()
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer), trust_env=False)
        self.client = openai.AsyncOpenAI(
            base_url="http://x/v1", api_key=CANARY, max_retries=0, http_client=client
        )

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if callable(self.case):
            raise self.case(request)
        status, headers, content = self.case
        return httpx2.Response(status, headers=headers, content=content)


@cache
def _harm() -> _Harm:
    return _Harm()


def call_endpoint(case: Any, folder: Path) -> None:
    """Send a private text to an endpoint that repeats the text and the key wherever it can."""
    harm = _harm()
    harm.case = case
    call = Call(key="k", prompt=f"What is the mood of: {CANARY}?", seed=1, worst_cost=0.5)
    meter = Meter(folder, account="letters", stage="s", params=_PRIVATE)
    meter.admit(call.worst_cost)
    endpoints = Endpoints([Endpoint(harm.client, _PRIVATE)], print)
    completion = harm.loop.run_until_complete(endpoints.complete(call))
    assert isinstance(completion.text, str | None)
    read_labels(completion.text or "", _ATTRIBUTES)
    with open_cache(folder) as answers:
        meter.settle(
            call.worst_cost,
            completion,
            what="labels",
            store=lambda: answers.put(call.key, completion),
        )
        assert answers.get(call.key) == completion or completion.text is None
    meter.summary()
    journal = folder / "usage" / "letters.jsonl"
    spending_by_batch(read_journal(journal))
    assert CANARY not in journal.read_text()
    journal.unlink()


_LINE = {"custom_id": "k", "response": {"status_code": 200, "body": _BODY}, "error": None}
_lines = st.one_of(
    fields_like(_LINE),
    fields_like({"status_code": 200, "body": _BODY}).map(lambda own: _LINE | {"response": own}),
    fields_like(_BODY).map(lambda own: _LINE | {"response": {"status_code": 200, "body": own}}),
).map(json.dumps)
batch_files = st.builds(
    lambda lines, edits: damaged("\n".join(lines).encode(), edits),
    st.lists(_lines, min_size=1, max_size=3),
    st.lists(edit, max_size=1),
)


def more_damaged_batch(case: bytes, rng: Random) -> bytes:
    if rng.random() < 0.5:
        return more_damaged(case, rng)
    lines = [json.dumps(with_damage(_LINE, rng)) for _ in range(rng.randint(1, 3))]
    return "\n".join(lines).encode()


def receive_batch(case: bytes, folder: Path) -> None:
    """The file of a finished batch."""
    received: list[Completion] = []
    api = BatchApi(
        client=_harm().client,
        params=_PUBLIC,
        meter=Meter(folder, account="letters", stage="s", params=_PUBLIC),
        is_cached=lambda key: False,
        receive=lambda call, completion: received.append(completion),
        folder=folder,
        say=print,
    )
    missing = {"k": Call(key="k", prompt="", seed=0, worst_cost=0.0)}
    api._receive_all(case.decode("utf-8", "replace"), missing)
    assert len(received) + len(missing) == 1
