"""Tests of the estimates and intervals of public figures, and of the rules about them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sugarbush.evaluation.public_figures import FigureRule, NoisyNumbers, PublicFigure, estimate
from sugarbush.run.settings import parse_params

EXACT = NoisyNumbers(
    records=np.array([1000, 100, 300, 250]),
    records_stddev=1e-6,
    quality=np.array([40, 160, 30, 10, 60, 100, 0, 0, 0, 0]),
    quality_stddev=1e-6,
    topics=np.array([20]),
    topics_stddev=1e-6,
    number_of_topics=4,
    attributes=("topic", "tone"),
    measured=(True, False),
    pairs_measured=True,
)


def figures(numbers: NoisyNumbers) -> dict[str, PublicFigure]:
    return {figure.title: figure for figure in estimate(numbers)}


def test_without_noise_the_figures_are_the_exact_ones() -> None:
    found = {title: round(figure.value, 3) for title, figure in figures(EXACT).items()}
    assert found == {
        "coverage": 0.8,
        "topics": 0.1,
        "marginals": 0.1,
        "marginals.topic": 0.1,
        "pairs": 0.25,
        "accuracy": 0.8,
        "accuracy.topic": 0.8,
        "gain.topic": 0.25,
    }


def test_an_interval_of_the_records_themselves_has_no_sampling() -> None:
    found = figures(EXACT)
    assert found["marginals"].high - found["marginals"].low < 0.005
    assert found["coverage"].high - found["coverage"].low > 0.08  # 200 records


def test_a_figure_without_records_has_the_whole_range() -> None:
    numbers = replace(EXACT, quality=np.array([-3, 1, -5, 2, 1, 1, 0, 0, 0, 0]))
    found = figures(replace(numbers, quality_stddev=30.0, topics_stddev=30.0))
    assert (found["coverage"].low, found["coverage"].high) == (0.0, 1.0)
    assert (found["gain.topic"].low, found["gain.topic"].high) == (-1.0, 1.0)
    assert found["topics"].high == 1.0


def test_lucky_noise_claims_no_precision() -> None:
    lucky = replace(EXACT, records=np.array([1000, -60, -60, -60]), records_stddev=30.0)
    assert figures(lucky)["marginals"].high >= 1.95 * 30 / 1000


def test_intervals_contain_noise_and_sampling() -> None:
    """Records are drawn, and noise is added."""
    rng, runs = np.random.default_rng(1), 400
    topics, texts = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.3, 0.2, 0.4])
    kinds = np.array([0.15, 0.05, 0.3, 0.5])  # neither, common, model, both
    true = {"coverage": 0.7, "topics": 0.3, "accuracy.topic": 0.8, "gain.topic": 0.25,
            "marginals.topic": 0.1, "pairs": 0.25}  # fmt: skip
    inside = dict.fromkeys(true, 0)
    for _ in range(runs):
        records, stddev = 300, 15.0
        covered = rng.binomial(records, 0.7)
        right = rng.multinomial(records, kinds)
        moved = np.abs(rng.multinomial(records, topics) - records * texts).sum() / 2
        exact = np.array([records - covered, covered, *right])
        found = figures(
            replace(
                EXACT,
                quality=np.concatenate([np.rint(exact + rng.normal(0, stddev, 6)), np.zeros(4)]),
                quality_stddev=stddev,
                topics=np.array([round(moved + rng.normal(0, stddev))]),
                topics_stddev=stddev,
                records=np.rint(EXACT.records + rng.normal(0, stddev, 4)),
                records_stddev=stddev,
            )
        )
        for name, value in true.items():
            inside[name] += found[name].low <= value <= found[name].high
    assert {name: count / runs >= 0.92 for name, count in inside.items()} == dict.fromkeys(
        true, True
    )


def test_a_rule_compares_the_estimate() -> None:
    rule = FigureRule.of("coverage", ">= .8")
    assert rule.holds({"coverage": 0.8}) and not rule.holds({"coverage": 0.79})
    assert not rule.holds({})
    assert FigureRule.of("marginals.topic", "<=0.1").holds({"marginals.topic": 0.05})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"coverages": ">= 0.8"}, "no figure 'coverages'"),
        ({"coverage.topic": ">= 0.8"}, "no figure 'coverage.topic'"),
        ({"coverage": "> 0.8"}, "needs a condition such as"),
        ({"gain": ">= 0"}, "gain needs an attribute"),
    ],
)
def test_a_wrong_rule_is_refused_before_any_charge(fields: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        parse_params({"evaluate": {"public": True}, "release": {"accept_if": fields}})


def test_a_rule_needs_public_figures() -> None:
    with pytest.raises(Exception, match=r"evaluate\.public"):
        parse_params(
            {"evaluate": {"public": False}, "release": {"accept_if": {"coverage": ">= 0.8"}}}
        )
