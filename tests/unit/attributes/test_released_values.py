"""Tests of the numbers and dates of released texts: what a text says counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.reader import LabelReader
from sugarbush.attributes.released_values import released_values
from sugarbush.data.schema import Schema, schema_of

STARS: dict[str, Any] = {
    "name": "stars", "column": "s", "type": "integer", "bins": [2, 4], "span": [1, 5],
}  # fmt: skip


def schema(*more: dict[str, Any], rules: tuple[str, ...] = ()) -> Schema:
    fields = {"subject": "reviews", "rules": list(rules), "attributes": [STARS, *more]}
    return schema_of(fields, source="x")


def stars(
    text: str, *, code: int, requested: float = np.nan, number: int = 7
) -> tuple[float, bool]:
    values, broken = released_values(
        schema(),
        [text],
        np.array([[code]]),
        requested=np.array([[requested]]),
        ids=np.array([number]),
    )
    return float(values[0, 0]), bool(broken[0])


def test_a_text_with_one_number_of_the_bin_has_this_number() -> None:
    for number in range(50):  # a drawn value would be 2 or 3 by chance
        assert stars("I give two stars.", code=1, number=number) == (2, False)
        assert stars("3 of 5 stars", code=1, number=number) == (3, False)


def test_the_requested_value_counts_among_several_numbers_and_without_one() -> None:
    assert stars("2 or 3 stars", code=1, requested=3) == (3, False)
    assert stars("It was fine.", code=1, requested=3) == (3, False)
    assert stars("Just 2 stars", code=1, requested=3) == (2, False), "the text decides"


def test_texts_that_share_a_request_do_not_share_its_values() -> None:
    """Texts that were varied from one text have its requested row."""
    fee = {"name": "fee", "column": "f", "type": "number", "bins": [50], "span": [0, 100]}
    requested = np.array([[3, 44.23]] * 39 + [[3, 12.5]])
    texts = ["It was fine."] * 38 + ["It was fine, for 44.23."] + ["It was fine."]
    values, _ = released_values(
        schema(fee), texts, np.array([[1, 0]] * 40), requested=requested, ids=np.arange(40)
    )
    assert values[0].tolist() == [3, 44.23], "the first one has the values of the prompt"
    assert values[38, 1] == 44.23, "what a text says counts"
    assert values[39].tolist() == [3, 12.5], "another request"
    others = values[1:38, 1]
    assert len(set(others)) > 30 and (others < 50).all() and 44.23 not in others


def test_a_requested_value_of_another_bin_is_not_released() -> None:
    drawn = {stars("It was fine.", code=0, requested=3, number=n)[0] for n in range(20)}
    assert drawn == {1}
    drawn = {stars("It was fine.", code=2, requested=3, number=n)[0] for n in range(50)}
    assert drawn == {4, 5}


def test_no_bin_is_no_value() -> None:
    for code in (-1, 3):
        value, broken = stars("I give two stars.", code=code, requested=2)
        assert np.isnan(value) and not broken


def test_equal_arguments_give_equal_values_and_other_texts_do_not_matter() -> None:
    own = schema()
    codes = np.ones((40, 1), dtype=int)
    ids, nothing = np.arange(40), np.full((40, 1), np.nan)

    def drawn(rows: NDArray[np.int64]) -> list[float]:
        values, _ = released_values(
            own, ["fine"] * len(rows), codes[rows], requested=nothing[rows], ids=ids[rows]
        )
        return [float(value) for value in values[:, 0]]

    whole = drawn(np.arange(40))
    assert drawn(np.arange(40)) == whole and drawn(np.arange(10, 20)) == whole[10:20]
    assert {2.0, 3.0} == set(whole)


def test_a_number_of_a_text_is_rounded_before_it_is_compared_with_the_bin() -> None:
    price: dict[str, Any] = {
        "name": "price", "column": "p", "type": "number", "bins": [20], "span": [0, 50],
    }  # fmt: skip
    values, _ = released_values(
        schema_of({"subject": "x", "attributes": [price]}, source="x"),
        ["19.999 dollars", "19.999 dollars", "7.251 dollars"],
        np.array([[0], [1], [0]]),
        requested=np.full((3, 1), np.nan),
        ids=np.arange(3),
    )
    assert values[0, 0] < 20 and values[1:, 0].tolist() == [20.0, 7.25]


def test_a_broken_rule_is_repaired_by_new_values_but_not_by_another_text() -> None:
    least: dict[str, Any] = {
        "name": "least", "column": "m", "type": "integer", "bins": [2, 4], "span": [1, 5],
    }  # fmt: skip
    own = schema(least, rules=("stars >= least",))
    texts = ["fine", "2 stars", "2 stars"]
    codes = np.array([[1, 1], [1, 1], [1, 2]])
    requested = np.array([[2.0, 3.0], [np.nan, 3.0], [np.nan, 4.0]])
    for number in range(20):
        values, broken = released_values(
            own, texts, codes, requested=requested, ids=np.arange(3) + 3 * number
        )
        assert broken.tolist() == [False, False, True], "2 stars are never at least 4"
        assert values[0, 0] >= values[0, 1]
        assert values[1].tolist() == [2, 2]


def test_a_text_that_states_the_requested_value_has_its_bin() -> None:
    """The classifier sees no numbers, so it reads the bin that most examples have."""
    words = ["lamp", "chair", "desk"]
    examples = [f"fine {word} {n}" for n in range(8) for word in words]
    codes = np.array([[n % 3] for n, _ in enumerate(examples)])

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [[word in text for word in words] for text in texts]
        return np.array(rows, dtype=np.float32)

    reader = LabelReader(schema=schema(), embed=embed, examples=examples, codes=codes)
    texts = ["a lamp, 5 stars", "a lamp, many stars"] * 20
    requested, values = np.full((40, 1), 2), np.full((40, 1), 5.0)
    labels = reader.read(texts, requested, values)
    assert labels.codes[:, 0].tolist() == [2, 0] * 20
    assert (labels.confidence[::2, 0] > 0.9).all()
    old = replace(reader, requests_tell=False).read(texts, requested, values)
    assert old.codes[:, 0].tolist() == [0, 0] * 20, "the texts of a pool are older"
