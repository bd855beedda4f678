"""Tests of `research.leaderboard`: methods at equal budget, their metrics, means over runs."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from research.benchmark_dataset import FeatureReader
from research.leaderboard import WHERE, Scale, averaged, table, variants_of
from research.trained import Labelled, rows_of
from research.trained import table as table_of_trained
from sugarbush.evaluation import FINAL, latent_space, train_classifier

SCALE = Scale(variations=3, texts=40)


def test_methods_with_rounds_have_equal_candidates_and_variations_and_mosaic_as_many_calls() -> (
    None
):
    variants = variants_of(SCALE)
    settings = {name: variant.evolution for name, variant in variants.items()}
    rounds = {n: own for n, own in settings.items() if own.get("rounds") and n != "augpe-10"}
    assert set(rounds) == {
        "nonprivate", "maple", "augpe", "maple-M", "maple-E", "maple-weak", "sugarbush",
        "augpe-scores",
    }  # fmt: skip
    sizes = {(own["candidates"], own["rounds"], own["variations"]) for own in rounds.values()}
    assert sizes == {(120, 2, 3)}
    # 120 first texts, and 80 variations of the 40 survivors of the first round
    assert settings["mosaic"]["candidates"] == 200
    varied = [own for own in settings.values() if "variations" in own]
    assert {own["candidates"] // own["variations"] for own in varied} == {40}
    assert settings["sugarbush"]["scorer"] == "kernel"
    assert variants["maple-weak"].attributes == ["product_group", "region"]


def test_every_text_is_embedded_once() -> None:
    texts = [f"a letter about {thing} number {n}" for n in range(9) for thing in ("rain", "cake")]
    vectors = np.eye(18, dtype=np.float32)
    seen: list[str] = []

    def embed(new):
        seen.extend(new)
        return vectors[[texts.index(text) for text in new]]

    classifier = train_classifier(vectors, np.arange(18) % 2, seed=1)
    reader = FeatureReader(embed, latent_space(texts, seed=1), [classifier])
    reader.of([texts[3], texts[5], texts[3]])
    found = reader.of([texts[5], texts[7], texts[3]])
    assert seen == [texts[3], texts[5], texts[7]]
    np.testing.assert_array_equal(found.vectors, vectors[[5, 7, 3]])
    assert found.codes.shape == (3, 1) and len(found.latent) == 3


def test_an_interval_is_students_over_runs_and_ends_at_one() -> None:
    rows = [
        {"set": "s", "arm": "maple", "method": "maple", "epsilon": 1.0, "round": 0, "calls": 10,
         "metric": "mauve", "space": "encoder", "value": value}
        for value in (0.9, 1.0)
    ]  # fmt: skip
    (row,) = averaged(pd.DataFrame(rows)).to_dict("records")
    reach = 12.7062 * np.std([0.9, 1.0], ddof=1) / math.sqrt(2)
    assert row["value"] == pytest.approx(0.95)
    assert row["low"] == pytest.approx(0.95 - reach, rel=1e-4)
    assert row["high"] == 1.0


def test_a_table_has_differences_between_equal_runs() -> None:
    rows = [
        {"set": "s", "arm": arm, "epsilon": 1.0, "run": run, "round": FINAL, "calls": 7,
         "metric": metric, "space": space, "value": value}
        for arm, values in (("mosaic", (0.8, 0.9)), ("maple", (0.7, 0.8)))
        for run, value in enumerate(values)
        for metric, space in WHERE.values()
    ]  # fmt: skip
    found = table(pd.DataFrame(rows), baseline="mosaic").splitlines()
    assert found[2].startswith("| s | 1 | mosaic | 7 | 0.850 ± 0.635 |")
    assert found[2].endswith("|  |")
    assert found[3].startswith("| s | 1 | maple | 7 | 0.750 ± 0.635 |")
    assert found[3].endswith("| -0.100 ± 0.000 |")


def test_a_perplexity_has_no_upper_end_and_stands_in_the_table_of_what_is_learnt() -> None:
    own = Labelled(("one", "two", "two"), np.array([0, 1, -1]))
    point = {"set": "s", "arm": "maple", "epsilon": 1.0, "calls": 10}
    rows = [
        row
        for run, perplexity in enumerate((90.0, 110.0))
        for row in rows_of(own, {"perplexity": perplexity, "majority": 0.5}, run=run, **point)
    ]
    figures = averaged(pd.DataFrame(rows))
    found = figures.set_index("metric")
    assert found.loc["perplexity", "high"] == pytest.approx(100 + 12.7062 * 10, rel=1e-3)
    assert found.loc["majority", "space"] == "attribute"
    assert (
        "| maple | 1 | 3 | 2 | – | 100.0 (0.0–227.1) | – | – | 0.500 (0.500–0.500) | – |"
        in table_of_trained(figures)
    )


def test_a_part_of_labelled_texts_keeps_each_text_with_its_code() -> None:
    own = Labelled(tuple(str(n) for n in range(20)), np.arange(20))
    part = own.limited(7, seed=1)
    assert len(set(part.texts)) == 7
    assert [int(text) for text in part.texts] == part.codes.tolist()
