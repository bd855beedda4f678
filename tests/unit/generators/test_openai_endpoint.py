"""Tests which failures are retried, how long the wait is, and what the error messages say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import RetryCallState

from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.errors import ParamsError
from sugarbush.generators.openai.endpoint import read_completion, read_key
from sugarbush.generators.openai.failures import (
    NextStep,
    explain,
    retry_after_s,
    verdict_on,
    wait_s,
)
from sugarbush.generators.openai.generator import OpenAiGenerator
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.run.settings import load_params

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEY = "sk-secret-0123456789"
REQUEST = httpx2.Request("POST", "http://x/v1", headers={"authorization": f"Bearer {KEY}"})


def params(**changes: Any) -> OpenAI:
    fields = load_params(ROOT / "params.yaml").generator.openai.model_dump()
    return OpenAI.model_validate(fields | changes)


def status_error(
    status: int, message: str = "no", code: str | None = None, **headers: str
) -> openai.APIStatusError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx2.Response(status, headers=named, request=REQUEST)
    kinds: dict[int, Callable[..., openai.APIStatusError]] = {
        401: openai.AuthenticationError, 404: openai.NotFoundError, 429: openai.RateLimitError
    }  # fmt: skip
    kind = kinds.get(status, openai.APIStatusError)
    return kind(message, response=response, body={"message": message, "code": code})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now=NOW) == seconds


@given(st.text(), st.text())
def test_no_header_can_break_the_reading_of_it(milliseconds: str, seconds: str) -> None:
    headers = {"retry-after-ms": milliseconds, "retry-after": seconds}
    read = retry_after_s(headers, now=NOW)
    assert read is None or read >= 0


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        *[(status_error(status), NextStep.RETRY) for status in (408, 409, 429, 500, 502, 503, 529)],
        *[(status_error(status), NextStep.SKIP) for status in (400, 403, 413, 415, 422)],
        *[(status_error(status), NextStep.STOP) for status in (401, 402, 404)],
        (status_error(429, code="insufficient_quota"), NextStep.STOP),
        (openai.APIConnectionError(request=REQUEST), NextStep.RETRY),
        (openai.APITimeoutError(request=REQUEST), NextStep.RETRY),
        (TimeoutError(), NextStep.RETRY),
        (KeyError("a fault of ours"), NextStep.STOP),
    ],
    ids=lambda value: getattr(value, "name", None) or f"{type(value).__name__}",
)
def test_what_may_pass_is_tried_again_and_nothing_else(error: Exception, verdict: NextStep) -> None:
    assert verdict_on(error) is verdict


def test_why_a_host_cannot_be_reached_is_told() -> None:
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = httpx2.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number")
    assert "WRONG_VERSION_NUMBER" in explain(error, params())
    error.__cause__ = httpx2.ConnectError("")
    assert "(ConnectError)" in explain(error, params())


def failed_with(error: Exception, attempt: int) -> RetryCallState:
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
    state.attempt_number = attempt
    state.set_exception((type(error), error, None))  # type: ignore[arg-type]
    return state


def test_the_wait_is_what_the_endpoint_asks_for() -> None:
    assert wait_s(failed_with(status_error(429, retry_after="12"), 1)) == 12
    assert wait_s(failed_with(status_error(503, retry_after_ms="40"), 5)) == 0.04


def test_other_waits_grow_with_jitter_up_to_a_minute() -> None:
    waits = {n: [wait_s(failed_with(TimeoutError(), n)) for _ in range(200)] for n in (1, 4, 30)}
    for attempt, most in ((1, 0.5), (4, 4.0), (30, 60.0)):
        assert 0 <= min(waits[attempt]) < 0.2 * most  # this fails with probability 0.8^200
        assert 0.8 * most < max(waits[attempt]) <= most


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 418, 422, 429, 500])
def test_no_message_holds_the_key_and_each_names_the_address(status: int) -> None:
    error = status_error(status, f"Incorrect API key provided: {KEY}")
    told = explain(error, params())
    assert KEY not in told
    assert "http://localhost:8000/v1" in told
    assert str(status) in told


def test_no_message_holds_a_key_that_the_endpoint_sends_back_elsewhere() -> None:
    lost = openai.APIConnectionError(request=REQUEST)
    lost.__cause__ = httpx2.RemoteProtocolError(f"illegal header line: {KEY}")
    moved = status_error(302, location=f"http://y/?key={KEY}")
    assert "illegal header line: ..." in explain(lost, params())
    assert "redirects to http://y/?key=..." in explain(moved, params())


def test_a_long_answer_of_the_endpoint_is_cut() -> None:
    assert len(explain(status_error(400, "x" * 5000), params())) < 700


def test_an_endpoint_that_is_sent_private_text_is_not_quoted() -> None:
    error = status_error(400, "in your prompt 'a secret'")
    labels = LabelEndpoint.model_validate(params().model_dump() | {"trusted": True})
    assert "secret" in explain(error, params())
    assert "secret" not in explain(error, labels)
    assert "extract_metadata.llm.base_url" in explain(error, labels)


@pytest.mark.parametrize("answer", [None, "<html>", [], {"choices": []}, 3])
def test_what_is_no_completion_is_refused(answer: object) -> None:
    with pytest.raises(Exception, match="no choices"):
        read_completion(answer)


@pytest.mark.parametrize("written", ["", "  ", "two words", "line\nend", "schlüssel"])
def test_a_key_that_cannot_be_one_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", written)
    with pytest.raises(ParamsError, match="OPENAI_API_KEY") as caught:
        read_key(params(key_variable="OPENAI_API_KEY"))
    assert not written.strip() or written not in str(caught.value)


LOCAL = (
    "http://localhost:8000/v1", "HTTP://LocalHost:11434/v1", "http://localhost./v1",
    "http://127.0.0.1:8080/v1", "http://127.1.2.3/v1", "http://[::1]:8000/v1",
    "http://[::ffff:127.0.0.1]:8000/v1", "http://0.0.0.0:8000/v1", "http://[::]:8000/v1",
    "https://localhost/v1",
)  # fmt: skip
ELSEWHERE = (
    "https://api.example.com/v1", "http://192.168.1.5:8000/v1", "http://10.0.0.2/v1",
    "http://localhost.example.com/v1", "http://127.0.0.1.example.com/v1", "http://[fe80::1]/v1",
    "http://llm:8000/v1",
)  # fmt: skip


@pytest.mark.parametrize("base_url", [*LOCAL, LOCAL])
def test_a_local_address_needs_no_key_and_gets_none_unless_told(
    monkeypatch: pytest.MonkeyPatch, base_url: str | tuple[str, ...]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("MY_KEY", KEY)
    local = OpenAI(model="m", base_url=base_url)
    assert read_key(local) == "none"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)  # the key of a hosted service stays here
    assert read_key(local) == "none"
    told = OpenAI(model="m", base_url=base_url, key_variable="MY_KEY")
    assert read_key(told) == KEY


@pytest.mark.parametrize("base_url", [*ELSEWHERE, (LOCAL[0], ELSEWHERE[0])])
def test_every_other_address_needs_a_key_unless_told(
    monkeypatch: pytest.MonkeyPatch, base_url: str | tuple[str, ...]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ParamsError, match="OPENAI_API_KEY"):
        read_key(OpenAI(model="m", base_url=base_url))
    assert read_key(OpenAI(model="m", base_url=base_url, key_variable=None)) == "none"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert read_key(OpenAI(model="m", base_url=base_url)) == KEY


def test_of_several_addresses_only_the_others_get_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    both = OpenAI(model="m", base_url=(LOCAL[0], ELSEWHERE[0]))
    assert [read_key(both.at(address)) for address in both.base_urls] == ["none", KEY]


def test_a_local_server_that_wants_a_key_says_which_setting_names_it() -> None:
    local = OpenAI(model="m", base_url=LOCAL[0])
    assert "Set generator.openai.key_variable" in explain(status_error(401), local)


def test_a_key_is_read_without_the_spaces_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    assert read_key(params(key_variable="MY_KEY")) == KEY


class TestParams:
    """Tests of settings that must be refused."""

    @pytest.mark.parametrize(
        "base_url",
        ["localhost:8000/v1", "ftp://x/v1", "http://", "http://key@x/v1", "http://x/v1?key=1"],
    )
    def test_an_address_that_cannot_be_one_or_holds_a_key(self, base_url: str) -> None:
        with pytest.raises(ValueError, match="base_url"):
            params(base_url=base_url)

    def test_a_slash_at_the_end_is_the_same_address(self) -> None:
        assert params(base_url="http://x/v1/").base_url == "http://x/v1"

    def test_a_list_of_addresses_has_no_order_and_no_copies(self) -> None:
        several = params(base_url=["http://y/v1", "http://x/v1/", "http://x/v1"])
        assert several.base_urls == ("http://x/v1", "http://y/v1")
        assert several.address == "http://x/v1, http://y/v1"
        turned = params(base_url=["http://x/v1", "http://y/v1"])
        assert turned.key_fields == several.key_fields
        assert turned.output_settings() == several.output_settings()
        one = params(base_url=["http://x/v1"])
        assert one.output_settings() == params(base_url="http://x/v1").output_settings()

    @pytest.mark.parametrize("listed", [[], ["http://x/v1", "y"], ["http://x/v1", None], [["a"]]])
    def test_a_list_with_anything_but_addresses(self, listed: list[Any]) -> None:
        with pytest.raises(ValueError, match="base_url"):
            params(base_url=listed)

    def test_a_batch_at_several_addresses(self) -> None:
        with pytest.raises(ValueError, match="mode=batch needs one base_url"):
            params(base_url=["http://x/v1", "http://y/v1"], mode="batch")

    def test_a_cap_on_cost_without_a_price(self) -> None:
        with pytest.raises(ValueError, match="prices has none for model 'my-model'"):
            params(max_cost=5.0)

    def test_an_answer_that_leaves_no_room_for_a_prompt(self) -> None:
        with pytest.raises(ValueError, match="max_tokens=9000"):
            params(max_tokens=9000)

    @pytest.mark.parametrize("written", [date(2026, 11, 1), "November", "2026-13-01", 2026])
    def test_a_price_whose_date_is_none_or_has_no_quotes(self, written: object) -> None:
        """An unquoted date in params.yaml is a YAML date, which would stop DVC."""
        with pytest.raises(ValueError, match="date"):
            params(prices={"m": {"input": 1, "output": 2, "date": written}})

    def test_a_price_without_its_date(self) -> None:
        with pytest.raises(ValueError, match="date"):
            params(prices={"m": {"input": 1, "output": 2}})


OTHER = {
    "base_url": "http://localhost:9000/v1", "model": "other", "key_variable": "OTHER_KEY",
    "mode": "batch", "temperature": 0.5, "max_tokens": 100,
    "token_limit": "max_completion_tokens", "send_seed": False, "reasoning_effort": "low",
    "concurrency": 2, "requests_per_minute": 5.0, "tokens_per_minute": 9.0, "timeout_s": 3.0,
    "max_retries": 1, "context_tokens": 4000, "max_calls": 5, "max_cost": 2.0,
    "prices": {"my-model": {"input": 1, "output": 2, "date": "2026-11-01"}},
}  # fmt: skip


def test_every_setting_has_another_value_to_try() -> None:
    assert OTHER.keys() == OpenAI.model_fields.keys()


@pytest.mark.parametrize("name", sorted(OTHER.keys() - {"context_tokens"}))
def test_answers_are_kept_apart_exactly_by_what_decides_which_texts_come(
    name: str, tmp_path: Path
) -> None:
    """`context_tokens` is not in the cache key, because it affects only the messages, and the
    messages are in the key.
    """
    change = {name: OTHER[name]} | ({"prices": OTHER["prices"]} if name == "max_cost" else {})

    def key_and_identity(one: OpenAI) -> tuple[str, dict[str, Any]]:
        generator = OpenAiGenerator(
            one, seed=1, state=tmp_path, account="tickets", stage="evolve", say=print
        )
        call = generator._call("hello", 3, 0)
        whole = load_params(ROOT / "params.yaml").generator
        chosen = whole.model_copy(update={"openai": one, "provider": "openai"})
        return call.key, chosen.identity()

    key, identity = key_and_identity(params())
    other_key, other_identity = key_and_identity(params(**change))
    assert (key == other_key) == (identity == other_identity)


def test_a_call_is_known_by_seed_sample_and_attempt(tmp_path: Path) -> None:
    calls = [
        OpenAiGenerator(
            params(), seed=seed, state=tmp_path, account="tickets", stage="x", say=print
        )._call("hello", sample, attempt)
        for seed in (1, 2)
        for sample in (0, 1, 2)
        for attempt in (0, 1)
    ]
    assert len({call.key for call in calls}) == len({call.seed for call in calls}) == 12
    assert all(0 <= call.seed < 2**31 for call in calls)
