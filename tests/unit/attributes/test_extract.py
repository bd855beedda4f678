from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.attributes.extract import extract_codes
from sugarbush.attributes.zero_shot import zero_shot_readers
from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import InvariantError
from tests.settings import params

SCHEMA = Schema(
    subject="letters",
    attributes=(
        Attribute(name="stars", column="stars", values=("1", "2")),
        Attribute.model_validate(
            {
                "name": "topic",
                "values": ["refund", "card"],
                "keywords": {"refund": ["refund", "money back"], "card": ["credit card", "card"]},
            }
        ),
        Attribute.model_validate(
            {"name": "mood", "values": ["up", "down"], "zero_shot": {"up": "up", "down": "down"}}
        ),
    ),
)
PARAMS = params().extract_metadata
DIRECTIONS = {"up": (1.0, 0.0), "down": (0.0, 1.0), "": (-1.0, -1.0)}


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    rows = np.array(
        [next(v for word, v in DIRECTIONS.items() if word in text) for text in texts], np.float32
    )
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def codes(texts: Sequence[str], stars: Sequence[Any] | None = None) -> list[list[int]]:
    found = extract_codes(
        SCHEMA, texts, {"stars": stars if stars is not None else [None] * len(texts)},
        embed=embed, readers=zero_shot_readers(SCHEMA, embed=embed),
        params=PARAMS,
    )  # fmt: skip
    return found.tolist()


def test_every_source_fills_its_own_column() -> None:
    assert codes(["up: a REFUND please", "down: my credit card"], ["2", 1.0]) == [
        [1, 0, 0],
        [0, 1, 1],
    ]


def test_what_no_source_can_tell_falls_into_the_bucket() -> None:
    assert codes(["nothing here"], ["many"]) == [[2, 2, 2]]


def test_keywords_are_whole_words_and_the_longest_counts_once() -> None:
    assert codes(["up cards refunded"])[0][1] == 2
    assert codes(["up credit card or money  back or refund"])[0][1] == 0
    # Both values have one match, so the value that is first in the schema is used.
    assert codes(["up credit card or refund"])[0][1] == 0


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from(["up refund", "down card", "refund card", "?", ""]), min_size=1, max_size=8
    ),
    st.sampled_from(["up card card", "down money back", "x"]),
)
def test_a_records_row_depends_on_that_record_alone(texts: list[str], more: str) -> None:
    alone = [codes([text])[0] for text in texts]
    assert codes([*texts, more])[:-1] == alone
    assert codes([more, *texts])[1:] == alone


def test_no_record_gives_no_row() -> None:
    assert codes([]) == []


def test_a_missing_column_is_our_fault() -> None:
    with pytest.raises(InvariantError, match="stars"):
        extract_codes(SCHEMA, ["a"], {}, embed=embed, readers={}, params=PARAMS)
