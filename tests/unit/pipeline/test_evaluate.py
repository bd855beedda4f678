"""Tests which texts and settings are used to measure methods."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from sugarbush.evaluation.interface import FINAL, MetricSettings, MetricValue, Sample
from sugarbush.evaluation.mauve import mauve
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages.evaluate import (
    add_sizes,
    clusters_for,
    real_figures,
    write_figures,
)
from sugarbush.quality.real_texts import ENCODER, Evaluator
from sugarbush.randomness import public_rng
from tests.settings import params


def test_clusters_are_a_tenth_of_the_smaller_side_and_at_least_two() -> None:
    assert clusters_for(200, 1000) == 20
    assert clusters_for(1000, 200) == 20
    assert clusters_for(3, 1000) == 2


def test_few_heldout_texts_do_not_make_texts_of_their_own_kind_look_strange() -> None:
    """If the number of clusters were a tenth of the method's texts, most clusters would contain one
    held-out text and nothing else.
    """
    rows = public_rng(1, "rows").normal(size=(660, 8))
    heldout, arm = rows[:60], rows[60:]
    assert mauve(heldout, arm, clusters=clusters_for(len(arm), len(heldout)), seed=1) > 0.9
    assert mauve(heldout, arm, clusters=60, seed=1) < 0.7


def test_a_model_trained_on_real_texts_uses_no_more_of_them_than_a_method_has() -> None:
    """A model that is trained on one text can only predict the value of that text."""
    codes = np.arange(40)[:, None] % 2
    real = Sample(
        texts=("a lamp", "my money") * 20, features={ENCODER: np.eye(2)[codes[:, 0]]}, codes=codes
    )
    evaluator = Evaluator(
        heldout=real,
        heldout_codes=codes,
        train=real,
        donated=(),
        public=(),
        settings=MetricSettings(domain={"wish": 2}, clusters=2, resamples=0, seed=1),
    )
    found = {
        count: {
            figure.metric: figure.value
            for figure in real_figures(evaluator, codes, count=count, seed=1)
            if figure.space == "wish"
        }
        for count in (1, 40)
    }
    assert found[1]["accuracy"] == found[1]["majority_accuracy"] == 0.5
    assert found[40]["accuracy"] == 1


def test_releases_are_measured_at_each_number_of_texts_that_they_reach() -> None:
    rows = public_rng(2, "rows").normal(size=(600, 8)).astype(np.float32)

    def sample(count: int) -> Sample:
        codes = np.zeros((count, 1), dtype=np.int64)
        return Sample(texts=("a",) * count, features={ENCODER: rows[:count]}, codes=codes)

    evaluator = Evaluator(
        heldout=sample(300),
        heldout_codes=np.zeros((300, 1), dtype=np.int64),
        train=sample(600),
        donated=(),
        public=(),
        settings=MetricSettings(domain={"wish": 1}, clusters=2, resamples=5, seed=1),
    )
    found = defaultdict[int, list[MetricValue]](list)
    for count, method in ((600, "maple"), (300, "small")):
        add_sizes(found, evaluator, sample(count), method=method)
    assert {count: [v.method for v in values] for count, values in found.items()} == {
        250: ["maple"],
        500: ["maple"],
    }
    assert all(v.low is not None and v.low <= v.value <= 1 for own in found.values() for v in own)


def test_the_page_is_written_again_whether_its_values_changed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DVC reads only the stamp. If it stayed after a change of evaluate.max_texts, it would
    show that there are no more held-out texts than before.
    """
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    project, stamps = open_project(tmp_path, settings=params()), set()
    for _ in range(2):
        value = MetricValue(metric="mauve", space=ENCODER, value=0.5, method="maple", round=FINAL)
        write_figures(project, [value], {"maple": {"wish": [3, 4]}})
        stamps.add((tmp_path / "data/stamps/evaluate.json").read_text())
    assert len(stamps) == 2
