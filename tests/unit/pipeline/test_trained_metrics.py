"""The metrics that train a model, as configured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sugarbush.errors import ParamsError
from sugarbush.evaluation.interface import MetricSettings, Sample
from sugarbush.evaluation.settings import EvaluateSettings
from sugarbush.pipeline.evaluator import Evaluator
from tests.settings import params

TEXTS = ("the lamp is broken", "send my money back", "the lamp is dim", "i want money") * 3
CODES = np.array([[0, 0], [1, 0], [0, 0], [1, 0]] * 3)


def sample() -> Sample:
    return Sample(texts=TEXTS, features={}, codes=CODES)


def evaluator() -> Evaluator:
    real = sample()
    return Evaluator(
        heldout=real,
        heldout_codes=CODES,
        train=real,
        donated=(),
        public=(),
        settings=MetricSettings(domain={"wish": 2, "only": 2}, clusters=2, resamples=5, seed=1),
    )


def asked(**changes: Any) -> EvaluateSettings:
    small = {
        "evaluate__next_token__layers": 1,
        "evaluate__next_token__width": 64,
        "evaluate__next_token__epochs": 1,
        "evaluate__next_token__max_tokens": 16,
        "evaluate__fine_tuned__epochs": 1,
        "evaluate__fine_tuned__max_tokens": 16,
    }
    return params(**(small | changes)).evaluate


def test_none_is_trained_unless_the_settings_ask_for_seeds() -> None:
    assert evaluator().trained(sample(), method="maple", wanted=asked()) == ()


def test_each_figure_has_an_interval_over_seeds_and_texts() -> None:
    wanted = asked(evaluate__next_token__seeds=2, evaluate__fine_tuned__seeds=1)
    figures = evaluator().trained(sample(), method="maple", wanted=wanted)
    # An attribute with only one value in the held-out part has no figure.
    assert {(f.metric, f.space) for f in figures} == {
        ("next_token_accuracy", "text"),
        ("perplexity", "text"),
        ("fine_tuned_accuracy", "wish"),
        ("fine_tuned_macro_f1", "wish"),
    }
    for figure in figures:
        assert figure.low is not None and figure.high is not None
        assert figure.low <= figure.high
        assert figure.method == "maple"


def test_an_arm_without_texts_has_no_figure() -> None:
    empty = Sample(texts=(), features={}, codes=np.empty((0, 2), dtype=np.int64))
    wanted = asked(evaluate__next_token__seeds=1, evaluate__fine_tuned__seeds=1)
    assert evaluator().trained(empty, method="maple", wanted=wanted) == ()


def test_a_model_that_is_not_there_is_named_by_its_setting() -> None:
    wanted = asked(evaluate__next_token__seeds=1, evaluate__next_token__model="/no/such/model")
    with pytest.raises(ParamsError, match=r"evaluate\.next_token\.model"):
        evaluator().trained(sample(), method="maple", wanted=wanted)


def test_an_attribute_that_the_schema_does_not_have_is_named_by_its_setting() -> None:
    wanted = asked(evaluate__fine_tuned__seeds=1, evaluate__fine_tuned__attributes=("mood",))
    with pytest.raises(ParamsError, match=r"evaluate\.fine_tuned\.attributes.* no mood"):
        evaluator().trained(sample(), method="maple", wanted=wanted)
