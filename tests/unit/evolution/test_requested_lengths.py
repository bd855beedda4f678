"""Tests that prompts request the lengths of fields, turns and properties that a schema lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sugarbush.data.lengths import length_at, lengths_of
from sugarbush.data.schema import Schema
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.evolution.initialisation import first_requests
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Targets
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.prompts import continuation, render
from sugarbush.generators.shaped import requests_in_shape

ROLES = {"roles": ["customer", "agent"]}
FIELDS = {"fields": ["subject", "main_body"], "optional": ["subject"]}
RECORD = {
    "json_schema": {
        "type": "object",
        "properties": {"note": {"type": "string"}, "kind": {"enum": ["x", "y"]}},
    }
}


def requests(form: dict[str, Any], count: int = 60) -> tuple[RandomRequest, ...]:
    schema = Schema.model_validate(
        {
            "subject": "letters",
            "text": form,
            "attributes": [{"name": "mood", "values": ["glad"], "keywords": {"glad": ["glad"]}}],
        }
    )
    found = first_requests(
        Targets(codes=np.zeros((count, 1), dtype=np.int64), labels=np.zeros(count, dtype=np.int64)),
        schema=schema,
        prompts=Prompts(content=PromptContent.METADATA, examples=0, candidates=count),
        length=FirstLength(words=70),
        donated=None,
        seed=1,
        run_seed=1,
    )
    return requests_in_shape(found, schema.shape)  # type: ignore[return-value]


def prompts(form: dict[str, Any]) -> list[str]:
    return [render(r, context_tokens=4000, max_tokens=500) for r in requests(form)]


def test_turns_and_words_per_turn_are_drawn_independently() -> None:
    form = {"conversation": {**ROLES, "turns": [4, 9], "words_per_turn": [7, 20]}}
    found = requests(form)
    pairs = {tuple(number for _, number in request.lengths) for request in found}
    assert pairs > {(4, 7), (4, 20), (9, 7), (9, 20)}
    assert all(4 <= turns <= 9 and 7 <= words <= 20 for turns, words in pairs)
    for request, prompt in zip(found, prompts(form), strict=True):
        turns, words = (number for _, number in request.lengths)
        assert f"Write about {turns} turns of about {words} words." in prompt
        assert request.words == turns * (words + 1), "limits of tokens follow the drawn lengths"
        assert f"Write about {request.words} words" not in prompt
    assert found == requests(form), "the draws are public: equal seeds give equal requests"


def test_fields_and_properties_have_their_lengths() -> None:
    form = {**FIELDS, "words": {"subject": [0], "main_body": [40, 80]}}
    shown = {
        f'Write no text in "Subject:", about {words} words in "Main body:".'
        for words in range(40, 81)
    }
    asked = {s for s in shown if any(s in prompt for prompt in prompts(form))}
    assert len(asked) > 5
    assert all(any(s in prompt for s in asked) for prompt in prompts(form))
    assert all(
        'Write about 12 words in "note".' in p for p in prompts({**RECORD, "words": {"note": [12]}})
    )
    (first, *_) = requests(form)
    assert 'in "Main body:"' in continuation(first, context_tokens=4000, max_tokens=500)


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"conversation": {**ROLES, "turns": [6]}}, "Write about 6 turns."),
        ({"conversation": {**ROLES, "words_per_turn": [6]}}, "Write about 6 words in each turn."),
        ({**FIELDS, "words": {"main_body": [9]}}, 'Write about 9 words in "Main body:".'),
        ({"conversation": ROLES}, "Write about 70 words."),
    ],
)
def test_without_all_lengths_the_settings_decide_the_whole(
    form: dict[str, Any], sentence: str
) -> None:
    assert all(sentence in prompt for prompt in prompts(form))
    assert {request.words for request in requests(form)} == {70}


@pytest.mark.parametrize(
    ("form", "says"),
    [
        (
            {**FIELDS, "words": {"boss": [3]}},
            "words names boss, which is no section with free text",
        ),
        ({**RECORD, "words": {"kind": [3]}}, "words names kind"),
        ({"conversation": ROLES, "words": {"agent": [3]}}, "see words_per_turn"),
        ({"conversation": {**ROLES, "turns": [9], "max_turns": 8}}, "above max_turns"),
        ({"conversation": {**ROLES, "turns": [0]}}, "greater than or equal to 1"),
    ],
)
def test_lengths_that_no_text_can_have_are_refused(form: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TextForm.model_validate(form)


def test_requested_lengths_change_no_result_from_private_data() -> None:
    def fields(**text: Any) -> dict[str, Any]:
        attribute = {"name": "mood", "values": ["glad"], "keywords": {"glad": ["glad"]}}
        schema = Schema.model_validate({"subject": "x", "text": text, "attributes": [attribute]})
        return schema.fields_for_private_results()

    assert fields(**FIELDS) == fields(**FIELDS, words={"main_body": [9]})
    assert fields(**FIELDS) != fields(fields=FIELDS["fields"])
    chat = fields(conversation=ROLES)
    assert chat == fields(conversation={**ROLES, "turns": [4], "words_per_turn": [9]})
    assert chat != fields(conversation={**ROLES, "max_turns": 8})


def test_an_answer_that_contradicts_its_roles_is_refused() -> None:
    chat = TextForm.model_validate({"conversation": ROLES}).shape
    for answer in (
        "Customer: It broke.\n- Agent",
        "Customer: It broke.\nBest,\nYour agent.",
        "Customer: Agent: hello",
    ):
        with pytest.raises(ValueError, match="contradicts"):
            chat.of_answer(answer)
    for answer in (
        "Agent: Sorry.\nBest,\nYour agent",
        "Customer: agent",
        "Customer: I want\nto talk to an agent.",
        "Customer: It broke.\nAgent: Sorry.",
    ):
        assert chat.of_answer(answer) == answer


SAMPLES = {
    "even": lambda rng: rng.integers(5, 60, 400),
    "many short texts": lambda rng: np.maximum(1, rng.lognormal(2.5, 0.8, 400)).astype(int),
    "one length": lambda rng: np.full(400, 13),
    "two lengths": lambda rng: rng.choice([4, 30], 400),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_requested_lengths_have_the_distribution_of_the_donated_texts(kind: str) -> None:
    """5 numbers in turn were lengths of no other text. A share of 600 has an error of .02."""
    lengths = SAMPLES[kind](np.random.default_rng(1))
    words = lengths_of(["word " * int(count) for count in lengths])
    schema = Schema.model_validate(
        {"subject": "x", "attributes": [{"name": "mood", "column": "mood", "values": ["glad"]}]}
    )
    found = first_requests(
        Targets(codes=np.zeros((600, 1), dtype=np.int64), labels=np.zeros(600, dtype=np.int64)),
        schema=schema,
        prompts=Prompts(content=PromptContent.METADATA, examples=0, candidates=600),
        length=FirstLength(words=words),
        donated=None,
        seed=1,
        run_seed=1,
    )
    asked = [request.words for request in found]
    assert all(isinstance(count, int) for count in asked)
    assert set(asked) <= set(range(int(lengths.min()), int(lengths.max()) + 1))
    assert len(set(asked)) >= min(len(set(lengths.tolist())), 20)
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        low, high = np.quantile(lengths, [max(share - 0.1, 0), min(share + 0.1, 1)])
        assert low <= np.quantile(asked, share) <= high


@given(st.lists(st.integers(1, 500), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_a_length_grows_with_its_share_and_stays_between_the_numbers(
    lengths: list[int], one: float, two: float
) -> None:
    low, high = sorted([one, two])
    assert min(lengths) <= length_at(lengths, low) <= length_at(lengths, high) <= max(lengths)
    assert length_at(lengths, low) == length_at(lengths[::-1], low)
