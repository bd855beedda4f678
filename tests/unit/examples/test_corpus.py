"""Tests of properties of the records that the grammar of a shop writes, and of their schema."""

import math
from collections import Counter
from itertools import islice

import pytest
import yaml

from sugarbush.data.schema import Schema, load_schema
from sugarbush.examples.corpus import (
    SCHEMA_FILE,
    ExampleRecord,
    example_records,
    example_schema,
)
from sugarbush.examples.data_files import load_yaml

LABELS = {"NAME", "ADDRESS", "PHONE", "ORDER_NUMBER", "TRACKING_NUMBER"}
TENURES = load_yaml(SCHEMA_FILE.with_name("attributes.yaml"))["tenure_months"]
ATTRIBUTES = (
    *("product", "issue", "channel", "sentiment"),
    *("resolution", "region", "priority", "tenure_months"),
)


@pytest.fixture(scope="module")
def corpus() -> list[ExampleRecord]:
    return list(islice(example_records(1), 5600))


@pytest.fixture(scope="module")
def schema() -> Schema:
    return load_schema(SCHEMA_FILE)


def tenure_label(months: int) -> str:
    (label,) = (name for name, bin in TENURES.items() if bin["from"] <= months <= bin["to"])
    return label


def _value(record: ExampleRecord, name: str) -> str:
    return tenure_label(record[name]) if name == "tenure_months" else str(record[name])


def _information(records: list[ExampleRecord], a: str, b: str) -> float:
    """Return the mutual information of two attributes, in nats."""
    n = len(records)
    both = Counter((_value(r, a), _value(r, b)) for r in records)
    of_a, of_b = (Counter(_value(r, name) for r in records) for name in (a, b))
    return sum(c / n * math.log(c * n / (of_a[x] * of_b[y])) for (x, y), c in both.items())


@pytest.mark.slow
def test_no_text_and_no_id_occurs_twice(corpus: list[ExampleRecord]) -> None:
    assert len({r["text"] for r in corpus}) == len({r["id"] for r in corpus}) == 5600


def test_texts_are_short_enough_to_embed_whole(corpus: list[ExampleRecord]) -> None:
    words = [len(r["text"].split()) for r in corpus]
    assert 60 <= sum(words) / len(words) <= 76
    assert max(words) < 130


def test_spans_are_at_their_values_and_every_label_is_frequent(corpus: list[ExampleRecord]) -> None:
    labels = Counter()
    for record in corpus:
        for span in record["spans"]:
            assert record["text"][span["start"] : span["end"]] == span["value"]
            labels[span["label"]] += 1
        assert {"NAME", "ORDER_NUMBER"} <= {span["label"] for span in record["spans"]}
    assert set(labels) == LABELS
    assert min(labels.values()) > 500


def test_every_code_in_a_text_is_a_span(corpus: list[ExampleRecord]) -> None:
    """Dockets, waybills and telephone numbers have fixed forms, so patterns find all of them.

    Each must be a labelled span.
    """
    import re

    form = re.compile(r"FH-\d{3}-\d{5}|WB \d\d \d{4} \d\d[A-Z]|0555 01\d \d{4}")
    for record in corpus:
        found = form.findall(record["text"])
        marked = [s["value"] for s in record["spans"] if form.fullmatch(s["value"])]
        assert found == marked


def test_margins_are_skewed_and_some_values_are_rare(corpus: list[ExampleRecord]) -> None:
    products = Counter(r["product"] for r in corpus)
    assert products.most_common(1)[0][1] > 0.2 * len(corpus)
    assert 0 < min(products.values()) < 0.01 * len(corpus)


@pytest.mark.parametrize(
    ("a", "b", "least"),
    [
        ("region", "product", 0.1),
        ("product", "issue", 0.2),
        ("tenure_months", "channel", 0.1),
        ("issue", "sentiment", 0.05),
        ("sentiment", "priority", 0.1),
        ("issue", "resolution", 0.3),
    ],
)
def test_dependent_attributes_have_mutual_information(
    corpus: list[ExampleRecord], a: str, b: str, least: float
) -> None:
    # If two attributes of these sizes were independent, 5,600 records would give less than 0.01
    # nats. The bias of the estimate is (cells - 1) / 2n, at most 72 / 11,200, and its standard
    # deviation is smaller.
    assert _information(corpus, a, b) > least


def test_independent_attributes_have_no_mutual_information(corpus: list[ExampleRecord]) -> None:
    assert _information(corpus, "region", "tenure_months") < 0.01


def test_the_schema_has_all_eight_attributes_and_every_value(
    schema: Schema, corpus: list[ExampleRecord]
) -> None:
    assert schema.names == ATTRIBUTES
    for attribute in schema.attributes:
        bucket = len(attribute.domain) - 1
        codes = {attribute.code(r[attribute.name]) for r in corpus}
        others = {bucket} if attribute.bins is None else set()
        assert not codes & others
        assert len(codes) >= (len(attribute.values) or len(TENURES)) - 1


def test_the_schema_has_every_source_of_an_attribute(schema: Schema) -> None:
    sources = Counter(
        "bins" if a.bins else "column" if a.column else "keywords" if a.keywords else "zero_shot"
        for a in schema.attributes
    )
    assert sources == {"column": 5, "bins": 1, "keywords": 1, "zero_shot": 1}


def test_keywords_find_the_resolution_of_every_text(
    schema: Schema, corpus: list[ExampleRecord]
) -> None:
    keywords = schema.attribute("resolution").keywords
    assert keywords is not None
    for record in corpus:
        text = record["text"].lower()
        found = [value for value, words in keywords.items() if any(word in text for word in words)]
        assert found == [record["resolution"]]


def test_tenures_are_in_the_bins_of_the_schema(schema: Schema, corpus: list[ExampleRecord]) -> None:
    attribute = schema.attribute("tenure_months")
    for record in corpus[:300]:
        months = record["tenure_months"]
        assert attribute.domain[attribute.code(months)] == tenure_label(months)


def test_the_schema_file_begins_with_a_comment() -> None:
    text = SCHEMA_FILE.read_text()
    assert text.startswith("#")
    assert set(yaml.safe_load(text)) == {"subject", "attributes"}
    assert yaml.safe_load(text) == example_schema()


def test_a_record_does_not_depend_on_the_number_of_records() -> None:
    few = list(islice(example_records(1), 20))
    assert few == list(islice(example_records(1), 40))[:20]
    assert few != list(islice(example_records(2), 20))
