"""Tests that a history depends on one person alone, and that a person is one record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.data.formats.rows import Row
from sugarbush.data.records import usable
from sugarbush.data.schema import Schema
from sugarbush.data.shapes.history import History
from sugarbush.data.split import Splitter
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.pipeline.opening import open_project
from sugarbush.preparation.corpus import SplitCorpus
from sugarbush.privacy.fingerprint import (
    FingerprintBuilder,
    is_same_dataset,
    make_dataset_fingerprint,
)
from sugarbush.privacy.unit import Unit
from tests.settings import params

WORDS = ["lamp", "late", "Record: broken", "Record 1: two", "> Record: x", "sofa\nRecord: cable"]
HISTORY = History(person="who", by="day", most=3)
SCHEMA = Schema.model_validate(
    {
        "subject": "letters",
        "text": {"history": {"person": "who", "by": "day", "most": 3}},
        "attributes": [{"name": "records", "column": "records", "values": ["1", "2", "3"]}],
    }
)
spellings = st.sampled_from(["", " ", "\u200b"])
cells = st.fixed_dictionaries(
    {
        "who": st.tuples(st.integers(0, 5), spellings).map(lambda pair: f"ana {pair[0]}{pair[1]}"),
        "day": st.sampled_from(["2024-01-01", "2024-01-02", "2024-02-01", "", "no date"]),
        "text": st.sampled_from([*WORDS, ""]),
    }
)
corpora = st.lists(cells, min_size=1, max_size=40)


def rows_of(corpus: list[dict[str, Any]]) -> list[Row]:
    return [Row(number, fields) for number, fields in enumerate(corpus, start=1)]


def grouped(rows: list[Row]) -> list[Row]:
    return [row for row in HISTORY.grouped(rows) if not row.problem]


def is_of(fields: dict[str, Any], who: int) -> bool:
    return str(fields["who"]).startswith(f"ana {who}")


@settings(max_examples=150)
@given(corpora, st.integers(0, 5))
def test_a_person_is_one_row_and_changes_no_other_row(
    corpus: list[dict[str, Any]], who: int
) -> None:
    rows = rows_of(corpus)
    with_them = grouped(rows)
    without = grouped([row for row in rows if not is_of(row.fields, who)])
    assert [row for row in with_them if not is_of(row.fields, who)] == without
    assert len(with_them) - len(without) <= 1


@settings(max_examples=150)
@given(corpora, st.randoms())
def test_the_place_of_a_person_in_the_file_does_not_change_their_text(
    corpus: list[dict[str, Any]], random: Any
) -> None:
    """Only the order of a person's own rows counts, and only for equal dates."""
    rows = rows_of(corpus)
    keys = {who: random.random() for who in range(6)}
    moved = sorted(rows, key=lambda row: keys[int(row.fields["who"][4])])

    def texts(given: list[Row]) -> set[str]:
        return {HISTORY.text_of(row.fields) for row in grouped(given)}

    assert texts(rows) == texts(moved)


@settings(max_examples=150)
@given(corpora)
def test_a_history_has_the_earliest_records_in_order_and_comes_back_as_it_was(
    corpus: list[dict[str, Any]],
) -> None:
    usable = [f for f in corpus if f["text"] and f["day"].startswith("2024")]
    for row in grouped(rows_of(corpus)):
        own = [fields for fields in usable if is_of(fields, int(row.fields["who"][4]))]
        expected = sorted(own, key=lambda fields: str(fields["day"]))[:3]  # a stable sort
        assert row.fields["text"] == [fields["text"] for fields in expected]
        assert row.fields["records"] == len(expected)
        text = HISTORY.text_of(row.fields)
        assert HISTORY.parse(text) == {"text": row.fields["text"]}
        assert HISTORY.value_in(text, "records") == len(expected)


class _Letters:
    """An encoder of known vectors: each text has one of a few directions."""

    identity, dim = "letters", 3

    def embed(self, texts: list[str], *, max_tokens: int) -> np.ndarray:
        rows = [[len(text) % 5 - 2, text.count("e") + 0.1, len(text) % 3 - 1] for text in texts]
        return np.array(rows, dtype=np.float32)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    made = Encoder(EmbeddingSettings(), cache=None, shape=HISTORY)
    made.__dict__["_plugin"] = _Letters()
    return made


@settings(max_examples=100)
@given(corpora, st.integers(0, 5))
def test_the_vector_of_a_person_depends_on_this_person_alone_and_has_length_1(
    encoder: Encoder, corpus: list[dict[str, Any]], who: int
) -> None:
    def vectors(rows: list[Row]) -> dict[str, bytes]:
        people = grouped(rows)
        embedded = encoder.encode([HISTORY.text_of(row.fields) for row in people])
        assert (np.linalg.norm(embedded.astype(np.float64), axis=1) <= 1 + 1e-6).all()
        named = (str(row.fields["who"])[:5] for row in people)
        return {name: row.tobytes() for name, row in zip(named, embedded, strict=True)}

    rows = rows_of(corpus)
    with_them = vectors(rows)
    without = vectors([row for row in rows[::-1] if not is_of(row.fields, who)][::-1])
    with_them.pop(f"ana {who}", None)
    assert with_them == without


def test_the_vector_of_a_history_is_the_mean_of_the_vectors_of_its_records(
    encoder: Encoder,
) -> None:
    one, two, both = encoder.encode(
        ["Record: a lamp", "Record: sofa", "Record: a lamp\nRecord: sofa"]
    ).astype(np.float64)
    mean = (one + two) / 2
    np.testing.assert_allclose(both, mean / np.linalg.norm(mean), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=60), st.integers(0, 30))
def test_a_person_changes_one_record_of_one_split(
    tmp_path_factory: pytest.TempPathFactory, more: list[int], who: int
) -> None:
    """All the records of a person are one record of the corpus, so the sensitivity is that of one
    record."""
    owners = [*range(31), *more]
    own = params(
        prepare__min_records=2,
        prepare__user_column="who",
        prepare__bad_rows="drop",
        privacy__unit=Unit.USER.value,
    )
    state = tmp_path_factory.getbasetemp() / "histories"
    project = open_project(state, settings=own, schema=SCHEMA, state=state)
    rows = rows_of(
        [
            {"who": f"ana {owner:02}", "day": f"2024-01-{i % 28 + 1:02}", "text": f"letter {i}"}
            for i, owner in enumerate(owners)
        ]
    )

    def records(given: list[Row]) -> set[tuple[str, str, tuple[Any, ...]]]:
        corpus = SplitCorpus(
            lambda: [0],
            lambda _: [("f", given[:50]), ("f", given[50:])],
            project,
            donated=(),
            source="f",
            setting="prepare.file",
        )
        found = [(s, r.text, r.raw) for split in corpus.batches() for s in split for r in split[s]]
        assert len(found) == len(set(found)) == len({row.fields["who"] for row in given})
        return set(found)

    with_them = records(rows)
    without = records([row for row in rows if row.fields["who"] != f"ana {who:02}"])
    assert without <= with_them
    assert len(with_them - without) == 1


def test_a_corpus_of_histories_is_recognised_as_the_corpus_of_its_records() -> None:
    """Also if the people have other names."""
    rows = rows_of(
        [
            {"who": f"ana {i % 40}", "day": "2024-01-01", "text": f"letter {i} of the lamp"}
            for i in range(120)
        ]
    )
    key, builder = bytes(32), FingerprintBuilder(key=bytes(32))
    own = params(prepare__min_records=2, prepare__user_column="who", privacy__unit="user").prepare
    records, _ = usable(grouped(rows), own, SCHEMA, source="f", setting="prepare.file")
    Splitter(own, public=(), fingerprint=builder, shape=HISTORY).split(records, source="f")
    single = [str(row.fields["text"]) for row in rows]
    stored = make_dataset_fingerprint(single, key=key, users=map(str, range(40)))
    assert is_same_dataset(builder.values(), stored)
