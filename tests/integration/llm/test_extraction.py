"""Private texts are sent only to a trusted endpoint, and their labels stay private."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.attributes.label_prompts import answer_schema, label_prompt, read_labels
from sugarbush.attributes.llm_labels import (
    Labeller,
)
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.data.schema import Attribute
from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.generators.answer_cache import open_cache
from sugarbush.generators.prompts import estimate_tokens
from sugarbush.privacy.data_types import Private
from tests.integration.llm.conftest import Bench, endpoint_params
from tests.integration.llm.server import Body, Reply, completion, dropped, failure

ATTRIBUTES = (
    Attribute(name="item", description="what was bought", values=("lamp", "chair"), column="item"),
    Attribute(name="mood", values=("angry", "calm"), other="unclear", column="mood"),
)
TEXTS = (
    "The lamp is broken and I am angry, canary-1.",
    "My chair is fine, I am calm, canary-2.",
    "Where is the parcel, canary-3?",
)
CODES = [[0, 0], [1, 1], [2, 2]]

Start = Callable[..., Bench]


def question(body: Body) -> str:
    return str(body["messages"][0]["content"])


def labels_of(body: Body) -> str:
    """Return the answer of a model that reads correct labels from the words of the text."""
    text = question(body).partition("Text:\n")[2]
    item = next((v for v in ("lamp", "chair") if v in text), "other")
    mood = next((v for v in ("angry", "calm") if v in text), "unclear")
    return json.dumps({"item": item, "mood": mood})


def good(number: int, body: Body) -> Reply:
    return completion(labels_of(body))


def labeller(bench: Bench, **changes: Any) -> Labeller:
    shared = endpoint_params(bench.server.base_url).model_dump()
    params = LabelEndpoint.model_validate(shared | {"trusted": True} | changes)
    return Labeller(params, ATTRIBUTES, folder=bench.state, account="tickets")


def test_an_endpoint_that_is_not_trusted_is_sent_nothing(bench: Start) -> None:
    run = bench(behave=good)
    with pytest.raises(ParamsError, match="trusted: true"):
        labeller(run, trusted=False)
    assert not run.server.raw


def test_labels_come_back_as_codes_in_the_order_of_the_texts(bench: Start) -> None:
    run = bench(behave=good)
    codes = labeller(run, concurrency=2).codes(TEXTS)
    assert codes.tolist() == CODES
    assert codes.dtype == np.int64
    assert run.server.most_under_way <= 2


def test_private_texts_stay_private_on_the_way(bench: Start) -> None:
    labels: Private[tuple[int, ...]] = Private(TEXTS).map_batch(labeller(bench(behave=good)).codes)
    assert repr(labels) == "Private(...)"
    assert np.asarray(labels._per_unit).tolist() == CODES


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
@pytest.mark.parametrize("logger", ["", "openai._base_client", "httpcore2.connection"])
def test_the_log_of_a_program_does_not_show_the_texts_or_their_number(
    bench: Start, caplog: pytest.LogCaptureFixture, level: int, logger: str
) -> None:
    lines = []
    for count in (1, 3):
        own = labeller(bench(behave=good))
        caplog.clear()
        with caplog.at_level(level, logger):
            own.codes(TEXTS[:count])
        lines.append([record.name for record in caplog.records])
        assert "canary" not in caplog.text
    assert lines[0] == lines[1]


def test_no_texts_no_calls(bench: Start) -> None:
    run = bench(behave=good)
    assert labeller(run).codes([]).shape == (0, 2)
    assert not run.server.asked


def test_the_answer_is_asked_for_by_a_schema_of_enums(bench: Start) -> None:
    run = bench(behave=good)
    labeller(run, temperature=0.7).codes(TEXTS)
    for body in run.server.asked:
        sent = body["response_format"]["json_schema"]["schema"]["properties"]
        assert sent["item"]["enum"] == ["lamp", "chair", "other"]
        assert sent["mood"]["enum"] == ["angry", "calm", "unclear"]
        assert body["temperature"] == 0.0
    assert answer_schema(ATTRIBUTES)["json_schema"]["strict"] is True


def test_before_any_private_text_a_harmless_one_is_asked_about(bench: Start) -> None:
    run = bench(behave=good)
    labeller(run).codes(TEXTS)
    assert "canary" not in question(run.server.asked[0])
    assert len(run.server.asked) == 4


def test_an_endpoint_that_knows_no_schema_is_asked_in_words(bench: Start) -> None:
    def behave(number: int, body: Body) -> Reply:
        if "response_format" in body:
            return failure(400, f"unknown field response_format in {question(body)}")
        return good(number, body)

    run = bench(behave=behave)
    assert labeller(run).codes(TEXTS).tolist() == CODES
    with_schema = [body for body in run.server.asked if "response_format" in body]
    assert len(with_schema) == 1
    assert "canary" not in question(with_schema[0])


def test_a_second_run_asks_for_nothing(bench: Start) -> None:
    run = bench(behave=good)
    labeller(run).codes(TEXTS)
    asked = len(run.server.asked)
    assert labeller(run).codes(TEXTS).tolist() == CODES
    assert len(run.server.asked) == asked


def test_an_answer_that_is_no_json_is_asked_for_again_and_then_is_in_the_bucket(
    bench: Start,
) -> None:
    def behave(number: int, body: Body) -> Reply:
        if "canary-1" in question(body):
            return completion("I would say it is a lamp.")
        if "canary-2" in question(body) and number < 4:
            return completion('{"item": "cha')
        return good(number, body)

    run = bench(behave=behave)
    assert labeller(run, concurrency=1).codes(TEXTS).tolist() == [[2, 2], [1, 1], [2, 2]]
    assert sum("canary-1" in question(body) for body in run.server.asked) == 2
    seeds = {b["seed"] for b in run.server.asked if "canary-1" in question(b)}
    assert len(seeds) == 2


def test_one_failed_call_in_many_is_borne(bench: Start) -> None:
    def behave(number: int, body: Body) -> Reply:
        if "canary-7 " in question(body):
            return failure(400, "too long")
        return good(number, body)

    texts = [f"The lamp canary-{i} is broken, I am calm." for i in range(40)]
    codes = labeller(bench(behave=behave)).codes(texts)
    assert codes[7].tolist() == [2, 2]
    assert (np.delete(codes, 7, axis=0) == [0, 1]).all()


@pytest.mark.parametrize(("refused", "borne"), [(1, True), (2, False)])
def test_one_refused_text_among_few_ends_nothing(bench: Start, refused: int, borne: bool) -> None:
    def behave(number: int, body: Body) -> Reply:
        bad = any(f"canary-{i}" in question(body) for i in range(1, refused + 1))
        return failure(400, "filtered") if bad else good(number, body)

    one = labeller(bench(behave=behave))
    if borne:
        assert one.codes(TEXTS).tolist() == [[2, 2], *CODES[1:]]
    else:
        with pytest.raises(GeneratorError, match="too many calls"):
            one.codes(TEXTS)


@pytest.mark.parametrize("fault", [dropped(), failure(503, "busy"), failure(429, "slow down")])
def test_no_label_depends_on_the_load_of_the_endpoint(bench: Start, fault: Reply) -> None:
    """A call without an answer stops the stage. The next run asks for the missing answer only."""
    busy = [True]

    def behave(number: int, body: Body) -> Reply:
        return fault if busy and "canary-2" in question(body) else good(number, body)

    run = bench(behave=behave)
    with pytest.raises(GeneratorError, match=r"got no answer.*All received answers are cached"):
        labeller(run, max_retries=0).codes(TEXTS)
    busy.clear()
    asked = len(run.server.asked)
    assert labeller(run).codes(TEXTS).tolist() == CODES
    assert len(run.server.asked) == asked + 1


def echo(status: int) -> Callable[[int, Body], Reply]:
    """Return an endpoint that answers the harmless probe.

    For any other request, it fails with an error message that quotes the request.
    """

    def behave(number: int, body: Body) -> Reply:
        return (
            failure(status, question(body)[-400:]) if "canary" in question(body) else good(0, body)
        )

    return behave


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500])
def test_what_an_endpoint_quotes_is_never_repeated(
    status: int, bench: Start, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    run = bench(behave=echo(status))
    with caplog.at_level(logging.DEBUG), pytest.raises(GeneratorError) as caught:
        labeller(run, max_retries=0).codes(TEXTS)
    told: BaseException | None = caught.value
    while told is not None:
        assert "canary" not in str(told)
        told = told.__cause__ or told.__context__
    assert "canary" not in caplog.text
    out, err = capfd.readouterr()
    assert "canary" not in out + err
    assert b"canary" not in run.left_on_disk()


def test_the_sdks_own_debugging_shows_no_private_text(
    bench: Start, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        labeller(bench(behave=good)).codes(TEXTS)
    assert "canary" not in caplog.text


def test_no_proxy_reads_along(bench: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, run = bench(behave=good), bench(behave=good)
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server.port}")
    assert labeller(run).codes(TEXTS).tolist() == CODES
    assert not proxy.server.raw


LONG = "A lamp came broken. " * 400


@pytest.mark.parametrize("text", ["A lamp came broken.", LONG, "灯坏了。" * 90])
@pytest.mark.parametrize("context_tokens", [8192, 100_000])
def test_the_probe_of_labels_is_no_longer_than_the_prompt_of_its_text(
    bench: Start, text: str, context_tokens: int
) -> None:
    run = bench(behave=good)
    labeller(run, context_tokens=context_tokens).check(text)
    (body,) = run.server.asked
    longest = label_prompt(text, ATTRIBUTES, room=context_tokens)
    assert len(question(body).encode()) <= len(longest.encode())


def test_a_context_that_is_too_small_is_told_before_any_private_text_is_sent(bench: Start) -> None:
    def behave(number: int, body: Body) -> Reply:
        long = len(question(body)) > 4000
        return failure(400, "maximum context length is 1024") if long else good(number, body)

    run = bench(behave=behave)
    with pytest.raises(GeneratorError, match=r"smaller context.*context_tokens=8192"):
        labeller(run).check(LONG)
    labeller(run, context_tokens=1024).check(LONG)
    assert b"canary" not in run.server.raw


def test_no_private_text_is_written_down_with_the_answers(bench: Start) -> None:
    run = bench(behave=good)
    labeller(run).codes(TEXTS)
    # The values in the database are compressed, so a search of the bytes on disk would find no
    # words.
    with open_cache(run.state) as cache:
        kept = {key: cache._cache.get(key) for key in cache._cache}
    assert len(kept) == 4
    assert "lamp" in str(kept)
    assert "canary" not in str(kept)
    assert b"canary" not in run.left_on_disk()


def test_an_endpoint_that_is_down_is_told_before_any_private_text_is_sent(bench: Start) -> None:
    run = bench(behave=lambda number, body: dropped())
    with pytest.raises(GeneratorError, match="base_url"):
        labeller(run, max_retries=0).codes(TEXTS)
    assert b"canary" not in run.server.raw


def test_a_cap_ends_the_stage_and_what_was_received_is_kept(bench: Start) -> None:
    run = bench(behave=good)
    with pytest.raises(GeneratorError, match="max_calls"):
        labeller(run, max_calls=3, concurrency=1).codes(TEXTS)
    assert len(run.server.asked) == 3
    assert labeller(run).codes(TEXTS).tolist() == CODES
    assert len(run.server.asked) == 4


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        ('{"item": "lamp", "mood": "calm"}', [0, 1]),
        ('```json\n{"item": "chair", "mood": "angry"}\n```', [1, 0]),
        ('It is {"item": ...}.</think>{"item": "chair", "mood": "angry"}', [1, 0]),
        ('Here it is: {"item": " Chair ", "mood": "ANGRY"}.', [1, 0]),
        ('{"item": "table", "mood": "calm"}', [2, 1]),
        ('{"item": "lamp"}', [0, 2]),
        ('{"item": ["lamp"], "mood": null, "more": 1}', [2, 2]),
        ('["lamp", "calm"]', None),
        ('{"item": "lamp", ', None),
        ("", None),
        ("{" * 3000 + "}" * 3000, None),
    ],
)
def test_an_answer_counts_as_far_as_it_names_values_of_the_domain(
    answer: str, codes: list[int] | None
) -> None:
    assert read_labels(answer, ATTRIBUTES) == codes


@given(st.text(max_size=60) | st.dictionaries(st.text(max_size=5), st.integers()).map(json.dumps))
def test_whatever_comes_back_is_in_the_domain_or_no_answer(answer: str) -> None:
    codes = read_labels(answer, ATTRIBUTES)
    assert codes is None or all(0 <= c < 3 for c in codes)


def test_the_prompt_names_every_value_and_holds_the_text() -> None:
    prompt = label_prompt(TEXTS[0], ATTRIBUTES, room=1000)
    assert '- item (what was bought): "lamp", "chair", "other"' in prompt
    assert '- mood: "angry", "calm", "unclear"' in prompt
    assert f"Text:\n{TEXTS[0]}\n" in prompt
    assert '{"item": ..., "mood": ...}' in prompt


def test_the_prompt_explains_the_described_values() -> None:
    item = ATTRIBUTES[0].model_copy(update={"descriptions": {"lamp": "any light"}})
    prompt = label_prompt(TEXTS[0], (item,), room=1000)
    assert '- item (what was bought): "lamp" (any light), "chair", "other"' in prompt


@given(length=st.integers(0, 5000), letter=st.sampled_from("aé字"), room=st.integers(200, 2000))
def test_a_long_text_is_cut_to_the_room_there_is(length: int, letter: str, room: int) -> None:
    prompt = label_prompt(letter * length, ATTRIBUTES, room=room)
    assert estimate_tokens(prompt) <= room + 2  # each part is rounded up separately
    assert "(End of the text.)" in prompt


def test_a_schema_that_fills_the_context_is_told() -> None:
    with pytest.raises(ParamsError, match="context_tokens"):
        label_prompt("text", ATTRIBUTES, room=50)


def test_answers_are_kept_where_the_caller_says(bench: Start, tmp_path: Path) -> None:
    run = bench(behave=good)
    labeller(run).codes(TEXTS)
    assert {path.name for path in run.state.iterdir()} == {"answers", "usage"}
    assert (run.state / "answers").stat().st_mode & 0o077 == 0
