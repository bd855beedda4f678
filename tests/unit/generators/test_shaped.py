"""Tests that every generator gets the shape of a record, and that every answer is parsed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sugarbush.data.shapes.declaration import TextForm
from sugarbush.errors import GeneratorError, PrivacyError
from sugarbush.generators.answer_checks import check
from sugarbush.generators.interface import (
    Answer,
    Generator,
    Problem,
    RandomRequest,
    Request,
    VariationRequest,
)
from sugarbush.generators.prompts import continuation, render
from sugarbush.generators.shaped import in_shape
from sugarbush.methods.interface import FinalSet
from sugarbush.privacy.data_types import Released

CHAT = TextForm.model_validate({"conversation": {"roles": ["customer", "agent"]}}).shape
SCHEMA = {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}
RECORD = TextForm.model_validate({"json_schema": SCHEMA}).shape
PARENT = "Customer: My lamp broke.\nAgent: We send another lamp."


class Fixed(Generator):
    """Gives the same answers to all requests."""

    def __init__(self, *texts: str | None) -> None:
        self.texts, self.asked = texts, list[Request]()

    def generate(self, requests: Any, *, what: str = "answers") -> Any:
        self.asked += requests.value
        problem = {None: Problem.FAILED}
        return requests.map(
            lambda _: tuple(Answer(text=t, problem=problem.get(t)) for t in self.texts)
        )

    def with_released(self, **numbers: Released[Any]) -> Generator:
        return self


@pytest.mark.parametrize("steered", [False, True])
def test_each_answer_is_parsed_and_a_wrong_one_has_a_problem(steered: bool) -> None:
    own = Fixed("**customer**: Hi.\n\nAGENT : Hello.", "Hi.", None)
    opened = in_shape(own, CHAT)
    if steered:
        opened = opened.with_released()
    requests = tuple(RandomRequest(subject="chats", sample=i) for i in range(3))
    answers = opened.generate(Released(requests, ("entry-1",)))
    assert [a.text for a in answers.value] == ["Customer: Hi.\nAgent: Hello.", None, None]
    assert [a.problem for a in answers.value] == [None, Problem.WRONG_FORM, Problem.FAILED]
    assert answers.ledger_ids == ("entry-1",)
    assert all(request.shape is CHAT for request in own.asked)
    assert [repr(r) for r in own.asked] == [repr(r) for r in requests]  # seeds do not change


def test_requests_that_are_not_released_reach_no_generator() -> None:
    own = Fixed()
    with pytest.raises(PrivacyError):
        in_shape(own, CHAT).generate((RandomRequest(subject="x"),))  # type: ignore[arg-type]
    assert not own.asked
    assert in_shape(own, None) is own


def test_a_prompt_describes_the_form() -> None:
    request = RandomRequest(subject="chats", shape=CHAT, words=20)
    prompt = render(request, context_tokens=4000, max_tokens=100)
    assert CHAT.instruction in prompt and "no code fence" in prompt and "no JSON" not in prompt
    assert '"Customer:" or "Agent:"' in prompt
    assert CHAT.instruction[:-1] in continuation(request, context_tokens=4000, max_tokens=100)
    record = render(RandomRequest(subject="x", shape=RECORD), context_tokens=4000, max_tokens=100)
    assert '"required":["x"]' in record and "no JSON" not in record


def test_blanks_are_in_contents_only_and_json_has_none() -> None:
    vary = VariationRequest(subject="chats", parent=PARENT, mask_share=1.0, shape=CHAT)
    prompt = render(vary, context_tokens=4000, max_tokens=100)
    assert "Customer: _ _ _.\nAgent: _ _ _ _." in prompt
    parent = RECORD.text_of({"x": "a lamp"})
    record = VariationRequest(subject="x", parent=parent, mask_share=0.5, shape=RECORD)
    assert parent in render(record, context_tokens=4000, max_tokens=100)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Customer: Hi.\nAgent: As an AI language model I can't write this.", Problem.REFUSAL),
        ("I cannot help with that request.", Problem.REFUSAL),
        ("Here is the text:\nCustomer: Hi.", Problem.WRONG_FORM),
        (PARENT, Problem.COPIED_EXAMPLE),
        ("Customer: a \x07", Problem.NOT_TEXT),
        ("```\nCustomer: Where is it?\n```", None),
    ],
)  # fmt: skip
def test_answers_with_a_shape_have_the_other_checks_too(text: str, problem: Problem | None) -> None:
    found = check(text, RandomRequest(subject="chats", shape=CHAT, examples=(PARENT,)), "stop")
    assert found == problem


def test_json_is_a_text_where_the_records_are_json() -> None:
    text = '{"x": "The lamp broke."}'
    assert check(text, RandomRequest(subject="x", shape=RECORD), "stop") is None
    assert check(text, RandomRequest(subject="x"), "stop") is Problem.NOT_TEXT
    assert check('{"x": 1}', RandomRequest(subject="x", shape=RECORD), "stop") is Problem.WRONG_FORM


def test_samples_of_a_trained_model_without_the_shape_are_left_out() -> None:
    from sugarbush.training.dpsgd.generate import Generation

    codes = np.arange(3).reshape(3, 1)
    made = Released(Generation(texts=("agent: a", "b", "Customer : c"), tokens=9, redrawn=1))
    final = FinalSet.without_rounds(made, codes=codes, run="r", shape=CHAT).lineage
    assert final.final.texts == ("Agent: a", "Customer: c")
    assert final.final.codes.tolist() == [[0], [2]]
    assert final.usage.problems == {"empty": 1, "wrong_form": 1} and final.usage.calls == 4
    none = Released(Generation(texts=("b",), tokens=1, redrawn=0))
    with pytest.raises(GeneratorError, match="no text of the trained model has the shape"):
        FinalSet.without_rounds(none, codes=codes[:1], run="r", shape=CHAT)
