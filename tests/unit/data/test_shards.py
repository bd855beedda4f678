"""A corpus in shards and batches gives what the same rows in one file give."""

from __future__ import annotations

import gzip
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.data import private_store, reading
from sugarbush.data.formats import arrow_files, text_files
from sugarbush.data.private_store import (
    HELDOUT,
    TRAIN,
    PrivateStore,
    digest_of_file,
    digest_of_frame,
)
from sugarbush.data.reading import Row, column_names, digest_of_files, read_rows
from sugarbush.data.records import usable
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import prepare
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.fingerprint import FingerprintBuilder, make_dataset_fingerprint
from tests.settings import params

ROWS = [
    {"id": f"r{i}", "text": f"Lettre {i} de l'été.\nFin", "topic": "ab"[i % 2], "who": f"u{i % 30}"}
    for i in range(90)
]
KEYWORDS = [{"name": "topic", "values": ["a"], "keywords": {"a": ["a"]}}]
ONE = Schema.model_validate({"subject": "letters", "attributes": KEYWORDS})
WANTED = dict.fromkeys(ROWS[0], "a setting")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    frame, name = pd.DataFrame(rows), path.name
    if name.endswith(".parquet"):
        frame.to_parquet(path, index=False)
        return
    text = (
        frame.to_csv(index=False) if ".csv" in name else frame.to_json(orient="records", lines=True)
    )
    data = text.encode()
    if name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    if name.endswith(".zst"):
        data = pa.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)


def write_shards(folder: Path, suffixes: list[str], size: int = 20) -> None:
    folder.mkdir()
    for number, start in enumerate(range(0, len(ROWS), size)):
        suffix = suffixes[number % len(suffixes)]
        write(folder / f"part-{number:03d}{suffix}", ROWS[start : start + size])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reading, "BATCH_ROWS", 7)
    monkeypatch.setattr(arrow_files, "BATCH_ROWS", 7)
    monkeypatch.setattr(private_store, "_BATCH_ROWS", 7)
    monkeypatch.setattr(private_store, "_CODE_ROWS", 11)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


@pytest.mark.parametrize(
    "suffix", [".csv", ".csv.gz", ".csv.zst", ".jsonl", ".jsonl.gz", ".ndjson.zst", ".parquet"]
)
def test_shards_are_read_in_the_order_of_their_names(tmp_path: Path, suffix: str) -> None:
    write_shards(tmp_path / "parts", [suffix])
    (tmp_path / "parts" / "_SUCCESS").touch()
    found = read_rows(tmp_path / "parts", setting="s", wanted=WANTED)
    assert [row.fields for row in found] == ROWS


@pytest.mark.parametrize(
    "damage", [b"", b"no gzip at all", gzip.compress(b'{"id"' * 99, mtime=0)[:-9]]
)
@pytest.mark.parametrize("suffix", [".jsonl.gz", ".csv.zst"])
def test_a_damaged_compressed_file_is_an_error_with_its_name(
    tmp_path: Path, suffix: str, damage: bytes
) -> None:
    path = tmp_path / f"data{suffix}"
    path.write_bytes(damage)
    with pytest.raises(InputError, match=path.name):
        read_rows(path, setting="s", wanted=WANTED)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.zst"])
def test_a_file_that_is_not_compressed_is_named_when_its_columns_are_read(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"Ada Lane wrote this\n")
    with pytest.raises(InputError, match=f"{name}: cannot be decompressed") as refused:
        column_names(tmp_path / name, required={}, setting="prepare.file")
    assert "Ada" not in str(refused.value)


def test_bytes_that_are_not_utf8_are_named_by_row_and_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", 10)
    good = json.dumps({"text": "été"}, ensure_ascii=False).encode() + b"\n"
    for name, pack in (("data.jsonl", bytes), ("data.jsonl.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(good * 5 + b'{"text": "\xe9t"}\n' + good))
        with pytest.raises(InputError, match=f"line 6: is not UTF-8 at byte {5 * len(good) + 10}"):
            read_rows(tmp_path / name, setting="s", wanted={})


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no file"):
        read_rows(tmp_path, setting="s", wanted={})


def prepared(base: Path, **changes: Any) -> dict[str, Any]:
    """The prepared tables, the fingerprint and the counts of the corpus in `base`."""
    schema = {"subject": "s", "attributes": [{"name": "t", "column": "topic", "values": ["a"]}]}
    (base / "schema.yaml").write_text(json.dumps(schema))
    if "prepare__file" not in changes:
        changes["prepare__file"] = next(p.name for p in base.iterdir() if "corpus" in p.name)
    own = params(
        prepare__schema="schema.yaml",
        prepare__donated=None,
        prepare__id_column="id",
        prepare__min_records=10,
        prepare__exclude_share=0.1,
        privacy__dataset="letters",
        privacy__purpose="benchmark",
        **changes,
    )
    prepare.run(open_project(base, settings=own))
    folder = base / "data/private/prepared"
    tables = {split: pd.read_parquet(folder / f"{split}.parquet") for split in (TRAIN, HELDOUT)}
    others = {
        name: json.loads((folder / name).read_text()) for name in ("sketch.json", "tally.json")
    }
    return {**{split: table.to_dict("list") for split, table in tables.items()}, **others}


BY_USER = {
    "privacy__unit": "user", "privacy__records_per_user": 2, "prepare__user_column": "who"
}  # fmt: skip


@pytest.mark.parametrize("changes", [{}, BY_USER])
def test_shards_are_prepared_as_one_file(tmp_path: Path, changes: dict[str, Any]) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    write(one / "corpus.jsonl", ROWS)
    write_shards(many / "corpus", [".parquet", ".csv.gz", ".jsonl.zst"])
    assert prepared(one, **changes) == prepared(many, **changes)


def test_the_same_id_in_two_shards_is_an_error_that_names_both(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    write(tmp_path / "corpus" / "a.jsonl", ROWS[:40])
    write(tmp_path / "corpus" / "b.jsonl", [*ROWS[40:50], ROWS[3]])
    with pytest.raises(InputError, match=r"a\.jsonl, row 4, and .*b\.jsonl, row 11: have the same"):
        prepared(tmp_path)


def test_the_first_repeated_id_is_named_also_when_it_comes_late(tmp_path: Path) -> None:
    rows = [*ROWS, {**ROWS[85], "text": "another"}, ROWS[2], ROWS[85]]
    write(tmp_path / "corpus.jsonl", rows)
    with pytest.raises(InputError, match=r"corpus\.jsonl, rows 86 and 91: have the same id"):
        prepared(tmp_path)


tables = st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.none() | st.text('ab"/\\]')),
    max_size=30,
)


@settings(max_examples=60)
@given(tables)
def test_the_digest_of_a_file_is_that_of_its_table(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str | None]]
) -> None:
    """A stamp that changed would draw, and charge, everything again."""
    path = tmp_path_factory.getbasetemp() / "table.parquet"
    frame = pd.DataFrame(rows, columns=["text", "raw_a"], dtype="object")
    frame.assign(code=range(len(rows))).to_parquet(path, index=False)
    whole = pd.read_parquet(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_store, "_BATCH_ROWS", 7)
        by_batch = digest_of_file(path, key=b"k").content()
    assert by_batch == digest_of_frame(whole, key=b"k").content()
    texts = digest_of_frame(whole, key=b"k", columns=["text"]).content()
    assert texts == digest_of_frame(frame, key=b"k", columns=["text"]).content()
    if rows:
        longer = pd.concat([frame, frame[-1:]])
        for other in (frame[::-1], frame[1:], longer):
            same = other["text"].tolist() == frame["text"].tolist()
            digest = digest_of_frame(other, key=b"k", columns=["text"]).content()
            assert (digest == texts) == same
        assert digest_of_frame(whole, key=b"l").content() != by_batch


def test_a_fingerprint_does_not_depend_on_batches() -> None:
    texts = [" ".join(f"w{(i * j) % 97}" for j in range(40)) for i in range(2000)]
    ids, users = [f"r{i}" for i in range(2000)], [f"u{i % 700}" for i in range(2000)]
    whole = make_dataset_fingerprint(texts, key=b"k", users=users, ids=ids)
    builder = FingerprintBuilder(key=b"k")
    for start in range(0, 2000, 300):
        rows = slice(start, start + 300)
        builder.add(texts[rows], users=users[rows], ids=ids[rows])
    assert builder.values() == whole


def test_a_store_gives_the_same_shard_by_shard_as_at_once(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", ROWS)
    prepared(tmp_path)
    store = PrivateStore(tmp_path / "data/private")

    def encode(texts: tuple[str, ...]) -> NDArray[np.float32]:
        return np.array([[len(text), sum(map(ord, text))] for text in texts], dtype=np.float32)

    for split in (TRAIN, HELDOUT):
        texts = pd.read_parquet(store.prepared_file(split))["text"]
        shards = store.embeddings(encode, split=split)._per_unit
        by_shard = np.concatenate([shards.read(place) for place in shards.shards])
        assert by_shard.tolist() == encode(tuple(texts)).tolist()
        assert len(shards) == len(texts) > len(shards.read(shards.shards[0]))
        lengths = store.map_records(lambda own: np.array([len(t) for t in own.texts]), split=split)
        assert lengths._per_unit.tolist() == texts.str.len().tolist()
        codes = np.arange(len(texts)).reshape(-1, 1)
        zeros = store.map_records(lambda own: np.zeros((len(own), 1), dtype=np.int8))
        store.save_codes(split, zeros, {"t": 90})
        store.save_codes(split, Private(codes), {"t": 90})
        read = store.codes(["t"], split)._per_unit
        assert read.dtype == np.int8 and read.tolist() == codes.tolist()
        for limit in (None, 5):
            real = store.real_texts(["t"], split=split, limit=limit, seed=3)
            assert list(real.texts) == texts.iloc[real.codes[:, 0]].tolist()
    assert not list(store.folder("embeddings").iterdir())
    shards = store.code_shards(["t"])._per_unit
    assert len(shards.shards) > 1
    assert list(shards.elements()) == store.codes(["t"])._per_unit.tolist()


@pytest.mark.parametrize("kind", [float, int])
def test_a_record_without_an_id_changes_no_other_id(kind: type) -> None:
    """With an empty cell, pandas reads a column of integers as floats."""
    settings = PrepareSettings.model_validate({"id_column": "id", "bad_rows": "drop"})
    rows = [Row(i, {"id": kind(i), "text": f"letter {i}"}) for i in range(1, 9)]
    records, dropped = usable(rows, settings, ONE, source="f", setting="prepare.file")
    assert [record.id for record in records] == [str(i) for i in range(1, 9)]
    assert not dropped


@pytest.mark.parametrize("column", ["id_column", "user_column"])
def test_ids_that_may_be_rounded_are_refused_and_never_dropped(column: str) -> None:
    settings = PrepareSettings.model_validate({column: "n", "bad_rows": "drop"})
    for value, fits in ((2**60, True), (float(2**53 - 1), True), (float(2**53 + 1), False)):
        row = Row(7, {"n": value, "text": "letter"})
        with nullcontext() if fits else pytest.raises(InputError, match="row 7: column 'n' has a"):
            usable([row], settings, ONE, source="f", setting="s")


def test_a_user_whose_name_has_two_encodings_is_one_user() -> None:
    settings = PrepareSettings.model_validate({"user_column": "n"})
    rows = [Row(i, {"n": n, "text": f"letter {i}"}) for i, n in enumerate(["é", "e\u0301 ", "E"])]
    records, _ = usable(rows, settings, ONE, source="f", setting="s")
    assert [record.user for record in records] == ["é", "é", "e"]


def test_a_text_that_moves_to_another_file_changes_the_digest(tmp_path: Path) -> None:
    def digest(first: bytes, second: bytes) -> bytes:
        (tmp_path / "a.csv").write_bytes(first)
        (tmp_path / "b.csv").write_bytes(second)
        return digest_of_files(tmp_path, ["a.csv", "b.csv"], setting="s")

    whole = digest(b"text\none\n", b"two\n")
    assert digest(b"text\n", b"one\ntwo\n") != whole
    assert digest(b"text\none\ntwo\n", b"") != whole
    assert digest(b"text\none\n", b"two\n") == whole


@pytest.mark.parametrize("cell", ['"half" a quote', '"one""two" three', '"open'])
def test_a_cell_with_a_broken_quote_is_refused(tmp_path: Path, cell: str) -> None:
    """Without strict quotes, Python's reader joins such cells to another text without a word."""
    (tmp_path / "a.csv").write_text(f"id,text\n1,whole\n2,{cell}\n")
    with pytest.raises(InputError, match=r"row \d+: is not csv.*open quote") as refusal:
        read_rows(tmp_path / "a.csv", setting="s", wanted={"text": "s"})
    assert "half" not in str(refusal.value) and "three" not in str(refusal.value)
