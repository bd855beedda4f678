"""Phrases in the requests for first texts."""

from __future__ import annotations

import numpy as np
import pytest

from sugarbush.data.schema import Schema
from sugarbush.evolution.initialisation import first_requests
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Targets
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.prompts import continuation, render
from sugarbush.generators.shared_prefixes import shared_prefixes

ALL = tuple(f"word{number}" for number in range(30))
ANGRY = ("late flight", "lost luggage")


def requests(
    *, phrases: tuple[str, ...] = ALL, seed: int = 1, count: int = 60
) -> tuple[RandomRequest, ...]:
    mood = {
        "name": "mood",
        "column": "mood",
        "values": ["angry", "calm"],
        **({"phrases": {"angry": ANGRY}} if phrases else {}),
    }
    schema = Schema.model_validate({"subject": "letters", "attributes": [mood], "phrases": phrases})
    return first_requests(
        Targets(codes=np.arange(count)[:, None] % 2, labels=np.zeros(count, dtype=np.int64)),
        schema=schema,
        prompts=Prompts(content=PromptContent.METADATA, examples=0, candidates=count),
        length=FirstLength(words=9),
        donated=None,
        seed=seed,
        run_seed=1,
    )


def test_a_request_has_four_phrases_of_its_value_or_of_all_texts() -> None:
    found = requests()
    angry, calm = found[::2], found[1::2]
    assert {frozenset(request.phrases) for request in angry} == {frozenset(ANGRY)}
    assert all(len(set(request.phrases)) == 4 for request in calm)
    assert {phrase for request in calm for phrase in request.phrases} == set(ALL), "30 of 120 drawn"


def test_the_draw_is_public_and_differs_by_request_and_seed() -> None:
    assert requests() == requests()
    assert [r.phrases for r in requests()] == [r.phrases for r in requests()]
    calm = [request.phrases for request in requests()[1::2]]
    assert len(set(calm)) > 25
    assert calm != [request.phrases for request in requests(seed=2)[1::2]]


def test_phrases_change_nothing_else_of_a_request() -> None:
    for named, bare in zip(requests(), requests(phrases=()), strict=True):
        assert not bare.phrases
        assert repr(named) == repr(bare), "generators derive the seed of a text from it"


@pytest.mark.parametrize("write", [render, continuation])
def test_prompts_share_the_same_beginning_with_and_without_phrases(write: object) -> None:
    def prompts(phrases: tuple[str, ...]) -> list[str]:
        limits = {"context_tokens": 4000, "max_tokens": 100}
        calm = requests(phrases=phrases)[1::2]
        return [write(request, **limits) for request in calm]  # type: ignore[operator]

    named, bare = prompts(ALL), prompts(())
    before, after = (sum(p.length for p in shared_prefixes(all_)) for all_ in (bare, named))
    assert after >= before - len(named) > 30 * len(named), "all but one sign"
