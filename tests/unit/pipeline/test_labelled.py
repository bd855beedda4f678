"""Tests that a text with numbers that break a rule is no part of the release, and is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sugarbush.attributes.reader import LabelReader
from sugarbush.data.schema import schema_of
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.population import Population
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import FinalSet
from sugarbush.release.folders import readable, values_of_texts
from sugarbush.release.labelled import with_labels

SCHEMA = schema_of(
    {
        "subject": "reviews",
        "rules": ["stars <= 2"],
        "attributes": [
            {"name": "stars", "column": "s", "type": "integer", "bins": [2, 4], "span": [1, 5]},
            {"name": "mood", "values": ["calm"], "keywords": {"calm": ["calm"]}},
        ],
    },
    source="x",
)
READER = LabelReader(schema=SCHEMA, embed=lambda texts: np.zeros((len(texts), 2), np.float32))


def final_set(texts: list[str], requested: float) -> FinalSet:
    codes = np.tile([1, 0], (len(texts), 1))
    values = np.full(codes.shape, np.nan)
    values[:, 0] = requested
    population = Population.first(texts, codes=codes, values=values)
    usage = Usage(problems={"duplicate": 1})
    return FinalSet(lineage=Lineage(final=population, usage=usage, ledger_ids=()), run="r")


def test_a_text_that_says_a_forbidden_number_is_dropped_and_counted() -> None:
    texts = ["3 stars, calm", "2 stars, calm", "fine", "three stars"]
    final, labels = with_labels(final_set(texts, requested=3.0), READER)
    population = final.lineage.final
    assert population.texts == ("2 stars, calm", "fine"), "what a prompt showed is repaired"
    assert population.ids.tolist() == [1, 2]
    assert final.lineage.usage.problems == {"duplicate": 1, "broken_rule": 2}
    assert readable(population, SCHEMA, labels)["stars"].tolist() == [2, 2]
    assert labels.codes[:, 1].tolist() == [0, 1], "labels are those of the texts that stay"


def test_a_second_reading_drops_nothing_and_gives_the_same_labels() -> None:
    first, labels = with_labels(final_set(["3 stars", "2 stars", "fine"], requested=2.0), READER)
    again, same = with_labels(first, READER)
    assert again is first
    assert np.array_equal(same.codes, labels.codes)
    values, broken = values_of_texts(again.lineage.final, SCHEMA, same)
    assert values[:, 0].tolist() == [2, 2] and not broken.any()


def test_a_rare_value_that_a_mix_made_frequent_keeps_its_weight() -> None:
    """Rounded to three digits, a weight of 0.0004 is 0, and the value is in no weighted count."""
    final, labels = with_labels(final_set(["2 stars", "1 star"], requested=2.0), READER)
    for rare in (0.0004, 1e-7):
        mixed = replace(labels, weights=np.array([2 - rare, rare]))
        given = readable(final.lineage.final, SCHEMA, mixed)["weight"]
        np.testing.assert_allclose(given, mixed.weights, rtol=1e-3)
    raked = replace(labels, weights=np.array([1.9374, 0.0626]))
    assert readable(final.lineage.final, SCHEMA, raked)["weight"].tolist() == [1.937, 0.063]
