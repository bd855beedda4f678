"""Tests that a release has the chosen shares, that they charge nothing, and that pages say so."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.attributes.reader import LabelReader
from sugarbush.data.schema import schema_of
from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.evolution.inputs import MetadataRelease, ReleaseSettings
from sugarbush.evolution.parts import Lineage
from sugarbush.evolution.population import Population
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import FinalSet
from sugarbush.release.labelled import with_labels

pytestmark = pytest.mark.usefixtures("quick_encoder")
SCHEMA: dict[str, Any] = {
    "subject": "tickets",
    "rules": [{"if": {"mood": "glad"}, "then": {"reason": "none"}}],
    "attributes": [
        {"name": "product", "column": "product", "values": ["editor", "server", "app"]},
        {"name": "mood", "column": "mood", "values": ["glad", "sad"]},
        {"name": "reason", "column": "reason", "values": ["late", "lost"], "other": "none"},
    ],
}
MIX = {"product": {"editor": 0.5, "app": 0.5}}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    product = rng.choice(["editor", "server", "app"], p=[0.6, 0.3, 0.1], size=400)
    mood = rng.choice(["glad", "sad"], size=400)
    reason = np.where(mood == "glad", "none", rng.choice(["late", "lost"], size=400))
    texts = [f"Order {i}: {p} {m} {r}" for i, (p, m, r) in enumerate(zip(product, mood, reason))]  # noqa: B905
    return pd.DataFrame({"text": texts, "product": product, "mood": mood, "reason": reason})


def test_a_release_has_the_mix_and_a_second_mix_charges_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.PrivateFactWarning)
        corpus = sb.prepare(
            frame(),
            schema=SCHEMA,
            privacy=sb.Privacy(epsilon=3, delta=1e-6, dataset="tickets"),
            generator=sb.Simulator(any_texts=True),
            settings={"evaluate": {"public": False}},
            state=tmp_path,
        )

    def release(mix: Any) -> Any:
        return sb.synthesize(
            corpus,
            method=sb.Mosaic(prompt="metadata", candidates=40),
            texts=20,
            settings={"release": {"mix": mix}},
            accept_poor=True,
        )

    plain, mixed = release({}), release(MIX)
    other = release({"mood": {"glad": 1}, "product": {"server": 0.3}})
    counts = mixed.frame["product"].value_counts()
    assert set(counts.index) == {"editor", "app"} and abs(counts["editor"] - counts["app"]) <= 1
    assert set(other.frame["mood"]) == {"glad"} and set(other.frame["reason"]) == {"none"}
    server = (other.frame["product"] == "server").sum()  # the simulator may write fewer texts
    assert abs(server - 0.3 * len(other.frame)) < 1 and server > 0
    assert plain.epsilon == mixed.epsilon == other.epsilon
    weights = mixed.frame.groupby("product")["weight"].sum()
    assert weights["editor"] > 2 * weights["app"]
    assert any("chose the shares of product" in remark for remark in mixed.card["remarks"])
    assert not any("chose the shares" in remark for remark in plain.card["remarks"])
    assert mixed.card["made_by"]["settings"]["mix"] == MIX
    with pytest.raises(ParamsError, match="no rows can have all of these shares"):
        release({"mood": {"glad": 1}, "reason": {"late": 0.5}})


def test_a_method_without_dp_counts_of_the_attribute_is_refused() -> None:
    from sugarbush.run.settings import parse_params
    from sugarbush.run.usable_inputs import require_possible_mix

    schema = schema_of(SCHEMA, source="x")
    for methods, message in (({"public": {}}, "public draws no"), ({"augpe": {}}, "only of mood")):
        fields = {
            "release": {"mix": MIX},
            "methods": methods,
            "synthesize_metadata": {"label": "mood"},
        }
        with pytest.raises(ParamsError, match=message):
            require_possible_mix(parse_params(fields), schema)
    fields = {"release": {"mix": MIX}, "methods": {"augpe": {}}}
    require_possible_mix(parse_params(fields), schema)


def final_set(codes: list[int]) -> FinalSet:
    rows = np.stack([codes, np.ones(len(codes)), np.zeros(len(codes))], axis=1).astype(np.int64)
    texts = tuple(f"text {n}" for n in range(len(codes)))
    final = Population.first(texts, codes=rows)
    return FinalSet(lineage=Lineage(final=final, usage=Usage(), ledger_ids=()), run="r")


def reader() -> LabelReader:
    schema = schema_of(SCHEMA, source="x")
    rows = np.array([[0, 1, 0]] * 6 + [[1, 1, 0]] * 3 + [[2, 1, 0]])
    mix = MetadataRelease(rows=rows).mix_of(ReleaseSettings(mix=MIX), schema)
    return LabelReader(schema=schema, embed=lambda t: np.ones((len(t), 2), np.float32), mix=mix)


def test_texts_beyond_the_shares_are_dropped_and_counted() -> None:
    final, labels = with_labels(final_set([0, 0, 0, 0, 1, 2, 2, 3]), reader())
    assert labels.codes[:, 0].tolist() == [0, 0, 0, 2, 2], "an odd number is rounded"
    assert final.lineage.usage.problems["outside_mix"] == 8 - len(labels.codes)
    np.testing.assert_allclose(
        labels.weights[labels.codes[:, 0] == 0].sum() / labels.weights.sum(), 6 / 7
    )


def test_a_chosen_value_without_a_text_is_an_error_that_says_so() -> None:
    with pytest.raises(GeneratorError, match="no text of the release has product: app"):
        with_labels(final_set([0, 0, 0, 1]), reader())
