"""Tests of the figures of a rehearsal and of the verdict on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.data.schema import Schema
from sugarbush.evolution.targets import Donated, Targets
from sugarbush.generators.interface import Answer, Problem
from sugarbush.rehearsal.figures import AttributeReader, measure, public_kinds
from sugarbush.rehearsal.verdict import (
    Figures,
    Lengths,
    RehearsalGrade,
    ShownAttribute,
    judge_rehearsal,
)

WORDS = ("lamp", "chair", "kettle", "late", "broken", "parcel", "money", "week")
SCHEMA = Schema.model_validate(
    {
        "subject": "letters on a lamp",
        "attributes": [
            {"name": "product", "column": "p", "values": ["lamp", "chair", "sofa"]},
            {"name": "wish", "values": ["money", "parcel"],
             "keywords": {"money": ["money"], "parcel": ["parcel"]}},
        ],
    }
)  # fmt: skip
GOOD = Figures(
    requested=40,
    usable=40,
    different=40,
    donated=30,
    lengths=Lengths(low=10, median=14, high=20),
    donated_lengths=Lengths(low=9, median=13, high=18),
    far=0.1,
    distance=0.4,
    donated_distance=0.4,
    spread=0.6,
    donated_spread=0.65,
    off_subject=0.0,
)


def embed(texts: Sequence[str]) -> Any:
    """Return one dimension for each word of WORDS, and one for all other words."""
    rows = np.array([[*(t.split().count(w) for w in WORDS), 0.3] for t in texts], dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def texts_of(count: int, words: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{words[i % 2]} {words[2 + i % 3]} number {i} says {i * i}" for i in range(count))


DONATED_TEXTS = texts_of(20, ("lamp", "chair", "late", "money", "parcel"))
READER = AttributeReader(
    schema=SCHEMA,
    donated=Donated(
        texts=DONATED_TEXTS,
        codes=np.array([[i % 2, (2, 0, 1)[i % 3]] for i in range(20)]),
    ),
    zero_shot={},
    settings=ExtractMetadataSettings(),
    embed=embed,
    seed=1,
)


def figures_of(answers: Sequence[Answer], codes: Any = None) -> Figures:
    codes = np.zeros((len(answers), 2), dtype=np.int64) if codes is None else codes
    targets = Targets(codes=codes, labels=np.zeros(len(answers), dtype=np.int64))
    return measure(answers, targets, words=6, reader=READER)


def test_texts_of_the_same_kind_are_near_and_others_are_far() -> None:
    near = figures_of([Answer(text=text) for text in DONATED_TEXTS])
    other = texts_of(20, ("week", "kettle", "broken", "week", "kettle"))
    far = figures_of([Answer(text=text) for text in other])
    assert near.far == 0.0
    assert far.far == 1.0
    assert near.distance == pytest.approx(0.0, abs=1e-6)
    assert far.distance is not None and far.distance > 0.5
    assert near.spread == pytest.approx(near.donated_spread)


def test_unusable_and_repeated_answers_are_counted() -> None:
    answers = [Answer(text="lamp late again")] * 3
    answers += [Answer(text=None, problem=Problem.REFUSAL)] * 2
    found = figures_of(answers)
    assert (found.requested, found.usable, found.different) == (5, 3, 1)
    assert found.problems == {"refusal": 2}
    assert figures_of([Answer(text=None, problem=Problem.EMPTY)]).lengths is None


def test_the_shown_values_are_compared_with_the_requests_and_with_chance() -> None:
    answers = [Answer(text=text) for text in DONATED_TEXTS]
    right = np.array([[i % 2, (2, 0, 1)[i % 3]] for i in range(20)])
    shown = {one.name: one for one in figures_of(answers, right).attributes}
    assert shown["product"].shown == 1.0 and shown["product"].chance < 0.6
    assert shown["wish"].shown == 1.0
    assert shown["wish"].texts == 13  # the bucket for other values is not requested
    wrong = np.array([[1 - i % 2, 2] for i in range(20)])
    shown = {one.name: one for one in figures_of(answers, wrong).attributes}
    assert shown["product"].shown == 0.0
    assert "wish" not in shown


def test_kinds_count_different_texts_and_name_values_without_a_text() -> None:
    pool = (*DONATED_TEXTS, *DONATED_TEXTS)
    kinds = public_kinds(pool, READER)
    assert kinds["product"] == {"lamp": 10, "chair": 10}  # nothing teaches `sofa`
    missing = {"product": kinds["product"] | {"sofa": 0}}
    found = Figures(**{**vars(GOOD), "kinds": missing})
    verdict = judge_rehearsal(found, max_dropped_share=0.2, compared=True)
    assert verdict.grade is RehearsalGrade.FAIR
    assert verdict.reasons == ("the public texts have no text of: product sofa",)


@pytest.mark.parametrize(
    ("change", "grade", "reason"),
    [
        ({}, RehearsalGrade.GOOD, "40 of 40 answers are usable"),
        ({"usable": 35, "different": 35, "problems": {"empty": 5}}, RehearsalGrade.FAIR, "5 empty"),
        (
            {"usable": 30, "different": 30, "problems": {"refusal": 10}},
            RehearsalGrade.POOR,
            "10 refusal",
        ),
        ({"different": 28}, RehearsalGrade.FAIR, "12 of 40 texts repeat"),
        ({"different": 10}, RehearsalGrade.POOR, "30 of 40 texts repeat"),
        ({"far": 0.45}, RehearsalGrade.FAIR, "18 of 40 texts are unlike"),
        ({"far": 0.9}, RehearsalGrade.POOR, "36 of 40 texts are unlike"),
        ({"far": 0.45, "donated": 8}, RehearsalGrade.GOOD, "usable"),
        ({"spread": 0.4}, RehearsalGrade.FAIR, "too like one another"),
        ({"spread": 0.1}, RehearsalGrade.POOR, "too like one another"),
        ({"lengths": Lengths(low=30, median=40, high=50)}, RehearsalGrade.FAIR, "have 40 words"),
        ({"lengths": Lengths(low=80, median=90, high=99)}, RehearsalGrade.POOR, "have 90 words"),
        (
            {"attributes": (ShownAttribute(name="mood", shown=0.3, chance=0.3, texts=40),)},
            RehearsalGrade.FAIR,
            "requested value of: mood (30%, by chance 30%)",
        ),
    ],
)
def test_each_figure_decides_the_grade(
    change: dict[str, Any], grade: RehearsalGrade, reason: str
) -> None:
    verdict = judge_rehearsal(
        Figures(**{**vars(GOOD), **change}), max_dropped_share=0.2, compared=True
    )
    assert verdict.grade is grade
    assert reason in verdict.reasons[0]
    assert bool(verdict.advice) is (grade is RehearsalGrade.POOR)


def test_there_are_at_most_five_reasons_and_the_worst_are_first() -> None:
    bad = {
        "usable": 35, "different": 10, "problems": {"empty": 5}, "far": 0.4, "spread": 0.4,
        "lengths": Lengths(low=30, median=40, high=50), "kinds": {"mood": {"calm": 0}},
    }  # fmt: skip
    verdict = judge_rehearsal(
        Figures(**{**vars(GOOD), **bad}), max_dropped_share=0.2, compared=True
    )
    assert verdict.grade is RehearsalGrade.POOR
    assert len(verdict.reasons) == 5
    assert "repeat" in verdict.reasons[0]


def test_without_donated_texts_the_grade_is_never_good() -> None:
    bare = {"donated": 0, "far": None, "distance": None, "donated_distance": None}
    found = Figures(**{**vars(GOOD), **bare})
    verdict = judge_rehearsal(found, max_dropped_share=0.2, compared=False)
    assert verdict.grade is RehearsalGrade.FAIR
    assert "cannot be judged without donated texts" in verdict.reasons[0]
    off = Figures(**{**vars(found), "off_subject": 0.95})
    assert judge_rehearsal(off, max_dropped_share=0.2, compared=False).grade is RehearsalGrade.POOR
