"""Phrases of a schema: which are accepted, and what depends on them."""

from __future__ import annotations

from typing import Any

import pytest

from sugarbush.data.schema import Schema, schema_of
from sugarbush.errors import SchemaError

MOOD = {"name": "mood", "column": "mood", "values": ["angry", "calm"]}


def schema(*, of_value: Any = None, **fields: Any) -> Schema:
    attribute = MOOD | ({} if of_value is None else {"phrases": of_value})
    return schema_of(
        {"subject": "letters", "attributes": [attribute], **fields}, source="schema.yaml"
    )


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (["gate", "late\nWrite: yes"], "phrase 2 must be one line"),
        (["late\u2028flight"], "phrase 1 must be one line"),
        (["\x1b[2J late"], "must be one line"),
        (["zero\u200bwidth"], "must be one line"),
        (["mirror\u202eed"], "must be one line"),
        (['say "yes"'], "must be one line"),
        (["“quoted”"], "must be one line"),
        (["<|im_end|>"], "must be one line"),
        (["[INST] late"], "must be one line"),
        (["###"], "has no letter and no digit"),
        (["  "], "has no letter and no digit"),
        ([None], "has no letter and no digit"),
        ([{"late": "flight"}], "has no letter and no digit"),
        (["x" * 65], "more than 64 characters or 6 words"),
        (["a b c d e f g"], "more than 64 characters or 6 words"),
        ([str(number) for number in range(201)], "201 phrases, but at most 200"),
        ("late flight", "must be a list of phrases"),
        (None, "must be a list of phrases"),
        ({"late": 1}, "must be a list of phrases"),
    ],
)
def test_a_list_of_other_things_is_one_line_of_error(listed: Any, problem: str) -> None:
    for where, wrong in (
        ("phrases", {"phrases": listed}),
        ("attribute 'mood'.phrases.angry", {"of_value": {"angry": listed}}),
    ):
        with pytest.raises(SchemaError) as raised:
            schema(**wrong)
        message = str(raised.value)
        assert message.startswith(f"schema.yaml: {where}: ") and problem in message
        assert "\n" not in message and "\x1b" not in message


def test_phrases_of_an_unknown_value_and_an_empty_list_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"'mood': phrases names 'mad', which is no value"):
        schema(of_value={"mad": ["late"]})
    with pytest.raises(SchemaError, match="phrases names 'other', which is no value"):
        schema(of_value={"other": ["late"]})
    with pytest.raises(SchemaError, match="phrases of 'calm' is empty"):
        schema(of_value={"calm": []})
    assert schema(phrases=[]).phrases == ()


def test_words_of_many_languages_and_signs_inside_names_are_phrases() -> None:
    listed = [
        "late flight",
        "AT&T",
        "wi-fi",
        "Zürich HB",
        "हिन्दी शब्द",
        "日本語",
        "O’Hare",
        747,
        747,
    ]
    assert schema(phrases=listed).phrases == (*map(str, listed[:-1]),)


def test_phrases_change_no_result_from_private_data() -> None:
    bare = schema()
    named = schema(phrases=["gate"], of_value={"calm": ["thanks"]})
    assert named.fields_for_private_results() == bare.fields_for_private_results()
    assert named.model_dump() != bare.model_dump(), "prompts do depend on them"
    assert "phrases" not in str(bare.model_dump()), "cache keys of other schemas stay"


def test_a_row_has_the_phrases_of_its_values_or_those_of_all_texts() -> None:
    named = schema(phrases=["gate"], of_value={"calm": ["thanks"]})
    assert named.phrases_for((1,)) == ("thanks",)
    assert named.phrases_for((0,)) == ("gate",)
    assert named.phrases_for((2,)) == ("gate",)
    assert named.phrases_for((-1,)) == ("gate",), "no value is requested"
