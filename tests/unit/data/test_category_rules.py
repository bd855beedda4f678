"""Tests of rules between values: what they mean, and which are refused before a run."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.data.category_rules import CategoryRule, Implication, row_that_obeys
from sugarbush.data.drawn_values import broken_rows, possible_rows
from sugarbush.data.schema import Schema, schema_of
from sugarbush.errors import SchemaError

ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "mood", "values": ["good", "bad"], "keywords": {"good": ["glad"], "bad": ["sad"]}},
    {"name": "reason", "column": "r", "values": ["late", "lost"], "other": "none"},
    {"name": "stars", "column": "s", "type": "integer", "bins": [2, 4], "span": [1, 5]},
]
DOMAINS = {"a": ("x", "y", "other"), "b": ("p", "q", "other"), "c": ("m", "n", "other")}


def schema(*rules: Any) -> Schema:
    fields = {"subject": "mail", "rules": list(rules), "attributes": ATTRIBUTES}
    return schema_of(fields, source="schema.yaml")


def rule(condition: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    return {"if": condition, "then": then}


def test_a_rule_is_broken_by_its_condition_without_its_result_alone() -> None:
    own = schema(rule({"mood": "good"}, {"reason": "none", "stars": "4 and above"}))
    good_rows = [[0, 2, 2], [1, 0, 0], [2, 1, 1], [-1, 0, 0], [0, -1, 2], [0, -1, -1]]
    bad_rows = [[0, 0, 2], [0, 2, 1], [0, -1, 0], [0, 2, 3]]
    codes = np.array(good_rows + bad_rows)
    broken = broken_rows(own, codes, np.full(codes.shape, np.nan))
    assert broken.tolist() == [False] * len(good_rows) + [True] * len(bad_rows)
    assert possible_rows(own, codes).tolist() == (~broken).tolist()


def test_a_rule_excludes_values_and_may_name_a_learned_attribute_and_a_bin() -> None:
    own = schema(rule({"stars": {"not": ["below 2", "other"]}}, {"mood": {"not": "bad"}}))
    codes = np.array([[1, 0, 0], [1, 0, 1], [1, 0, 3], [0, 0, 1]])
    broken = broken_rows(own, codes, np.full(codes.shape, np.nan))
    assert broken.tolist() == [False, True, False, False]


def test_rules_come_back_from_their_dump_and_join_the_cache_key() -> None:
    own = schema("stars >= 1", rule({"mood": "GOOD "}, {"reason": {"not": ["late", "lost"]}}))
    assert Schema.model_validate(own.model_dump(mode="json")) == own
    assert own.fields_for_private_results()["rules"][1]["then"] == {
        "reason": {"not": ["late", "lost"]}
    }


@pytest.mark.parametrize(
    "rules, message",
    [
        ([rule({"mod": "good"}, {"reason": "none"})], "no attribute; did you mean mood"),
        ([rule({"mood": "god"}, {"reason": "none"})], "no value of mood; did you mean good"),
        ([rule({"mood": "good"}, {"reason": ["none", "x"]})], "'x', which is no value of reason"),
        ([{"if": {"mood": "good"}}], "it has the keys if and then"),
        ([rule({}, {"reason": "none"})], "need attributes with values"),
        ([rule({"mood": []}, {"reason": "none"})], "is a value, a list of values"),
        ([rule({"mood": {"no": "good"}}, {"reason": "none"})], "is a value, a list of values"),
        ([rule({"mood": None}, {"reason": "none"})], "is a value, a list of values"),
        ([7], "it has the keys if and then"),
        (
            [
                rule({"mood": "good"}, {"reason": "late"}),
                rule({"mood": "good"}, {"reason": "lost"}),
            ],
            "allow no row with mood: good",
        ),
        (
            [
                rule({"mood": {"not": "good"}}, {"reason": "late"}),
                rule({"mood": "good"}, {"reason": "lost"}),
                rule({"reason": ["late", "lost"]}, {"stars": "other"}),
                rule({"stars": "other"}, {"reason": "none"}),
            ],
            "no row can obey all of these rules",
        ),
    ],
)
def test_refused_rules(rules: list[Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema(*rules)


def test_the_bucket_may_be_impossible() -> None:
    assert schema(rule({"mood": "other"}, {"mood": "good"})).category_rules


def _values() -> st.SearchStrategy[Any]:
    values = st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=2, unique=True)
    return st.dictionaries(st.sampled_from(list(DOMAINS)), values, min_size=1, max_size=2)


def implication(condition: dict[str, list[int]], then: dict[str, list[int]]) -> Implication:
    written = [
        {name: [DOMAINS[name][code] for code in codes] for name, codes in part.items()}
        for part in (condition, then)
    ]
    return Implication.of(CategoryRule.of(rule(*written)), DOMAINS)


@given(st.lists(st.tuples(_values(), _values()), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_the_search_finds_a_row_exactly_if_one_of_all_rows_obeys(pairs: list[Any]) -> None:
    rules = [implication(*pair) for pair in pairs]
    every = np.array(list(itertools.product(range(3), repeat=3)))
    columns = dict(zip(DOMAINS, every.T, strict=True))
    broken = np.logical_or.reduce([each.broken(columns) for each in rules])
    by_row = [any(each.breaks(dict(zip(DOMAINS, row, strict=True))) for each in rules)
              for row in every.tolist()]  # fmt: skip
    assert broken.tolist() == by_row
    found = row_that_obeys(rules)
    assert (found is None) == bool(broken.all())
    assert found is None or not any(each.breaks(found) for each in rules)
