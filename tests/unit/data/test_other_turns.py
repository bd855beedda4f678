"""Conversations as programs export them: turns with more than a speaker and a text."""

from __future__ import annotations

from typing import Any

import pytest

from sugarbush.data.reading import Row
from sugarbush.data.records import usable
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import Shape, ShapeError
from sugarbush.preparation.findings import dropped_rows

OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Is it warm?", "name": "vera_77"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "w"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "20 degrees"},
    {"role": "assistant", "content": "Yes, 20 degrees.", "weight": 1},
]
PARTS = [
    {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://x"}},
            {"type": "text", "text": "It was in the box."},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "A lamp?"},
            {"type": "text", "text": "A lamp."},
            {"type": "tool_use", "id": "t", "name": "shop", "input": {}},
        ],
    },
]
SHAREGPT = [
    {"from": "system", "value": "Be brief."},
    {"from": "human", "value": "Hi", "weight": None},
    {"from": "gpt", "value": "Hello", "markdown": {"type": "answer"}},
]
TELEGRAM = [
    {"id": 1, "type": "service", "action": "create_group", "actor": "Vera"},
    {
        "id": 2,
        "type": "message",
        "from": "Shop",
        "date": "2026-01-05T09:12:33",
        "text": ["See ", {"type": "link", "text": "the page"}, "."],
    },
    {"id": 3, "type": "message", "from": "Vera", "text": "Thanks", "reply_to_message_id": 2},
    {"id": 4, "type": "message", "from": "Ole", "photo": "photos/1.jpg", "text": ""},
]
INTERCOM = [
    {"type": "conversation_part", "author": {"type": "user", "id": "9"}, "body": "It flickers."},
    {"type": "conversation_part", "author": {"type": "admin", "id": "1"}, "body": None},
    {"type": "conversation_part", "author": {"type": "bot", "id": "b"}, "body": "Please wait."},
    {"type": "conversation_part", "author": {"type": "admin", "id": "1"}, "body": "We send one."},
]


def chat(policy: str, **changes: Any) -> Shape:
    form = {"roles": ["user", "assistant"], "other_turns": policy, **changes}
    return TextForm.model_validate({"conversation": form}).shape


@pytest.mark.parametrize(
    ("turns", "changes", "policy", "text"),
    [
        (OPENAI, {}, "drop", "User: Is it warm?\nAssistant: Yes, 20 degrees."),
        (
            OPENAI,
            {},
            "join",
            "User: Be brief.\nIs it warm?\nAssistant: 20 degrees\nYes, 20 degrees.",
        ),
        (
            OPENAI,
            {"roles": ["user", "assistant", "program"]},
            "program",
            "Program: Be brief.\nUser: Is it warm?\nProgram: 20 degrees\n"
            "Assistant: Yes, 20 degrees.",
        ),
        (
            OPENAI,
            {"roles": ["system", "user", "assistant", "tool"]},
            "drop",
            "System: Be brief.\nUser: Is it warm?\nTool: 20 degrees\nAssistant: Yes, 20 degrees.",
        ),
        (PARTS, {}, "drop", "User: What is this?\nIt was in the box.\nAssistant: A lamp."),
        (
            SHAREGPT,
            {"format": "sharegpt", "roles": ["human", "gpt"]},
            "drop",
            "Human: Hi\nGpt: Hello",
        ),
        (
            TELEGRAM,
            {"format": ["from", "text"], "roles": ["Shop", "customer"]},
            "customer",
            "Shop: See the page.\nCustomer: Thanks",
        ),
        (
            INTERCOM,
            {"format": ["author.type", "body"], "roles": ["user", "admin"]},
            "drop",
            "User: It flickers.\nAdmin: We send one.",
        ),
        (OPENAI[:2] + OPENAI[3:4], {}, "join", "User: Be brief.\nIs it warm?\n20 degrees"),
        (
            [{"role": "model", "parts": [{"text": "Hi"}]}, {"role": "user", "parts": ["a", "b"]}],
            {"format": ["role", "parts"], "roles": ["model", "user"]},
            "drop",
            "Model: Hi\nUser: ab",
        ),
    ],
)
def test_each_policy_reads_each_export(
    turns: Any, changes: dict[str, Any], policy: str, text: str
) -> None:
    shape = chat(policy, **changes)
    assert shape.text_of({"messages": turns}) == text
    assert shape.text_of(shape.parse(text)) == text
    refusing = chat("refuse", **changes)
    with pytest.raises(ShapeError, match="other_turns") as error:
        refusing.text_of({"messages": turns})
    assert "vera" not in str(error.value).lower()


def test_what_is_left_out_is_counted_and_not_shown() -> None:
    counts = chat("drop").omitted({"messages": OPENAI})
    assert dict(counts) == {
        "turns of other speakers: dropped": 2,
        "turns without a text: dropped": 1,
        "turns with more than a speaker and a text: the rest is dropped": 4,
        "parts of a turn without a text, such as an image: dropped": 0,
    }
    schema = Schema.model_validate(
        {
            "subject": "x",
            "text": {"conversation": {"other_turns": "drop"}},
            "attributes": [{"name": "a", "values": ["b"], "column": "a"}],
        }
    )
    params = PrepareSettings().model_copy(update={"bad_rows": "drop"})
    rows = [Row(1, {"messages": OPENAI, "a": "b"}), Row(2, {"messages": 3, "a": "b"})]
    from collections import Counter

    omitted = Counter[str]()
    _, bad = usable(rows, params, schema, source="s", setting="prepare.file", omitted=omitted)
    lines = dropped_rows({"train": 1, **bad, **omitted})
    assert lines[0] == "1 of 2 rows are used" and len(lines) == 5
    assert "2 turns of other speakers: dropped" in lines
    assert dropped_rows({"train": 1, **omitted})[0].endswith("dropped")


@pytest.mark.parametrize(
    ("turns", "says"),
    [
        ([{"speaker": "user", "text": "a"}], "turn 1 is not an object with role and content"),
        ([OPENAI[0], "secret"], "turn 2 is not an object"),
        ([OPENAI[2]], "has no turns"),
        ([], "has no turns|is not an object"),
    ],
)
def test_a_conversation_without_plain_turns_is_a_bad_row(turns: Any, says: str) -> None:
    with pytest.raises(ShapeError, match=says) as error:
        chat("drop").text_of({"messages": turns})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"other_turns": "keep"}, "expected refuse, drop, join, or one of roles"),
        ({"format": "prefixes", "roles": ["a"], "other_turns": "drop"}, "not format: prefixes"),
    ],
)
def test_a_policy_is_declared(form: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TextForm.model_validate({"conversation": form})


def test_the_default_adds_no_field_to_the_keys_of_results() -> None:
    form = TextForm.model_validate({"conversation": {}})
    assert "other_turns" not in str(form.model_dump())
    form = TextForm.model_validate({"conversation": {"other_turns": "drop"}})
    assert TextForm.model_validate(form.model_dump()) == form
    assert "other_turns" in str(form.without_lengths.model_dump())
