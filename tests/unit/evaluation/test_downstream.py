"""Tests that accuracy and F1 of predictions equal those of scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from sugarbush.evaluation.downstream import Predictions, majority

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40)


@given(PAIRS, st.data())
def test_figures_of_any_resample_are_scikit_learns(pairs: list[tuple[int, int]], data) -> None:
    truth, predicted = np.array(pairs).T
    places = st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=40)
    chosen = np.array(data.draw(places))
    answers = Predictions(truth=truth, predicted=predicted)
    assert answers.accuracy(chosen) == accuracy_score(truth[chosen], predicted[chosen])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns about a single value
        expected = f1_score(truth[chosen], predicted[chosen], average="macro", zero_division=0.0)
    assert answers.macro_f1(chosen) == pytest.approx(expected)


def test_a_value_that_is_never_predicted_lowers_f1_and_one_that_never_occurs_does_not() -> None:
    answers = Predictions(truth=np.array([0, 0, 4]), predicted=np.array([0, 0, 0]))
    assert answers.macro_f1() == pytest.approx((0.8 + 0) / 2)


def test_the_majority_baseline_answers_the_most_common_value_of_the_training_texts() -> None:
    found = majority(np.array([2, 0, 2, 1]), heldout_codes=np.array([1, 1, 1, 2]))
    assert found.predicted.tolist() == [2, 2, 2, 2]
    assert found.accuracy() == 0.25
