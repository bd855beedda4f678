"""Tests of the example method `joint`: what it charges, and what its parts decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from examples.methods.joint_votes import Joint, JointVotes, LikeItsCluster
from sugarbush import extend
from tests.synthesized import synthesize_frame

WORDS = {"lamp": "flickers at night", "chair": "has a broken leg", "kettle": "leaks on the stove"}
SCHEMA = {
    "subject": "letters",
    "attributes": [{"name": "product", "column": "product", "values": list(WORDS)}],
}


def letters(count: int = 240) -> pd.DataFrame:
    products = [list(WORDS)[i % len(WORDS)] for i in range(count)]
    texts = [f"My {p} of order {i} {WORDS[p]}" for i, p in enumerate(products)]
    return pd.DataFrame({"message": texts, "product": products})


@pytest.mark.slow
@pytest.mark.usefixtures("quick_encoder")
def test_votes_on_text_and_attributes_charge_one_event_per_round(tmp_path: Path) -> None:
    release = synthesize_frame(
        letters(),
        text="message",
        schema=SCHEMA,
        method=Joint(rounds=2, candidates=24, variations=3, prompt="metadata"),
        generator=sb.Simulator(any_texts=True),
        privacy=sb.Privacy(epsilon=1, dataset="letters"),
        texts=12,
        state=tmp_path,
        accept_poor=True,
        settings={"evaluate": {"public": False}},
    )
    assert release.epsilon <= 1 and len(release.texts) == 12
    assert release.card is not None
    events = release.card["budget"]["events"]
    kinds = [event["kind"] for event in events if event["stage"] != "look"]
    assert kinds == ["gaussian_dp", "discrete_gaussian", "discrete_gaussian"]
    assert len(release.lineage.rounds) == 2
    assert {round_.unit for round_ in release.lineage.rounds} == {4096}


def test_a_record_votes_for_a_near_text_with_its_own_values() -> None:
    """Among texts that are equally near, the candidate with the record's value gets the vote."""
    embeddings = np.eye(3, dtype=np.float32)[[0, 0, 1]]
    codes = np.array([[0], [1], [0]])
    candidates = extend.Candidates(embeddings, codes, np.zeros(3, dtype=np.int64))
    record = np.eye(3, dtype=np.float32)[[0, 0]]
    records = extend.Records(record, np.array([[1], [0]]), np.zeros(2, dtype=np.int64))
    (rows,) = JointVotes(votes=1).scores(candidates)(records)
    assert rows.argmax(axis=1).tolist() == [1, 0]


def test_examples_of_a_variation_come_from_its_cluster() -> None:
    near = {"a": [1, 0], "b": [1, 0.01], "c": [0, 1], "d": [0.01, 1]}
    parents = extend.Population.first(tuple(near), codes=np.zeros((4, 1), dtype=np.int64))
    requests = LikeItsCluster(copies=1, clusters=2, examples=3).requests(
        parents,
        schema=sb.open_schema(SCHEMA),
        encode=lambda texts: np.array([near[text] for text in texts], dtype=np.float32),
        number=1,
        seed=1,
    )
    assert [set(request.examples) for request in requests] == [{"a", "b"}] * 2 + [{"c", "d"}] * 2
    assert requests[0].attributes == (("product", "lamp"),)


def test_equal_survivors_are_one_cluster() -> None:
    requests = LikeItsCluster(copies=1, clusters=8).requests(
        extend.Population.first(("a", "a", "b"), codes=np.zeros((3, 1), dtype=np.int64)),
        schema=sb.open_schema(SCHEMA),
        encode=lambda texts: np.array([[text == "a", 1] for text in texts], dtype=np.float32),
        number=1,
        seed=1,
    )
    assert [set(request.examples) for request in requests] == [{"a"}, {"a"}, {"b"}]
