"""Tests of the grades: a finding can only lower the grade."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.attributes.reader import ReadAttribute
from sugarbush.errors import StorageError
from sugarbush.evaluation.likeness import Likeness
from sugarbush.evaluation.public_figures import PublicFigure
from sugarbush.paths import Roots
from sugarbush.quality.judge import FILE, read_verdicts
from sugarbush.report.verdict import Teaching, Verdict, VerdictFacts, make_verdict, worst

LIKE = Likeness(separability=0.5, foreign=0.05, coverage=1.0, donated=50)
GOOD = VerdictFacts(texts=100, wanted=100, likeness=LIKE, signal=5.0, scored=100, considered=400)
SHOWN = ReadAttribute(name="topic", source="donated", requested=100, shown=0.2)


def test_a_release_without_a_finding_is_good() -> None:
    assert make_verdict(GOOD).grade == "good"
    assert make_verdict(replace(GOOD, attributes=(SHOWN,))).grade == "good"


@pytest.mark.parametrize(
    ("changes", "grade", "word"),
    [
        ({"texts": 0}, "poor", "no text"),
        ({"likeness": None}, "unknown", "donated"),
        ({"likeness": replace(LIKE, separability=1.0)}, "poor", "easily told"),
        ({"likeness": replace(LIKE, separability=0.8)}, "fair", "differ"),
        ({"likeness": replace(LIKE, foreign=0.5)}, "poor", "unlike every"),
        ({"likeness": replace(LIKE, coverage=0.5)}, "fair", "no similar text"),
        ({"likeness": replace(LIKE, donated=12)}, "fair", "only 12"),
        ({"likeness": replace(LIKE, copied=0.5)}, "poor", "equal a donated"),
        ({"likeness": replace(LIKE, separability=0.1)}, "fair", "nearer"),
        ({"signal": 1.0}, "fair", "noise"),
        ({"considered": 100}, "fair", "chose nothing"),
        ({"wanted": 200}, "fair", "only 100 of 200"),
        ({"repeated": 0.1}, "fair", "repeat"),
        ({"repeated": 0.5}, "poor", "repeat"),
        ({"scored": 10}, "fair", "scored only 10"),
        ({"lengths": (50, 13)}, "fair", "50 words, and the records about 13"),
        ({"lengths": (4, 17)}, "poor", "4 words"),
        ({"lengths": (200, 17)}, "poor", "200 words"),
        ({"lengths": (25, 13)}, "good", "hard to tell"),
        ({"attributes": (replace(SHOWN, source="request", shown=None),)}, "fair", "topic"),
        ({"attributes": (replace(SHOWN, source="class_sums", shown=None),)}, "fair", "topic"),
        ({"teaching": Teaching(release=0.3, donated=0.6, error=0.05)}, "fair", "training"),
    ],
)
def test_every_finding_lowers_the_grade(changes: dict[str, Any], grade: str, word: str) -> None:
    found = make_verdict(replace(GOOD, **changes))
    assert found.grade == grade
    assert any(word in reason for reason in found.reasons)


def figure(name: str, value: float, attribute: str | None = None) -> PublicFigure:
    low, high = max(value - 0.04, -1.0), value + 0.04
    return PublicFigure(name=name, value=value, low=low, high=high, attribute=attribute)


def learned(gain: float, attribute: str = "topic") -> tuple[PublicFigure, ...]:
    return figure("accuracy", 0.6, attribute), figure("gain", gain, attribute)


@pytest.mark.parametrize(
    ("measured", "grade", "training"),
    [
        ((figure("coverage", 0.7), *learned(0.3)), "good", "good"),
        ((figure("coverage", 0.7),), "good", None),
        ((figure("coverage", 0.4), *learned(0.3)), "fair", "good"),
        ((figure("coverage", 0.05), *learned(0.3)), "poor", "good"),
        ((figure("coverage", 0.7), *learned(-0.2)), "poor", "poor"),
        ((figure("coverage", 0.7), *learned(0.03)), "fair", "poor"),
        ((figure("coverage", 0.7), *learned(0.3), *learned(-0.1, "tone")), "good", "good"),
    ],
)
def test_measured_figures_decide(
    measured: tuple[PublicFigure, ...], grade: str, training: str | None
) -> None:
    """With or without donated texts. Attributes with a measured gain need no donated texts."""
    unread = (replace(SHOWN, source="class_sums", shown=None),) if len(measured) > 1 else ()
    found = make_verdict(replace(GOOD, likeness=None, measured=measured, attributes=unread))
    assert (found.grade, found.training) == (grade, training)
    assert "of the records have a text like them" in found.line()
    assert "nothing" not in found.line()


def test_labels_that_are_left_out_are_named_with_their_figure_and_not_as_labels() -> None:
    """The example: of two attributes, one is wrong. Its requested values are no reason for it."""
    wrong = ReadAttribute(name="topic", source="donated", requested=100, shown=0.1, wrong=True)
    measured = (figure("coverage", 0.7), *learned(-0.2), *learned(0.3, "tone"))
    found = make_verdict(replace(GOOD, measured=measured, attributes=(wrong,)))
    assert (
        "topic is not a column of this release: a model that learns topic from the release is "
        "right for 60% (56% to 64%) of the records, no better than always answering the most "
        "common value"
    ) in found.reasons
    assert "a model that learns tone from the release is right for 60%" in found.line()
    assert "their labels say" not in found.line() and "poor for training" not in found.line()
    both = (*learned(-0.2), *learned(-0.2, "tone"))
    attributes = (wrong, replace(wrong, name="tone"))
    found = make_verdict(replace(GOOD, measured=both, attributes=attributes))
    assert found.grade == found.training == "poor"
    assert "topic and tone are not columns of this release" in found.line()


def test_a_release_that_teaches_less_than_the_donated_texts_is_poor_for_training() -> None:
    less = make_verdict(replace(GOOD, teaching=Teaching(release=0.3, donated=0.6, error=0.05)))
    more = make_verdict(replace(GOOD, teaching=Teaching(release=0.6, donated=0.6, error=0.05)))
    assert (less.training, more.training, make_verdict(GOOD).training) == ("poor", "good", None)


SHARES = st.floats(0, 1)


@given(shares=st.tuples(SHARES, SHARES, SHARES, SHARES), texts=st.integers(0, 200))
def test_at_most_five_reasons_and_the_worst_are_first(
    shares: tuple[float, float, float, float], texts: int
) -> None:
    separability, foreign, coverage, repeated = shares
    like = Likeness(separability=separability, foreign=foreign, coverage=coverage, donated=50)
    found = make_verdict(replace(GOOD, likeness=like, repeated=repeated, texts=texts, signal=1.0))
    assert 1 <= len(found.reasons) <= 5
    assert found.line().startswith(f"{found.grade}: ")
    alone = make_verdict(VerdictFacts(texts=max(texts, 1), wanted=1, likeness=like))
    assert worst([found, alone]).grade in {found.grade, alone.grade}  # type: ignore[union-attr]
    if alone.grade == "poor":
        assert found.grade == "poor"


@pytest.mark.parametrize(
    ("measured", "grade"),
    [
        ((PublicFigure(name="coverage", value=1.0, low=0.0, high=1.0),), "unknown"),
        ((PublicFigure(name="coverage", value=0.5, low=0.2, high=0.8),), "unknown"),
        ((PublicFigure(name="coverage", value=0.7, low=0.45, high=0.95),), "fair"),
        ((figure("coverage", 0.65), figure("topics", 0.44)), "poor"),
        ((figure("coverage", 0.65), figure("topics", 0.25)), "fair"),
        ((figure("coverage", 0.65), figure("topics", 0.06)), "good"),
        (
            (
                figure("coverage", 0.65),
                PublicFigure(name="topics", value=0.5, low=0.1, high=0.9),
            ),
            "fair",
        ),
    ],
)
def test_noise_and_foreign_topics_are_never_good(
    measured: tuple[PublicFigure, ...], grade: str
) -> None:
    """A coverage that nobody knows is no praise. Most texts of a release may be foreign although
    nearly every record finds one like it.
    """
    assert make_verdict(replace(GOOD, likeness=None, measured=measured)).grade == grade


def test_a_verdict_that_was_read_is_the_one_that_was_written(tmp_path: Path) -> None:
    """A verdict with an unknown, a missing or a wrong field is damaged."""
    verdict = Verdict(grade="fair", reasons=("a", "b"), notes=("c",), figures={"repeated": 0.2})
    fields = json.loads(json.dumps(verdict.to_json()))
    assert Verdict.from_json(fields) == verdict
    roots = Roots(tmp_path)
    roots.published.mkdir(parents=True)
    (roots.published / FILE).write_text(json.dumps({"mosaic": fields}))
    assert read_verdicts(roots) == {"mosaic": verdict}
    wrong = [fields | {"elsewhere": 1}, fields | {"grade": "fine"}, {"grade": "good"}, []]
    for each in wrong:
        (roots.published / FILE).write_text(json.dumps({"mosaic": each}))
        with pytest.raises(StorageError, match=r"verdict\.json: is damaged.*sugarbush run"):
            read_verdicts(roots)
