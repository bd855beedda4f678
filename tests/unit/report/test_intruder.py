"""Tests of the motivated-intruder test on the internal page."""

from __future__ import annotations

from sugarbush.evaluation.interface import REAL, MetricValue
from sugarbush.report.intruder import intruder_view
from sugarbush.report.svg import series_styles


def value(metric: str, space: str, share: float, method: str = "mosaic") -> MetricValue:
    low, high = (share - 0.02, share + 0.02) if metric == "nearer_to_training" else (None, None)
    return MetricValue(metric=metric, space=space, value=share, low=low, high=high, method=method)


def test_a_sentence_and_a_row_of_the_chart_for_each_method() -> None:
    values = [
        value("nearer_to_training", "encoder", 0.5),
        value("long_copies", "private", 0.03),
        value("long_copies", "heldout", 0.01),
        value("nearer_to_training", "encoder", 0.9, "nonprivate"),
        value("nearer_to_training", "encoder", 0.7, REAL),
    ]
    found = intruder_view(values, series_styles(["mosaic", "nonprivate"]))
    assert found is not None
    first, second = found["sentences"]
    assert first.startswith("50.0% (48.0% to 52.0%) of the texts of mosaic are nearer")
    assert "3.0% share 16 words in a row with training records, and 1.0% with held-out" in first
    assert "nonprivate" in second and "share 16 words" not in second
    assert found["chart"].count('class="whisker"') == 2


def test_without_figures_there_is_no_test() -> None:
    assert intruder_view([], {}) is None
