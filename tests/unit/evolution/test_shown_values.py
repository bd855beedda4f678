"""A prompt says what a requested value means, which values it excludes, and what it leaves open."""

from __future__ import annotations

import string
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.initialisation import first_requests
from sugarbush.evolution.population import NO_CODE
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Donated, Targets
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.prompts import continuation, render

MANY = tuple(string.ascii_lowercase)
SCHEMA = Schema(
    subject="titles of papers",
    attributes=(
        Attribute(
            name="fishing_gear",
            column="gear",
            values=("longlines", "nets"),
            descriptions={"longlines": "lines with many hooks"},
        ),
        Attribute(name="mood", column="mood", values=("glad", "sad"), other="neither"),
        Attribute(name="letter", column="letter", values=MANY),
        Attribute(name="year", column="year", bins=(2000, 2010)),
    ),
)
OPENING = "The new text is to fit this description:"


def request_of(*codes: int, schema: Schema = SCHEMA) -> RandomRequest:
    targets = Targets(codes=np.array([codes]), labels=np.zeros(1, dtype=np.int64))
    (request,) = first_requests(
        targets,
        schema=schema,
        prompts=Prompts(content=PromptContent.METADATA, examples=0, candidates=1),
        length=FirstLength(),
        donated=None,
        seed=1,
        run_seed=1,
    )
    return request


def prompt_of(*codes: int, schema: Schema = SCHEMA) -> str:
    request = request_of(*codes, schema=schema)
    return render(request, context_tokens=4096, max_tokens=64)


def test_a_prompt_shows_the_description_of_a_value_and_of_no_other_value() -> None:
    assert "- fishing gear: longlines (lines with many hooks)\n" in prompt_of(0, 0, 3, 1)
    assert "- fishing gear: nets\n" in prompt_of(1, 0, 3, 1)
    assert "hooks" not in prompt_of(1, 0, 3, 1) + prompt_of(2, 0, 3, 1)


def test_a_prompt_names_the_attributes_that_may_have_any_value() -> None:
    assert "Any value will do for: mood, year." in prompt_of(0, NO_CODE, 3, NO_CODE)


def test_a_prompt_without_attributes_says_nothing_about_attributes() -> None:
    bare = prompt_of(NO_CODE, NO_CODE, NO_CODE, NO_CODE)
    assert OPENING not in bare
    assert "Any value" not in bare


def test_a_prompt_of_all_attributes_leaves_none_open() -> None:
    assert "Any value" not in prompt_of(0, 0, 3, 1)


def test_an_unlisted_value_is_said_by_the_values_that_the_text_must_not_have() -> None:
    prompt = prompt_of(2, 2, 3, 1)
    assert "- fishing gear: none of longlines, nets" in prompt
    assert "- mood: none of glad, sad" in prompt


def test_an_unlisted_value_that_cannot_be_said_is_left_open() -> None:
    """A list of 26 values says little, and a writer cannot leave out a year."""
    prompt = prompt_of(0, 0, len(MANY), 3)
    assert "Any value will do for: letter, year." in prompt
    assert "none of" not in prompt


def test_a_described_bucket_is_said_by_its_description() -> None:
    told = [
        a.model_copy(update={"descriptions": {a.other: "nothing of this kind"}})
        for a in SCHEMA.attributes
    ]
    prompt = prompt_of(2, 2, len(MANY), 3, schema=SCHEMA.model_copy(update={"attributes": told}))
    assert prompt.count("(nothing of this kind)") == 4
    assert "- letter: none of the usual values (nothing of this kind)" in prompt


def test_neither_descriptions_nor_open_attributes_change_the_seed_of_a_text() -> None:
    request = request_of(0, 2, NO_CODE, 1)
    assert request.descriptions and request.unlisted and request.unrequested
    bare = replace(request, descriptions=(), unlisted=(), unrequested=())
    assert repr(bare) == repr(request)
    limits = {"context_tokens": 4096, "max_tokens": 64}
    assert continuation(bare, **limits) == continuation(request, **limits)


def test_a_request_without_attributes_says_nothing_about_attributes() -> None:
    bare = request_of(0, 2, NO_CODE, 1).without_attributes
    assert render(bare, context_tokens=4096, max_tokens=64) == prompt_of(*[NO_CODE] * 4)


@given(st.lists(st.sampled_from(range(-1, 3)), min_size=4, max_size=4))
def test_each_attribute_is_named_once_if_any_is_named(codes: list[int]) -> None:
    """Otherwise a writer asks whether a forgotten attribute matters."""
    prompt = prompt_of(*codes)
    for name in SCHEMA.names:
        assert prompt.count(name.replace("_", " ")) == (OPENING in prompt)


@pytest.mark.parametrize("content", [PromptContent.INDEPENDENT, PromptContent.EXAMPLES])
def test_a_prompt_that_shows_no_metadata_names_no_attribute(content: PromptContent) -> None:
    (request,) = first_requests(
        Targets(codes=np.array([[0, 2, NO_CODE, 1]]), labels=np.zeros(1, dtype=np.int64)),
        schema=SCHEMA,
        prompts=Prompts(content=content, examples=1, candidates=1),
        length=FirstLength(),
        donated=Donated(texts=("one",), codes=np.zeros((1, 4), dtype=np.int64)),
        seed=1,
        run_seed=1,
    )
    assert request == request.without_attributes
