"""Usefulness of releases: labels that texts do not have lower adherence and F1."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from research.benchmark_dataset import TextFeatures
from research.usefulness import Measure, classes, measured, read_release, table

SCHEMA = sb.Schema(
    subject="letters",
    attributes=[{"name": "topic", "values": ["late", "broken"], "column": "topic"}],
)
TOPICS = ("late", "broken")


def texts_of(count: int, start: int = 0) -> tuple[list[str], np.ndarray]:
    codes = np.arange(count) % 2
    return [f"order {start + i} arrived {TOPICS[c]} today" for i, c in enumerate(codes)], codes


def dataset() -> SimpleNamespace:
    def features(texts, *, private=False):
        codes = np.array([TOPICS.index(text.split()[3]) for text in texts])
        noise = np.array([int(text.split()[1]) % 7 for text in texts]) / 20
        vectors = np.stack([1.0 - codes + noise, codes + noise], axis=1)
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        return TextFeatures(vectors, vectors, codes[:, None])

    splits = {split: texts_of(40, start) for split, start in (("train", 1000), ("heldout", 2000))}

    def real_texts(split):
        texts, codes = splits[split]
        return SimpleNamespace(texts=texts, codes=codes[:, None])

    return SimpleNamespace(
        schema=SCHEMA, corpus=SimpleNamespace(real_texts=real_texts), features=features,
        heldout=features(splits["heldout"][0]),
    )  # fmt: skip


@pytest.fixture
def rows(tmp_path):
    texts, codes = texts_of(20)
    values = np.array(TOPICS)[codes]
    pd.DataFrame({"text": texts, "topic": values}).to_parquet(tmp_path / "good.0.parquet")
    mixed = np.roll(values, 1)  # every requested value is wrong
    pd.DataFrame({"text": texts, "topic": mixed}).to_csv(tmp_path / "wrong.0.csv", index=False)
    measure = Measure(dataset=dataset(), second=None, second_texts=0)
    return measured(measure, sorted(tmp_path.iterdir()), sizes=[10])


def test_texts_without_the_requested_value_are_found(rows):
    own = rows[(rows["class"] == "") & (rows["texts"] == 20) & (rows["space"] == "topic")]
    found = own.set_index(["release", "metric"])["value"]
    assert found["good", "adherence"] == found["good", "macro_f1"] == 1
    assert found["wrong", "adherence"] == found["wrong", "macro_f1"] == 0


def test_real_texts_are_measured_at_every_size(rows):
    assert set(rows.loc[rows["release"] == "real", "texts"]) == {10, 20}
    assert "| real | 20 |" in table(rows)
    assert "| wrong | 20 | topic | broken |" in classes(rows)


def test_a_value_outside_the_schema_counts_as_not_requested(tmp_path):
    file = tmp_path / "odd.csv"
    pd.DataFrame({"text": ["a", "b"], "topic": ["late", "purple"]}).to_csv(file, index=False)
    assert read_release(file, SCHEMA).codes.tolist() == [[0], [-1]]
