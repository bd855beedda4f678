"""Tests of the features that metrics use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.private_store import RealTexts
from sugarbush.data.schema import Attribute, Schema
from sugarbush.evaluation.interface import MetricSettings, Sample
from sugarbush.quality.real_texts import ENCODER, LATENT, Evaluator, train_sample_reader
from tests.settings import params

SCHEMA = Schema(
    subject="letters",
    attributes=(Attribute(name="kind", column="kind", values=("lamp", "money")),),
)
TEXTS = ("the lamp is broken", "send the money back", "the lamp is dim", "the money is gone") * 3
CODES = np.array([[0], [1], [0], [1]] * 3)


def by_words(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([["lamp" in text, "money" in text] for text in texts], dtype=np.float32)


def test_texts_have_two_spaces_and_a_classifier_reads_their_columns() -> None:
    read = train_sample_reader(
        RealTexts(texts=TEXTS, codes=CODES),
        schema=SCHEMA,
        embed=by_words,
        zero_shot={},
        params=params(),
    )
    sample = read(("a new lamp", "your money"), by_words)
    assert set(sample.features) == {ENCODER, LATENT}
    assert sample.codes[:, 0].tolist() == [0, 1]


def test_classifiers_are_graded_by_the_labels_of_the_records_and_not_by_what_a_reader_sees() -> (
    None
):
    """The reader of texts takes every record for the other kind."""
    codes = np.array([[0], [1]] * 20)
    features = {ENCODER: np.eye(2)[codes[:, 0]]}
    texts = ("a lamp", "my money") * 20
    evaluator = Evaluator(
        heldout=Sample(texts=texts, features=features, codes=1 - codes),
        heldout_codes=codes,
        train=Sample(texts=texts, features=features, codes=codes),
        donated=(),
        public=(),
        settings=MetricSettings(domain={"kind": 2}, clusters=2, resamples=0, seed=1),
    )
    learned = Sample(texts=texts, features=features, codes=codes)
    found = {v.metric: v.value for v in evaluator.downstream(learned, method="maple")}
    assert found["accuracy"] == found["macro_f1"] == 1.0
