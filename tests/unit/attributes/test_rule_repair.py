"""Tests that labels obey the rules between values, and agree with what the texts contain."""

from __future__ import annotations

from typing import Any

import numpy as np

from sugarbush.attributes.reader import LabelReader
from sugarbush.attributes.rule_repair import Reading, obey_rules
from sugarbush.data.drawn_values import broken_categories
from sugarbush.data.schema import Schema, schema_of
from sugarbush.evolution.initialisation import first_requests
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.population import Population
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Donated, targets_by_rows
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import FinalSet
from sugarbush.randomness import public_rng
from sugarbush.release.labelled import with_labels

RULES = [
    {"if": {"mood": "glad"}, "then": {"reason": "other"}},
    {"if": {"mood": "sad"}, "then": {"reason": {"not": "other"}, "urgent": "yes"}},
]


def schema_with(*attributes: dict[str, Any], rules: Any = RULES) -> Schema:
    fields = {"subject": "mail", "rules": rules, "attributes": list(attributes)}
    return schema_of(fields, source="schema.yaml")


MOOD = {"name": "mood", "values": ["glad", "sad"], "keywords": {"glad": ["glad"], "sad": ["sad"]}}
REASON = {"name": "reason", "values": ["late", "lost"], "column": "r"}
URGENT = {"name": "urgent", "values": ["yes", "no"], "column": "u"}
SCHEMA = schema_with(MOOD, REASON, URGENT)


def test_the_most_likely_change_of_one_label_is_made() -> None:
    codes = np.array([[0, 0, 0], [0, 0, 0], [1, 0, 1], [0, 2, 1], [1, 2, 1]])
    mood = np.array([[0.9, 0.05, 0.05], [0.3, 0.6, 0.1], *[[0.4, 0.3, 0.3]] * 3])
    reason = np.array([[0.5, 0.1, 0.4], [0.99, 0.005, 0.005], *[[0.4, 0.3, 0.3]] * 3])
    readings = (Reading(likely=mood), Reading(likely=reason), Reading())
    confidence = np.full(codes.shape, 0.5)
    changed, sure = obey_rules(codes, confidence, readings, schema=SCHEMA)
    assert changed[0].tolist() == [0, 2, 0] and sure[0].tolist() == [0.5, 0.4, 0.5]
    assert changed[1].tolist() == [1, 0, 0], "the other label is far more likely"
    assert changed[2].tolist() == [2, 0, 1], "a classifier's doubt is more likely than a request"
    assert changed[3].tolist() == codes[3].tolist(), "this row breaks no rule"
    assert changed[4].tolist() == [0, 2, 1]
    assert not broken_categories(SCHEMA, changed).any()


def test_what_a_text_contains_does_not_change() -> None:
    codes = np.array([[0, 0, 0], [1, 2, 0], [1, 2, 1]])
    readings = (Reading(is_certain=True), Reading(is_certain=True, misses=True), Reading())
    changed, _ = obey_rules(codes, np.ones(codes.shape), readings, schema=SCHEMA)
    assert changed[0].tolist() == [0, 0, 0], "the text contradicts the rule, and is dropped"
    assert changed[1, 0] == 1 and changed[1, 1] in (0, 1), "the reader found no reason"
    assert changed[2].tolist() == [1, 2, 1], "one change is not enough"


def test_a_value_that_no_request_named_changes_first_and_is_filled_in() -> None:
    codes = np.array([[0, 0, 0], [0, -1, 0], [1, 0, -1], [1, -1, 0], [2, -1, -1]])
    readings = (Reading(), Reading(is_open=np.array([True, True, False, True, True])), Reading())
    changed, _ = obey_rules(codes, np.ones(codes.shape), readings, schema=SCHEMA)
    assert changed.tolist() == [[0, 2, 0], [0, 2, 0], [1, 0, 0], [1, -1, 0], [2, -1, -1]]


def reader_of(schema: Schema) -> LabelReader:
    return LabelReader(schema=schema, embed=lambda texts: np.ones((len(texts), 2), np.float32))


def test_released_labels_obey_and_a_contradicting_text_is_dropped_and_counted() -> None:
    reason = {"name": "reason", "values": ["late", "lost"], "keywords": {"late": ["late"]}}
    schema = schema_with(MOOD, reason, URGENT)
    texts = ("glad, though late", "glad", "sad and late", "sad about it", "nothing")
    codes = np.array([[1, 0, 0], [0, 2, 1], [0, 2, 1], [1, 1, 0], [2, 2, 1]])
    population = Population.first(texts, codes=codes)
    lineage = Lineage(final=population, usage=Usage(), ledger_ids=())
    final, labels = with_labels(FinalSet(lineage=lineage, run="r"), reader_of(schema))
    assert final.lineage.final.texts == texts[1:]
    assert final.lineage.usage.problems == {"broken_rule": 1}
    assert not broken_categories(schema, labels.codes).any()
    assert labels.codes[:, 0].tolist() == [0, 1, 1, 2], "moods are those of the texts"
    assert labels.codes[1].tolist() == [1, 0, 0], "an unverified request gives way"


def test_no_prompt_contradicts_a_rule() -> None:
    rows = np.array([[0, 0, 0], [0, 2, 1], [1, 1, 0], [1, 2, 0]])
    targets = targets_by_rows(100, rows, SCHEMA, rng=public_rng(1))
    donated = Donated(texts=("one", "two"), codes=np.array([[0, 1, 0], [1, 0, 0]]))
    requests = first_requests(
        targets,
        schema=SCHEMA,
        prompts=Prompts(content=PromptContent.BOTH, examples=2, candidates=None),
        length=FirstLength(),
        donated=donated,
        seed=1,
        run_seed=1,
    )
    wanted = {request.attributes for request in requests}
    glad, sad = (("mood", "glad"), ("urgent", "no")), (("mood", "sad"), ("reason", "lost"))
    assert wanted == {glad, (*sad, ("urgent", "yes"))}
    shown = {each for request in requests for each in request.example_attributes}
    assert shown == {(), (("mood", "sad"), ("reason", "late"), ("urgent", "yes"))}
