"""Prompts that would be alike have different public angles, and no other prompt has one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.initialisation import first_requests
from sugarbush.evolution.population import NO_CODE
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Donated, Targets
from sugarbush.generators import angles
from sugarbush.generators.angles import CASES, WRITERS, angle_of, longest_angle
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.prompts import continuation, render

SCHEMA = Schema(
    subject="letters",
    attributes=(Attribute(name="mood", column="mood", values=("glad", "sad")),),
)
LIMITS: Any = {"context_tokens": 4096, "max_tokens": 64}


def requests(count: int = 200, content: PromptContent = PromptContent.METADATA) -> Any:
    return first_requests(
        Targets(
            codes=np.full((count, 1), NO_CODE, dtype=np.int64),
            labels=np.zeros(count, dtype=np.int64),
        ),
        schema=SCHEMA,
        prompts=Prompts(content=content, examples=1, candidates=count),
        length=FirstLength(words=20),
        donated=Donated(texts=("one", "two"), codes=np.zeros((2, 1), dtype=np.int64)),
        seed=1,
        run_seed=1,
    )


def test_equal_requests_without_examples_have_different_prompts() -> None:
    prompts = {render(request, **LIMITS) for request in requests()}
    assert len(prompts) > 0.9 * len(CASES) * len(WRITERS)


def test_the_angle_is_the_end_of_a_prompt_and_changes_nothing_before_it() -> None:
    """The beginning that all prompts share is computed once."""
    for request in requests(20):
        bare = render(replace(request, angle=""), **LIMITS)
        assert render(request, **LIMITS).startswith(bare + "\n\nSo that texts differ, ")


@pytest.mark.parametrize("content", [PromptContent.EXAMPLES, PromptContent.BOTH])
def test_a_prompt_with_examples_has_no_angle(content: PromptContent) -> None:
    assert not any(request.angle for request in requests(content=content))


def test_an_angle_depends_on_the_sample_alone_and_changes_no_seed_of_a_text() -> None:
    for request in requests(20):
        assert request.angle == angle_of(request.sample)
        assert repr(request) == repr(replace(request, angle=""))
        assert continuation(request, **LIMITS) == continuation(replace(request, angle=""), **LIMITS)


def test_no_angle_is_longer_than_the_planned_one() -> None:
    assert max(len(angle_of(sample)) for sample in range(500)) <= len(longest_angle())


def test_without_cases_no_prompt_has_an_angle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(angles, "CASES", ())
    assert longest_angle() == ""
    assert not any(request.angle for request in requests())
    assert "differ" not in render(RandomRequest(subject="letters"), **LIMITS)
