"""Tests of the embedded example: what its files promise, and that nobody real is in them."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from sugarbush.data.schema import load_schema
from sugarbush.examples.embedded import FOLDER, schema_files, write_example

KINDS = ("corpus", "pool", "donated")
LABELS = {"NAME", "PHONE", "ADDRESS", "DATE_OF_BIRTH"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    write_example(folder)
    return folder


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def words(text: str) -> str:
    return re.sub(r"[^a-z ]", "", text.lower())


def test_the_example_is_written_whole_and_below_a_megabyte(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {path.name for path in FOLDER.iterdir()}
    assert set(schema_files()) == {"schema.yaml", "conversations.schema.yaml"}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000


@pytest.mark.parametrize("prefix", ["", "conversations"])
def test_no_text_occurs_twice_in_the_corpus_the_pool_and_the_donated_examples(
    folder: Path, prefix: str
) -> None:
    files = [f"{prefix}.{kind}.jsonl".lstrip(".") for kind in KINDS]
    files = [f.replace("conversations.corpus", "conversations") for f in files]
    texts = {
        file: {words(json.dumps(_content(row))) for row in rows(folder, file)} for file in files
    }
    assert all(len(texts[file]) == len(rows(folder, file)) for file in files)
    assert not any(texts[a] & texts[b] for a, b in combinations(files, 2))


def _content(row: dict[str, Any]) -> Any:
    return row.get("text") or row["messages"]


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("schema.yaml", ("corpus.jsonl", "donated.jsonl")),
        ("conversations.schema.yaml", ("conversations.jsonl", "conversations.donated.jsonl")),
    ],
)
def test_every_value_is_in_the_schema_and_frequent_enough_to_be_learnt(
    folder: Path, schema: str, files: tuple[str, ...]
) -> None:
    for attribute in load_schema(folder / schema).attributes:
        counts = [Counter(row[attribute.name] for row in rows(folder, file)) for file in files]
        assert set().union(*counts) <= set(attribute.values)
        whole = counts[0].total()
        assert all(counts[0][value] > 0.03 * whole for value in attribute.values)
        assert counts[0].most_common(1)[0][1] > 1.5 * min(counts[0].values())


def test_telephone_numbers_are_those_that_nobody_has(folder: Path) -> None:
    for name in sorted(path.name for path in folder.glob("*.jsonl")):
        for row in rows(folder, name):
            for number in re.findall(r"\b\d{3}[- ]\d{4}\b", json.dumps(_content(row))):
                assert number.startswith("555-01"), number


def test_the_donated_messages_have_labelled_secrets_at_their_places(folder: Path) -> None:
    found = [(row["text"], span) for row in rows(folder, "donated.jsonl") for span in row["spans"]]
    assert {span["label"] for _, span in found} <= LABELS
    assert Counter(span["label"] for _, span in found)["NAME"] >= 10
    assert all(text[s["start"] : s["end"]] == s["value"] for text, s in found)


def test_chats_alternate_and_begin_with_the_patient(folder: Path) -> None:
    for name in ("conversations.jsonl", "conversations.pool.jsonl"):
        for row in rows(folder, name):
            roles = [message["role"] for message in row["messages"]]
            assert roles == (["patient", "desk"] * len(roles))[: len(roles)]
