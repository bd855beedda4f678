"""Tests of the sentences about what a release is good for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.evaluation.public_figures import PublicFigure
from sugarbush.quality.public_quality import missing_values, quality_of
from sugarbush.release.figures import MeasuredFigures
from sugarbush.report.card_values import release_card
from sugarbush.report.uses import card_figures, uses
from sugarbush.run.settings import parse_params
from tests.unit.report.sample import SCHEMA, release


def figure(
    name: str, value: float, attribute: str | None = None, *, by: float = 0.05
) -> PublicFigure:
    return PublicFigure(
        name=name, value=value, low=value - by, high=value + by, attribute=attribute
    )


def test_only_a_gain_that_is_shown_makes_an_attribute_learnable() -> None:
    figures = [
        figure("accuracy", 0.8, "topic"),
        figure("gain", 0.3, "topic"),
        figure("accuracy", 0.6, "tone"),
        figure("gain", 0.04, "tone"),
    ]
    learnable, others = uses(figures, {})
    assert learnable.startswith("topic can be learned")
    assert "right for 80% (75% to 85%) of the records" in learnable
    assert "30 points more" in learnable
    assert others.startswith(
        "Poor for training: a model that learns tone from the release is right for 60% (55% to 65%)"
    )


def test_a_label_that_is_left_out_is_no_column_and_has_no_shares() -> None:
    figures = [
        figure("accuracy", 0.09, "intent", by=0.04),
        figure("gain", -0.06, "intent"),
        figure("marginals", 0.3, "intent"),
        figure("marginals", 0.02, "tone", by=0.01),
        figure("pairs", 0.2),
    ]
    said, shares = uses(figures, {}, wrong=["intent"])
    assert said.startswith(
        "intent is not a column of this release: a model that learns intent from the release is "
        "right for 9% (5% to 13%) of the records, no better than"
    )
    assert "requested_intent" in said
    assert "for tone" in shares and "intent" not in shares


def test_no_share_below_the_largest_upper_end_is_interpreted() -> None:
    figures = [figure("marginals", 0.1, "topic"), figure("marginals", 0.02, "tone", by=0.01)]
    (said,) = uses(figures, {})
    assert "10% (5% to 15%) for topic, 2% (1% to 3%) for tone" in said
    assert said.endswith("below 15%.")


def test_missing_values_are_named_with_their_dp_share() -> None:
    schema = Schema.model_validate(
        {
            "subject": "letters",
            "attributes": [
                {"name": "topic", "column": "topic", "values": ["a", "b", "c"]},
                {"name": "tone", "column": "tone", "values": ["calm", "angry"]},
            ],
        }
    )
    codes = np.array([[0, -1], [0, -1]])
    labels = Labels(codes=codes, confidence=np.ones((2, 2)), weights=np.ones(2), attributes=())
    counts = {"topic": np.array([90, -2, 10, 0])}
    missing = missing_values(schema, labels, counts)
    assert missing == {"topic": {"c": 0.1, "b": 0.0}}  # tone has no label at all
    (said,) = uses([], missing)
    assert "topic: c (about 10.0% of the records), b (about 0.0% of the records)" in said
    assert missing_values(schema, labels, {})["topic"] == {"b": None, "c": None}


def test_without_figures_the_card_has_none() -> None:
    assert card_figures(None) is None


RULES = {"coverage": ">= 0.7", "topics": "<= 0.2"}
MET = {"coverage": 0.8, "topics": 0.1}
# The figures of two methods: each method meets both rules, or misses one or both.
COMBINATIONS = [MET, MET | {"coverage": 0.6}, MET | {"topics": 0.3}, {"coverage": 0.6}]


@pytest.mark.parametrize(("one", "other"), list(itertools.product(COMBINATIONS, repeat=2)))
def test_a_rule_accepts_a_release_only_if_every_method_meets_every_rule(
    one: dict[str, float], other: dict[str, float]
) -> None:
    by_method = {
        method: tuple(figure(name, value) for name, value in values.items())
        for method, values in (("maple", one), ("public", other))
    }
    figures = MeasuredFigures(by_method=by_method, facts={}, digests={}, run="r", ledger_ids=())
    settings = parse_params({"evaluate": {"public": True}, "release": {"accept_if": RULES}})
    quality = quality_of(settings, SCHEMA, figures, labels={}, counts={})
    card = release_card(release(quality=quality))
    assert card.public_figures is not None
    accepted = one == other == MET
    assert card.public_figures.accepted == card.publishable == accepted
    assert ("REFUSED by release.accept_if" in card.heading) != accepted
    missed = {method for method, values in (("maple", one), ("public", other)) if values != MET}
    assert set(card.public_figures.unmet_rules) == missed
    assert all(f"{method}: " in card.heading for method in missed)
