"""Tests that a drafted schema comes from donated examples alone and can be read from its file."""

import numpy as np
import pytest

from sugarbush.attributes.draft import draft_schema, schema_yaml
from sugarbush.data.schema import load_schema
from sugarbush.errors import SchemaError

ABOUT = {
    "refund": ["please send my refund, the refund is late", "where is the refund you promised"],
    "parcel": ["my parcel never came, the courier lost the parcel", "courier left a wet parcel"],
    "password": ["I forgot my password", "the password reset mail for my account never comes"],
}
TEXTS = [f"{text} ({n})" for n in range(4) for lines in ABOUT.values() for text in lines]


def embed(texts):
    """Return vectors with one direction per subject, plus a small component by text."""
    rows = np.array(
        [
            [3.0 * (word in text) for word in ABOUT] + [len(text) % 3 / 200, len(text) % 5 / 200]
            for text in texts
        ],
        dtype=np.float32,
    )
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def draft(texts=TEXTS, **columns):
    return draft_schema(texts, subject="support mail", columns=columns, embed=embed, seed=1)


def test_topics_are_the_clusters_of_the_texts_described_by_their_own_words():
    topic = draft().attribute("topic")
    assert len(topic.values) == 3
    assert {word for value in topic.values for word in ABOUT if word in value} == set(ABOUT)
    for value in topic.values:
        assert len(topic.zero_shot[value]) >= 3


def test_words_with_an_apostrophe_are_stop_words_without_a_warning(recwarn):
    texts = [text.replace("the", "don't") for text in TEXTS]
    assert not any("don" in value.split() for value in draft(texts).attribute("topic").values)
    assert not recwarn.list


def test_columns_become_attributes_by_what_they_hold():
    count = len(TEXTS)
    schema = draft(
        Channel=["mail", "chat", "chat"] * (count // 3),
        amount=[f"{n * 10}" for n in range(count)],
        id=[f"id-{n}" for n in range(count)],
        constant=["x"] * count,
    )
    assert schema.names == ("channel", "amount", "topic")
    assert schema.attribute("channel").values == ("chat", "mail")
    assert schema.attribute("channel").column == "Channel"
    assert schema.attribute("amount").bins == (58.0, 120.0, 170.0)


def test_no_value_of_an_id_or_text_column_gets_into_the_draft():
    ids = [f"secret-{n}" for n in range(len(TEXTS))]
    assert "secret" not in schema_yaml(draft(id=ids, note=ids))


def test_a_column_named_as_another_attribute_keeps_both():
    schema = draft(topic=["a", "b"] * (len(TEXTS) // 2))
    assert schema.names == ("topic", "topic_2")
    assert draft(round=["a", "b"] * (len(TEXTS) // 2)).names == ("round_2", "topic")


def test_the_file_reads_back_as_the_same_schema(tmp_path):
    schema = draft(kind=["other", "b", "c"] * (len(TEXTS) // 3))
    path = tmp_path / "schema.yaml"
    path.write_text(schema_yaml(schema), encoding="utf-8")
    assert load_schema(path) == schema
    assert path.read_text().startswith(
        "# This draft was made from the subject, the column names and"
    )
    assert "# No private text or value was read." in path.read_text()


def test_equal_examples_and_seed_give_an_equal_draft():
    assert schema_yaml(draft()) == schema_yaml(draft())


def test_too_little_to_go_by_is_said():
    with pytest.raises(SchemaError, match="too few"):
        draft(["one", "two"])
    assert draft(["one", "two", "three", "four"], k=["a", "b", "a", "b"]).names == ("k",)


def test_a_draft_asks_what_an_unclear_value_means(tmp_path):
    """The comment becomes valid descriptions if its mark is removed."""
    path = tmp_path / "schema.yaml"
    gear = ["BKG", "n/a", "lamps: all", "0", "lamp_chair"] * (len(TEXTS) // 5 + 1)
    written = schema_yaml(draft(gear=gear[: len(TEXTS)], mood=["glad", "sad"] * (len(TEXTS) // 2)))
    assert written.count("# descriptions:") == 1
    path.write_text(written)
    drafted = load_schema(path)
    path.write_text(written.replace("# descriptions:", "descriptions:"))
    described = load_schema(path).attribute("gear").descriptions
    assert set(described) <= {"BKG", "n/a", "0", "lamp_chair"}
    assert len(described) == 3
    assert load_schema(path).attribute("gear").values == drafted.attribute("gear").values
