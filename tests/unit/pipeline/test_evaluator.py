"""The features of a text in the metrics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.private_store import RealTexts
from sugarbush.data.schema import Attribute, Schema
from sugarbush.pipeline.evaluator import ENCODER, LATENT, SECOND, Encoders, train_sample_reader
from tests.settings import params

SCHEMA = Schema(
    subject="letters",
    attributes=(Attribute(name="kind", column="kind", values=("lamp", "money")),),
)
TEXTS = ("the lamp is broken", "send the money back", "the lamp is dim", "the money is gone") * 3
CODES = np.array([[0], [1], [0], [1]] * 3)


def by_words(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([["lamp" in text, "money" in text] for text in texts], dtype=np.float32)


def by_length(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([[len(text), 1.0, 0.0] for text in texts], dtype=np.float32)


def read(second: bool, texts: Sequence[str]) -> tuple[dict[str, tuple[int, ...]], list[int]]:
    reader = train_sample_reader(
        RealTexts(texts=TEXTS, codes=CODES),
        schema=SCHEMA,
        embed=by_words,
        zero_shot={},
        params=params(),
    )
    encoders = Encoders(main=by_words, second=by_length if second else None)
    sample = reader.read(texts, by=encoders)
    shapes = {space: rows.shape for space, rows in sample.features.items()}
    return shapes, sample.codes[:, 0].tolist()


def test_a_second_encoder_is_one_more_space_and_reads_no_attribute() -> None:
    texts = ("a new lamp", "your money")
    shapes, codes = read(True, texts)
    assert set(shapes) == {ENCODER, LATENT, SECOND}
    assert shapes[SECOND] == (2, 3)
    assert codes == read(False, texts)[1] == [0, 1]


def test_without_one_there_are_two_spaces() -> None:
    assert set(read(False, ("a lamp",))[0]) == {ENCODER, LATENT}
