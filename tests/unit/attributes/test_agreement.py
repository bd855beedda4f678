import numpy as np
import pytest
from scipy.stats import binomtest

from sugarbush.attributes.agreement import agreements
from sugarbush.data.schema import Attribute, Schema

SCHEMA = Schema(
    subject="letters",
    attributes=(
        Attribute(name="item", values=("lamp", "chair"), column="item"),
        Attribute(name="mood", values=("angry", "calm"), source="llm"),
    ),
)
CODES = np.array([[0, 0], [0, 1], [0, 1], [0, 2], [0, 0]])


def test_the_share_is_of_labelled_texts_alone() -> None:
    labels = {"mood": ["angry", "angry", "calm", "something else", None]}
    (mood,) = agreements(SCHEMA, CODES, labels)
    assert (mood.attribute, mood.texts, mood.share) == ("mood", 4, 0.75)
    assert mood.commonest == 0.5
    expected = binomtest(3, 4).proportion_ci(0.95, method="wilson")
    assert (mood.low, mood.high) == (expected.low, expected.high)


def test_an_attribute_without_a_label_has_no_figure() -> None:
    assert agreements(SCHEMA, CODES, {"mood": [None] * 5}) == ()
    assert agreements(SCHEMA, np.empty((0, 2), dtype=np.int64), {"mood": []}) == ()


@pytest.mark.parametrize("label", ["lamp", " lamp ", "table"])
def test_labels_are_read_as_the_schema_reads_values(label: str) -> None:
    (item,) = agreements(SCHEMA, CODES[:1], {"item": [label]})
    assert item.share == (1.0 if label != "table" else 0.0)
