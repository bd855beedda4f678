"""Tests of the sentences about what a release is good for."""

from __future__ import annotations

import numpy as np

from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.evaluation.public_figures import PublicFigure
from sugarbush.pipeline.public_quality import missing_values
from sugarbush.report.uses import quality_fields, uses


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
    assert "80% (75% to 85%) of held-out records right" in learnable
    assert "30 points more" in learnable
    assert others.startswith("Do not train a classifier of tone on these texts")


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
    assert quality_fields(None) is None
