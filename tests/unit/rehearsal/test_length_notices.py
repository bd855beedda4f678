"""Tests of the notices about lengths that contradict an attribute."""

from __future__ import annotations

from typing import Any

import pytest

from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.settings import FirstLength
from sugarbush.rehearsal.length_notices import length_notices


def notices(words: int | tuple[int, ...], name: str, *values: str, **length: Any) -> list[str]:
    attribute = Attribute(name=name, values=values, column=name)
    schema = Schema(subject="calls", attributes=(attribute,))
    return list(length_notices(FirstLength(words=words, **length), schema))


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (20, "turns", "16 to 20"),
        (20, "length", "16-20 turns"),
        ((5, 12), "size", "3 paragraphs"),
        (80, "word_count", "1 to 20"),
        ((30, 80), "size", "up to 10 words"),
    ],
)
def test_a_value_that_no_text_of_the_length_has_is_told(
    words: int | tuple[int, ...], name: str, value: str
) -> None:
    (notice,) = notices(words, name, value)
    assert value in notice
    assert "initialise.length.words" in notice


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (80, "turns", "16 to 20"),
        (80, "stars", "1 to 5"),  # no unit of length
        (80, "words", "60 to 100"),
        ((10, 200), "words", "1 to 20"),
        (20, "turns", "many"),
        (3, "crosswords", "900"),  # a unit is a whole word
    ],
)
def test_other_values_are_not_told(words: int | tuple[int, ...], name: str, value: str) -> None:
    assert not notices(words, name, value)


def test_the_attribute_that_decides_the_length_is_left_out() -> None:
    own = {"attribute": "turns", "words_by_value": {"16 to 20": 200}}
    assert not notices(20, "turns", "16 to 20", **own)
