"""Tests that an attribute with `read_from` is read from its part of the text alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from sugarbush.attributes.donated import read_donated_codes
from sugarbush.attributes.extract import extract_codes
from sugarbush.attributes.reader import LabelReader
from sugarbush.attributes.released_values import released_values
from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.attributes.zero_shot import zero_shot_readers
from sugarbush.data.private_store import LABEL
from sugarbush.data.schema import Schema, schema_of
from sugarbush.errors import SchemaError

VALUES = ("lamp", "chair")
CHAT = {"conversation": {"roles": ["customer", "agent"]}}
# The customer names one thing, and the agent names the other one twice.
TEXTS = (
    "Customer: The lamp broke.\nAgent: A chair, this chair?",
    "Customer: The chair broke.\nAgent: A lamp, this lamp?",
    "Agent: A lamp, this lamp?",
)
PARAMS = ExtractMetadataSettings()


def schema(**source: Any) -> Schema:
    attribute = {"name": "thing", "values": VALUES, "read_from": "customer", **source}
    if "values" in source and source["values"] is None:
        del attribute["values"]
    return Schema.model_validate({"subject": "chats", "text": CHAT, "attributes": [attribute]})


KEYWORDS = schema(keywords={value: [value] for value in VALUES})
ZERO_SHOT = schema(zero_shot={value: [value] for value in VALUES})


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Count the things in each text."""
    counted = [[text.count(value) + 0.01 for value in VALUES] for text in texts]
    found = np.array(counted, dtype=np.float32).reshape(len(texts), len(VALUES))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def codes_of(own: Schema, texts: Sequence[str] = TEXTS) -> list[int]:
    readers = zero_shot_readers(own, embed=embed)
    found = extract_codes(own, texts, {}, embed=embed, readers=readers, params=PARAMS)
    return [int(code) for code in found[:, 0]]


def test_keywords_count_in_the_part_alone() -> None:
    assert codes_of(KEYWORDS) == [0, 1, 2]


def test_descriptions_are_compared_with_the_part_alone() -> None:
    assert codes_of(ZERO_SHOT) == [0, 1, 2], "a text without the part has no listed value"
    assert codes_of(ZERO_SHOT, ()) == []
    assert codes_of(ZERO_SHOT, ["lamp without a label"]) == [2]


@pytest.mark.parametrize("own", [KEYWORDS, ZERO_SHOT])
def test_a_record_is_read_alone(own: Schema) -> None:
    assert codes_of(own) == [codes_of(own, [text])[0] for text in TEXTS]


@pytest.mark.parametrize("own", [KEYWORDS, ZERO_SHOT])
def test_released_texts_are_read_as_the_records_are(own: Schema) -> None:
    readers = zero_shot_readers(own, embed=embed)
    reader = LabelReader(schema=own, embed=embed, readers=readers)
    found = reader.read(TEXTS, np.array([[1], [0], [0]]))
    assert found.codes[:, 0].tolist() == codes_of(own)


def test_the_classifier_learns_from_the_part_and_reads_the_part() -> None:
    own = schema(column="thing")
    taught = np.arange(30) % 2
    examples = [f"{TEXTS[code]} {'again ' * number}" for number, code in enumerate(taught)]
    reader = LabelReader(
        schema=own, embed=embed, examples=examples, codes=taught[:, None], requests_tell=False
    )
    # The agents of these texts say the opposite of what the agents of the examples say.
    texts = [
        "Customer: lamp\nAgent: lamp lamp lamp", "Customer: chair\nAgent: chair chair chair",
    ]  # fmt: skip
    assert reader.read(texts, np.array([[-1], [-1]])).codes[:, 0].tolist() == [0, 1]


def test_the_agreement_with_donated_labels_is_that_of_the_part() -> None:
    frame = pd.DataFrame({"id": list("ab"), "text": TEXTS[:2], LABEL + "thing": VALUES})
    for own in (KEYWORDS, ZERO_SHOT):
        found = read_donated_codes(frame, schema=own, embed=embed, labeller=None, settings=PARAMS)
        assert found.codes[:, 0].tolist() == [0, 1]
        assert [agreement.share for agreement in found.agreements] == [1.0]


def test_a_number_is_the_one_that_the_part_says() -> None:
    own = schema(column="stars", values=None, bins=[3], type="integer", span=[1, 5])
    values, _ = released_values(
        own,
        ["Customer: I give 4 stars.\nAgent: Only 5?"],
        np.array([[1]]),
        requested=np.full((1, 1), np.nan),
        ids=np.array([7]),
    )
    assert values.tolist() == [[4.0]]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"read_from": "boss"}, "must name a section of the text: customer, agent"),
        ({"source": "llm", "keywords": None}, "needs another source than llm"),
    ],
)
def test_a_part_that_cannot_be_read_is_refused(changes: dict[str, Any], says: str) -> None:
    fields = {**KEYWORDS.attributes[0].model_dump(), **changes}
    with pytest.raises(SchemaError, match=says):
        schema_of({"subject": "chats", "text": CHAT, "attributes": [fields]}, source="x")


def test_a_part_needs_a_shape_and_a_value_outside_the_record() -> None:
    attribute = KEYWORDS.attributes[0].model_dump()
    with pytest.raises(SchemaError, match="each text is one string"):
        schema_of({"subject": "chats", "attributes": [attribute]}, source="x")
    record = {"type": "object", "properties": {"note": {"type": "string"}}}
    inside = {"name": "note", "column": "note", "values": ["a"], "read_from": "note"}
    with pytest.raises(SchemaError, match="the record contains the value"):
        schema_of(
            {"subject": "x", "text": {"json_schema": record}, "attributes": [inside]}, source="x"
        )
    plain = schema_of({"subject": "x", "attributes": [{**attribute, "read_from": None}]}, source="")
    (fields,) = plain.model_dump()["attributes"]
    assert "read_from" not in fields, "cache keys of other schemas stay as they are"
