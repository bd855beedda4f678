"""Candidates keep their values, and first requests ask for the values of their targets alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.initialisation import first_requests
from sugarbush.evolution.population import (
    NO_CODE,
    NO_PARENT,
    Population,
    load_population,
    save_population,
)
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Donated, Targets
from sugarbush.generators.examples import EXAMPLE_SETS
from sugarbush.generators.interface import RandomRequest

NAMES = ("topic", "mood")


def population(count: int) -> Population:
    """Candidates with different values in every column."""
    numbers = np.arange(count)
    return Population(
        ids=100 + numbers,
        texts=tuple(f"text {i}" for i in numbers),
        codes=np.stack([numbers, 50 + numbers], axis=1),
        labels=numbers % 3,
        parents=np.where(numbers % 2, NO_PARENT, 7 * numbers),
        rounds=numbers % 4,
        examples=tuple((int(i), int(i) + 1)[: i % 3] for i in numbers),
    )


def candidates(own: Population) -> list[tuple[object, ...]]:
    """All values of each candidate."""
    rows = own.frame(NAMES).itertuples(index=False, name=None)
    return [(*row, examples) for row, examples in zip(rows, own.examples, strict=True)]


@given(st.lists(st.integers(0, 8), max_size=12))
def test_a_candidate_keeps_all_its_values_in_any_order(places: list[int]) -> None:
    """The examples of another candidate would name the wrong donated texts beside a text."""
    every = candidates(population(9))
    taken = population(9).take(np.array(places, dtype=np.int64))
    assert candidates(taken) == [every[place] for place in places]
    joined = taken.join(population(2))
    assert candidates(joined) == [*(every[p] for p in places), *candidates(population(2))]


def test_a_stored_population_is_read_as_it_was(tmp_path: Path) -> None:
    for count in (0, 1, 9):
        save_population(population(count), NAMES, tmp_path / "p.parquet")
        assert candidates(load_population(tmp_path / "p.parquet", NAMES)) == candidates(
            population(count)
        )


def test_a_prompt_asks_for_no_value_that_the_schema_does_not_name() -> None:
    """A prompt with `topic: other` would make texts about "other"."""
    schema = Schema(
        subject="letters",
        attributes=(
            Attribute(name="topic", column="topic", values=("lamp", "chair")),
            Attribute(name="mood", column="mood", values=("glad",), other="another mood"),
        ),
    )
    codes = np.array([[0, 0], [2, 0], [1, 1], [2, 1], [NO_CODE, 0]])
    requests = first_requests(
        Targets(codes=codes, labels=np.zeros(5, dtype=np.int64)),
        schema=schema,
        prompts=Prompts(content=PromptContent.METADATA, examples=0, candidates=5),
        length=FirstLength(),
        donated=None,
        seed=1,
        run_seed=1,
    )
    assert [request.attributes for request in requests] == [
        (("topic", "lamp"), ("mood", "glad")),
        (("mood", "glad"),),
        (("topic", "chair"),),
        (),
        (("mood", "glad"),),
    ]


DONATED = Donated(
    texts=tuple(f"letter {number}" for number in range(40)),
    codes=np.arange(80).reshape(40, 2) % 3,
)


def requests_for(content: PromptContent, *, seed: int, run_seed: int = 1) -> list[RandomRequest]:
    schema = Schema(
        subject="letters",
        attributes=tuple(
            Attribute(name=name, column=name, values=("lamp", "chair")) for name in NAMES
        ),
    )
    codes = np.random.default_rng(seed).integers(0, 3, (200, 2))
    return list(
        first_requests(
            Targets(codes=codes, labels=np.zeros(200, dtype=np.int64)),
            schema=schema,
            prompts=Prompts(content=content, examples=4, candidates=200),
            length=FirstLength(),
            donated=DONATED,
            seed=seed,
            run_seed=run_seed,
            example_sets=EXAMPLE_SETS,
        )
    )


@pytest.mark.parametrize("content", [PromptContent.BOTH, PromptContent.EXAMPLES])
def test_all_batches_of_a_run_share_a_few_sets_of_examples(content: PromptContent) -> None:
    """A set for each batch of requests would begin other prompts, which no cache has."""
    first, later = requests_for(content, seed=1), requests_for(content, seed=2)
    sets = {request.examples for request in first}
    assert 1 < len(sets) <= EXAMPLE_SETS
    every = sets | {request.examples for request in later}
    assert len(every) <= EXAMPLE_SETS
    assert all(len(set(examples)) == 4 for examples in every)
    assert not every & {request.examples for request in requests_for(content, seed=1, run_seed=2)}


def test_without_metadata_the_examples_tell_nothing_about_the_row() -> None:
    requests = requests_for(PromptContent.EXAMPLES, seed=1)
    assert not any(request.attributes or any(request.example_attributes) for request in requests)
    codes = dict(zip(DONATED.texts, DONATED.codes.tolist(), strict=True))
    rows = np.random.default_rng(1).integers(0, 3, (200, 2))
    near = [
        np.mean([(np.array(codes[text]) != row).mean() for text in request.examples])
        for request, row in zip(requests, rows, strict=True)
    ]
    # Of three equally frequent codes, two differ. The nearest examples would have about 0.2.
    assert abs(float(np.mean(near)) - 2 / 3) < 0.1
