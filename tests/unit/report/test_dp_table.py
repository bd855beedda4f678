import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.report.dp_table import dependence


@settings(max_examples=50)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40))
def test_dependence_is_the_total_variation_from_the_product_of_marginals(rows) -> None:
    codes = np.array(rows)
    found = dependence(codes, ("a", "b", "c"))
    for one, other in itertools.combinations(range(3), 2):
        joint = np.zeros((4, 4))
        np.add.at(joint, (codes[:, one], codes[:, other]), 1 / len(codes))
        product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        expected = np.abs(joint - product).sum() / 2
        assert found["abc"[one], "abc"[other]] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_what_determines_one_another_depends_and_what_is_constant_does_not() -> None:
    half = np.repeat([0, 5999], 50)
    found = dependence(np.stack([half, half, np.zeros(100, int)], axis=1), ("a", "b", "c"))
    assert found["a", "b"] == pytest.approx(0.5)
    assert found["a", "c"] == found["b", "c"] == pytest.approx(0)
