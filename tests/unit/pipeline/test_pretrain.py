"""Tests of the texts on which the tiny model is trained first.

They are public. If there are donated examples, the texts have their style.
"""

import numpy as np
import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.pipeline.stages.pretrain import simulated

SCHEMA = Schema(
    subject="calls to a shop",
    attributes=(
        Attribute(name="product", values=("lamp", "tent"), column="product"),
        Attribute(name="channel", values=("phone", "email"), column="channel"),
    ),
)
EXAMPLES = [
    "Clerk> Zounds, the lamp desk.\nCaller> My lamp is dark.\nClerk> Zounds, a new one comes.",
    "Clerk> Zounds, the tent desk.\nCaller> My tent is wet.\nClerk> Zounds, a new one comes.",
]
CODES = np.array([[0, 0], [1, 0]])


def texts_of(examples: int) -> tuple[tuple[str, ...], np.ndarray]:
    return simulated(SCHEMA, 60, EXAMPLES, CODES, shown=examples)


def test_texts_are_written_after_the_donated_examples_and_are_no_copies() -> None:
    texts, codes = texts_of(1)
    assert codes.shape == (60, 2)
    assert np.mean(["Zounds" in text for text in texts]) > 0.8
    assert not set(texts) & set(EXAMPLES)


@pytest.mark.parametrize(
    ("shown", "given"), [(0, ()), (0, (EXAMPLES, CODES)), (10, ((), CODES[:0]))]
)
def test_without_examples_the_simulator_writes_in_its_own_manner(shown: int, given: tuple) -> None:
    texts, _ = simulated(SCHEMA, 60, *given, shown=shown)
    assert not any("Zounds" in text for text in texts)


def test_the_bucket_is_among_the_codes_and_asked_for_by_no_text() -> None:
    texts, codes = texts_of(0)
    assert {2} < set(codes[:, 0].tolist())
    assert not any("other" in text.split() for text in texts)
