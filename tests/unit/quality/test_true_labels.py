"""Tests of the rule that says which labels are wrong: only what is certainly worthless goes."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.attributes.reader import UNREAD, Labels, LabelSource, ReadAttribute
from sugarbush.evaluation.public_figures import NoisyNumbers, PublicFigure, estimate
from sugarbush.report.true_labels import with_true_labels, wrong_labels

READ = ReadAttribute(name="topic", source="donated", requested=100)


def measured(
    neither: int, common: int, model: int, both: int, *, stddev: float = 5.0
) -> tuple[PublicFigure, ...]:
    """Return the figures of one attribute from the noisy counts of its four cells."""
    numbers = NoisyNumbers(
        records=np.array([1000, 100]),
        records_stddev=stddev,
        quality=np.array([100, 900, neither, common, model, both]),
        quality_stddev=stddev,
        topics=np.array([20]),
        topics_stddev=stddev,
        number_of_topics=4,
        attributes=("topic",),
        measured=(True,),
        pairs_measured=False,
    )
    return estimate(numbers)


@pytest.mark.parametrize(
    ("cells", "stddev", "wrong"),
    [
        # 42 intents, 9% right, 15% have the most common value: certainly worthless
        ((3400, 300, 120, 180), 5.0, True),
        ((340, 30, 12, 18), 60.0, False),  # the same shares, but few records and much noise
        ((340, 30, 12, 18), 5.0, True),
        # two values of 63% and 37% that are shuffled: right for 53%
        ((1165, 1165, 685, 1985), 5.0, True),
        ((70, 70, 41, 119), 30.0, False),
        # one value for every text: model and most common value are always equal
        ((4000, 0, 0, 1000), 5.0, True),
        ((400, 0, 0, 100), 60.0, False),
        # 95% of the records have one value: right answers show nothing about the others
        ((250, 0, 0, 4750), 5.0, False),
        ((250_000, 0, 0, 4_750_000), 5.0, False),  # a model of true labels may do this
        ((200, 500, 50, 4250), 5.0, False),  # finds a fifth of the rare value
        # a model that learns something
        ((1000, 200, 900, 900), 5.0, False),
        # nobody has a value, or no count is positive
        ((0, 0, 0, 0), 5.0, False),
        ((-3, -1, -5, 2), 5.0, False),
    ],
)
def test_only_labels_that_are_certainly_worthless_are_wrong(
    cells: tuple[int, int, int, int], stddev: float, wrong: bool
) -> None:
    assert wrong_labels([READ], measured(*cells, stddev=stddev)) == (("topic",) if wrong else ())


@pytest.mark.parametrize("source", get_args(LabelSource))
def test_values_that_are_read_as_from_a_record_or_drawn_are_never_wrong(
    source: LabelSource,
) -> None:
    found = wrong_labels([replace(READ, source=source)], measured(3400, 300, 120, 180))
    assert bool(found) == (source not in {"record", "keywords", "zero_shot", "drawn"})


COUNTS = st.integers(-100, 5000)


@given(cells=st.tuples(COUNTS, COUNTS, COUNTS, COUNTS), stddev=st.floats(1, 100))
def test_labels_with_a_shown_gain_are_never_wrong_and_more_noise_leaves_out_no_more(
    cells: tuple[int, int, int, int], stddev: float
) -> None:
    figures = measured(*cells, stddev=stddev)
    wrong = wrong_labels([READ], figures)
    gain = next(figure for figure in figures if figure.name == "gain")
    if gain.low > 0.05:
        assert not wrong
    if not wrong:
        assert not wrong_labels([READ], measured(*cells, stddev=2 * stddev))


def test_without_figures_every_label_stays() -> None:
    assert wrong_labels([READ], ()) == ()
    assert wrong_labels([], measured(3400, 300, 120, 180)) == ()


def test_a_wrong_label_shows_no_code_and_others_stay() -> None:
    tone = replace(READ, name="tone")
    codes = np.array([[0, 1], [1, 0]])
    labels = Labels(
        codes=codes, confidence=np.ones((2, 2)), weights=np.ones(2), attributes=(READ, tone)
    )
    given_out = with_true_labels(labels, measured(3400, 300, 120, 180))
    assert given_out.left_out == ("topic",)
    assert given_out.given_codes.tolist() == [[UNREAD, 1], [UNREAD, 0]]
    assert labels.left_out == () and (labels.given_codes == codes).all()
