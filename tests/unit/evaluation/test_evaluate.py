from dataclasses import replace

import numpy as np
import pytest

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import mean_interval, normal_interval, percentile_interval
from sugarbush.evaluation.copies import copy_values
from sugarbush.evaluation.downstream import downstream_values
from sugarbush.evaluation.evaluate import BUILT_IN, evaluate_texts, installed_metrics
from sugarbush.evaluation.interface import (
    TEXT,
    Metric,
    MetricSettings,
    MetricValue,
    Sample,
    label,
)
from sugarbush.evaluation.mauve import mauve
from sugarbush.randomness import public_rng

DOMAIN = {"a": 3, "b": 2}
SETTINGS = MetricSettings(domain=DOMAIN, clusters=5, resamples=12, seed=1)


def sample(n: int, *, seed: int, word: str = "word") -> Sample:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, n) for size in DOMAIN.values()], axis=1)
    rows = np.eye(6)[codes[:, 0]] + 0.2 * rng.normal(size=(n, 6))
    texts = tuple(f"{word} {i} {word}{i % 7} and so on" for i in range(n))
    return Sample(texts=texts, features={"encoder": rows, "tf-idf": rows[:, ::-1]}, codes=codes)


def test_every_metric_has_a_value_and_an_interval_in_both_spaces() -> None:
    figures = evaluate_texts(sample(60, seed=1), sample(60, seed=2), SETTINGS)
    by_name = {(f.space, f.metric): f for f in figures}
    for space in ("encoder", "tf-idf"):
        for metric in ("mauve", "frechet", "precision", "recall", "density", "coverage"):
            found = by_name[space, metric]
            assert found.low is not None and found.high is not None
            assert found.low <= found.value <= found.high
    assert {"a", "b", "mean"} == {m for s, m in by_name if s == "attribute"}
    assert ("table", "total_variation_2") in by_name
    assert ("table", "total_variation_3") not in by_name  # there are only two attributes
    assert all(np.isfinite(f.value) for f in figures)
    labelled = label(figures, method="maple", round_=2)
    assert all(f.method == "maple" and f.round == 2 for f in labelled)


def test_without_resamples_there_are_no_intervals() -> None:
    settings = MetricSettings(domain=DOMAIN, clusters=5, resamples=0, seed=1)
    figures = evaluate_texts(sample(20, seed=1), sample(20, seed=2), settings)
    assert all(f.low is None and f.high is None for f in figures)


def test_a_set_without_texts_has_no_values_and_no_zeros() -> None:
    empty = sample(0, seed=1)
    heldout = sample(20, seed=1)
    assert evaluate_texts(heldout, empty, SETTINGS) == ()
    assert list(downstream_values(heldout, empty, space="encoder", settings=SETTINGS)) == []
    with pytest.raises(InvariantError, match="held-out"):
        evaluate_texts(empty, heldout, SETTINGS)


def test_a_single_synthetic_text_has_lengths_and_no_distances() -> None:
    figures = evaluate_texts(sample(20, seed=1), sample(1, seed=2), SETTINGS)
    assert {f.metric for f in figures if f.space == "encoder"} == set()
    assert "length" in {f.metric for f in figures}


def test_more_clusters_than_synthetic_texts_are_accepted() -> None:
    settings = MetricSettings(domain=DOMAIN, clusters=500, resamples=2, seed=1)
    figures = evaluate_texts(sample(30, seed=1), sample(8, seed=2), settings)
    assert any(f.metric == "mauve" for f in figures)


def test_copies_are_counted_by_corpus() -> None:
    synthetic, training = sample(30, seed=1, word="made"), sample(30, seed=2, word="real")
    long = " ".join(f"w{i}" for i in range(40))
    figures = copy_values(
        replace(synthetic, texts=(*synthetic.texts[:-1], long)),
        training=training,
        heldout=sample(25, seed=3),
        donated=["x y z", f"so {long} on"],
        public=[],
        space="encoder",
        settings=SETTINGS,
    )
    found = {(f.metric, f.space): f.value for f in figures}
    assert found["longest_copy", "donated"] == 40
    assert found["long_copies", "donated"] == pytest.approx(1 / 30)
    assert found["long_copies", "private"] == 0
    assert ("longest_copy", "public") not in found
    assert 0.1 < found["nearer_to_training", "encoder"] < 0.9


def test_many_training_texts_are_not_nearer_than_few_heldout_texts() -> None:
    """All samples are independent, so a synthetic text is near to one side as often as to the
    other. With 40 times as many training texts, the share would be 97%."""
    figures = copy_values(
        sample(200, seed=1),
        training=sample(1200, seed=2),
        heldout=sample(30, seed=3),
        donated=[],
        public=[],
        space="encoder",
        settings=SETTINGS,
    )
    (nearer,) = (f.value for f in figures if f.metric == "nearer_to_training")
    assert 0.2 < nearer < 0.8


def test_a_model_trained_on_synthetic_texts_has_the_majority_as_baseline() -> None:
    figures = downstream_values(
        sample(80, seed=1), sample(80, seed=2), space="encoder", settings=SETTINGS
    )
    found = {(f.metric, f.space): f.value for f in figures}
    assert found["accuracy", "a"] > 0.9 > found["majority_accuracy", "a"]
    assert found["macro_f1", "a"] > 0.9


def test_an_attribute_with_one_value_in_the_heldout_split_has_no_accuracy() -> None:
    heldout = sample(20, seed=1)
    heldout.codes[:, 1] = 0
    figures = downstream_values(heldout, sample(20, seed=2), space="encoder", settings=SETTINGS)
    assert {f.space for f in figures} == {"a"}


def test_a_sample_is_limited_in_order_and_in_all_its_parts() -> None:
    whole = sample(50, seed=1)
    part = whole.limited(10, rng=public_rng(1, "x"))
    places = [whole.texts.index(text) for text in part.texts]
    assert places == sorted(places) and len(set(places)) == 10
    assert (part.features["encoder"] == whole.features["encoder"][places]).all()
    assert whole.limited(50, rng=public_rng(1, "x")) is whole


def test_a_statistic_of_an_empty_sample_is_refused() -> None:
    with pytest.raises(InvariantError, match="needs texts in every sample"):
        mean_interval(np.array([]), resamples=3, rng=public_rng(1))


def test_a_distance_between_equal_samples_keeps_zero_in_its_interval() -> None:
    """A percentile interval would not contain zero, because resampling increases distances."""
    values = np.arange(50.0)

    def distance(p: np.ndarray, q: np.ndarray) -> float:
        return abs(float(values[p].mean() - values[q].mean()))

    kwargs = {"sizes": (50, 50), "resamples": 50}
    right = normal_interval(distance, rng=public_rng(1), within=(0, np.inf), **kwargs)
    wrong = percentile_interval(distance, rng=public_rng(1), **kwargs)
    assert right.low == 0 == right.value
    assert wrong.low is not None and wrong.low > 0


def test_a_small_set_does_not_look_good_in_many_clusters() -> None:
    """If the number of clusters were a tenth of the smaller sample, MAUVE would be high for a few
    texts of only two kinds.
    """
    rng = np.random.default_rng(1)
    rows = np.concatenate(
        [np.eye(20)[rng.integers(20, size=400)] + 0.05 * rng.normal(size=(400, 20))]
    )
    codes = np.zeros((400, 2), dtype=int)
    heldout = Sample(texts=("a b",) * 400, features={"encoder": rows}, codes=codes)
    narrow = np.flatnonzero(rows.argmax(axis=1) < 10)[:20]
    few = Sample(texts=("a b",) * 20, features={"encoder": rows[narrow]}, codes=codes[narrow])
    settings = MetricSettings(domain=DOMAIN, clusters=40, resamples=0, seed=1)
    figures = evaluate_texts(heldout, few, settings)
    found = {f.metric: f.value for f in figures if f.space == "encoder"}
    assert found["mauve"] < 0.5 < mauve(rows, rows[narrow], seed=1)


def test_a_metric_of_another_package_is_computed_with_the_built_in_ones(monkeypatch) -> None:
    def measure(heldout: Sample, synthetic: Sample, settings: MetricSettings):
        longest = max(map(len, synthetic.texts)) - max(map(len, heldout.texts))
        yield MetricValue(metric="longer", space=TEXT, value=float(longest))

    added = {"longer": Metric(name="longer", measure=measure), "mauve": BUILT_IN[0]}
    monkeypatch.setattr("sugarbush.registry.plugin_names", lambda _: tuple(added))
    monkeypatch.setattr("sugarbush.registry.load_plugin", lambda _, name: added[name])
    metrics = installed_metrics()
    assert [metric.name for metric in metrics[:-1]] == [metric.name for metric in BUILT_IN]
    synthetic = sample(20, seed=2, word="longer")
    values = evaluate_texts(sample(20, seed=1), synthetic, SETTINGS, metrics=metrics)
    assert values[-1] == MetricValue(metric="longer", space=TEXT, value=values[-1].value)
    assert values[-1].value > 0
