"""Candidates keep their values, and first requests ask for the values of their targets alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
from sugarbush.evolution.targets import Targets

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
