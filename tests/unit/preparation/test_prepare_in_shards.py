"""Prepare gives the same files for any number of processes, and the rows of the file as a whole."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sugarbush.data import reading
from sugarbush.data.formats import arrow_files, text_files
from sugarbush.data.formats.rows import WHOLE, Reading, ReadOptions
from sugarbush.data.reading import FileShard, file_shards, shard_batches
from sugarbush.errors import InputError
from sugarbush.preparation import corpus
from sugarbush.privacy.shards import MapShards, map_shards
from sugarbush.randomness import public_rng
from sugarbush.run.cluster import ProcessPool
from tests.prepared import BY_USER, ROWS, prepared, write

texts = st.text(
    st.sampled_from('ab ,;"\n\r\té€😀\ufeff\u2028\x0b')
    | st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    max_size=12,
)
NAMES = ("id", "text", "topic")


def csv_of(rows: Sequence[Sequence[str]], *, end: str, mark: bytes, encoding: str) -> bytes:
    stored = io.StringIO()
    writer = csv.writer(stored, lineterminator=end)
    writer.writerows([NAMES, *rows])
    return mark + stored.getvalue().encode(encoding)


def jsonl_of(rows: Sequence[Sequence[str]], *, end: str, mark: bytes) -> bytes:
    lines = [json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False) for row in rows]
    return mark + "".join(line + end for line in lines).encode()


def reversed_shards(function: Any, shards: Sequence[Any], combine: Any) -> Any:
    """Workers may finish in any order."""
    return reduce(combine, [function(shard) for shard in shards][::-1])


def rows_in_shards(path: Path, options: ReadOptions) -> tuple[int, list[Any]]:
    wanted = dict.fromkeys(NAMES, "a setting")
    own = Reading("prepare.file", wanted, broken=True, options=options)
    shards = file_shards(path, reading=own, map_shards=reversed_shards)
    return len(shards), [
        row for shard in shards for rows in shard_batches(shard, own) for row in rows
    ]


def rows_as_a_whole(path: Path, options: ReadOptions) -> list[Any]:
    own = Reading("prepare.file", dict.fromkeys(NAMES, "a"), broken=True, options=options)
    return [row for rows in shard_batches(FileShard(path, WHOLE), own) for row in rows]


rows_of_texts = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=25)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows_of_texts,
    st.tuples(st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from([b"", b"\xef\xbb\xbf"])),
    st.tuples(st.integers(1, 90), st.integers(1, 40)),
)
def test_a_csv_file_in_ranges_has_the_rows_of_the_whole_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[str, str, str]],
    form: tuple[str, bytes],
    sizes: tuple[int, int],
) -> None:
    """Quoted line ends, every kind of line end, a mark, and characters of several bytes."""
    (end, mark), (size, block) = form, sizes
    monkeypatch.setattr(reading, "_SPAN_BYTES", size)
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", block)
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_of(rows, end=end, mark=mark, encoding="utf-8"))
    whole = rows_as_a_whole(path, ReadOptions())
    shards, found = rows_in_shards(path, ReadOptions())
    assert found == whole
    assert shards <= len(path.read_bytes().splitlines())  # a shard may have empty lines only


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows_of_texts,
    st.tuples(st.sampled_from(["\n", "\r\n", "\n\n"]), st.sampled_from([b"", b"\xef\xbb\xbf"])),
    st.integers(1, 90),
)
def test_json_lines_in_ranges_have_the_rows_of_the_whole_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[str, str, str]],
    form: tuple[str, bytes],
    size: int,
) -> None:
    end, mark = form
    monkeypatch.setattr(reading, "_SPAN_BYTES", size)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(jsonl_of(rows, end=end, mark=mark))
    assert rows_in_shards(path, ReadOptions())[1] == rows_as_a_whole(path, ReadOptions())


@pytest.mark.parametrize(
    ("encoding", "shards"), [("cp1252", 9), ("utf-16", 1), ("latin-1", 9), ("utf-8", 9)]
)
def test_a_file_in_an_encoding_of_wide_line_ends_is_one_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, shards: int
) -> None:
    monkeypatch.setattr(reading, "_SPAN_BYTES", 200)
    path = tmp_path / "rows.csv"
    rows = [(f"r{i}", f'été "{i}"\nfin', "a") for i in range(90)]
    path.write_bytes(csv_of(rows, end="\r\n", mark=b"", encoding=encoding))
    options = ReadOptions(encoding=encoding)
    count, found = rows_in_shards(path, options)
    assert found == rows_as_a_whole(path, options)
    assert (count > 1) == (shards > 1)


def test_row_groups_of_parquet_are_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_files, "_SPAN_ROWS", 20)
    path = tmp_path / "rows.parquet"
    frame = pd.DataFrame({name: [f"{name} {i}" for i in range(100)] for name in NAMES})
    frame.to_parquet(path, index=False, row_group_size=7)
    assert rows_in_shards(path, ReadOptions()) == (5, rows_as_a_whole(path, ReadOptions()))


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_SPAN_BYTES", 2000)
    monkeypatch.setattr(arrow_files, "_SPAN_ROWS", 40)


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("changes", [{}, BY_USER], ids=["record", "user"])
def test_the_order_of_finished_shards_changes_no_byte(
    tmp_path: Path, suffix: str, changes: dict[str, Any]
) -> None:
    write(tmp_path / f"corpus{suffix}", ROWS)
    one = prepared(tmp_path, None, **changes)
    assert len(one) > 12
    assert prepared(tmp_path, reversed_shards, **changes) == one
    shards = [
        pq.read_table(tmp_path / f"data/private/prepared/{p}.parquet") for p in ("train", "heldout")
    ]
    assert sum(map(len, shards)) == (120 if changes else 400)


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("changes", [{}, BY_USER], ids=["record", "user"])
def test_two_and_five_processes_write_the_bytes_of_one(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """A csv file with a mark, quoted line ends, CRLF and characters of several bytes."""
    write(tmp_path / "corpus.csv", ROWS)
    path = tmp_path / "corpus.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    one = prepared(tmp_path, None, **changes)
    assert sum(name.startswith("train") for name in one) > 4
    for processes in (2, 5):
        assert prepared(tmp_path, ProcessPool(processes), **changes) == one


def before_shard(number: int, change: Callable[[], None]) -> MapShards:
    """Changes the corpus before the shard `number` is split."""

    def engine(function: Any, shards: Sequence[Any], combine: Any) -> Any:
        results = []
        for shard in shards:
            if getattr(shard, "number", None) == number:
                change()
            results.append(function(shard))
        return reduce(combine, results)

    return engine


SHUFFLED = [ROWS[i] for i in public_rng(1, "rows").permutation(len(ROWS))]


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("changes", [{}, BY_USER], ids=["record", "user"])
@pytest.mark.parametrize("rows", [SHUFFLED, ROWS[:200]], ids=["order", "shorter"])
def test_a_file_that_changes_between_two_shards_is_refused(
    tmp_path: Path, suffix: str, changes: dict[str, Any], rows: list[tuple[str, ...]]
) -> None:
    """Otherwise a record in two shards would count twice. Without ids nothing else detects it."""
    path = tmp_path / f"corpus{suffix}"
    write(path, ROWS)
    engine = before_shard(3, lambda: write(path, rows))
    with pytest.raises(InputError, match="changed while it was read"):
        prepared(tmp_path, engine, prepare__id_column=None, **changes)
    assert not (tmp_path / "data/private/prepared").exists()


def replaced(path: Path) -> None:
    """Another file with the same size and time of change takes the name."""
    stat = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(path)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("change", [replaced, Path.touch, Path.unlink])
def test_a_file_that_is_replaced_touched_or_deleted_is_refused(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "corpus.csv"
    write(path, ROWS)
    with pytest.raises(InputError, match="changed while it was read"):
        prepared(tmp_path, before_shard(3, lambda: change(path)))


def test_a_file_that_changes_while_its_only_shard_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_of([("a", "b", "c")] * 40_000, end="\n", mark=b"", encoding="utf-8"))
    own = Reading("prepare.file", dict.fromkeys(NAMES, "a setting"), broken=True)
    (shard,) = file_shards(path, reading=own, map_shards=map_shards)
    batches = shard_batches(shard, own)
    next(batches)
    with path.open("a") as file:
        file.write("d,e,f\n")
    with pytest.raises(InputError, match="changed while it was read"):
        list(batches)


def test_a_file_that_changes_after_its_last_shard_is_refused(tmp_path: Path) -> None:
    """File systems of several machines may report a change late."""
    path = tmp_path / "corpus.csv"
    write(path, ROWS)

    def engine(function: Any, shards: Sequence[Any], combine: Any) -> Any:
        result = map_shards(function, shards, combine)
        write(path, SHUFFLED)
        return result

    with pytest.raises(InputError, match="changed while it was read"):
        prepared(tmp_path, engine)


Spoil = Callable[[list[tuple[str, ...]]], None]


def repeated_id(rows: list[tuple[str, ...]]) -> None:
    rows[301] = (rows[17][0], *rows[301][1:])


def empty_text(rows: list[tuple[str, ...]]) -> None:
    rows[250] = (rows[250][0], " ", *rows[250][2:])


def two_bad_rows(rows: list[tuple[str, ...]]) -> None:
    empty_text(rows)
    rows[111] = (rows[111][0], "", *rows[111][2:])


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize(
    ("suffix", "spoil", "message"),
    [
        (".csv", repeated_id, r"corpus\.csv, rows 19 and 303: have the same id"),
        (".jsonl", repeated_id, r"corpus\.jsonl, rows 18 and 302: have the same id"),
        (".parquet", repeated_id, r"corpus\.parquet, rows 18 and 302: have the same id"),
        (".csv", empty_text, r"corpus\.csv, row 252: the text is empty"),
        (".jsonl", empty_text, r"corpus\.jsonl, row 251: the text is empty"),
        (".parquet", empty_text, r"corpus\.parquet, row 251: the text is empty"),
        (".csv", two_bad_rows, r"corpus\.csv, row 113: the text is empty"),
    ],
)
@pytest.mark.parametrize("engine", [None, reversed_shards])
def test_a_message_names_the_row_of_the_file_and_the_first_problem(
    tmp_path: Path, suffix: str, spoil: Spoil, message: str, engine: Any
) -> None:
    rows = list(ROWS)
    spoil(rows)
    write(tmp_path / f"corpus{suffix}", rows)
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, engine)
    assert not (tmp_path / "data/private/prepared").exists()


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("changes", [{}, BY_USER], ids=["record", "user"])
def test_no_shard_after_a_bad_row_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """A bad row at the start of 100 million is reported at once."""
    rows = list(ROWS)
    two_bad_rows(rows)
    write(tmp_path / "corpus.jsonl", rows)
    read: list[int] = []

    def counted(shard: FileShard, own: Reading) -> Any:
        read.append(shard.span.rows)
        return shard_batches(shard, own)

    monkeypatch.setattr(corpus, "shard_batches", counted)
    with pytest.raises(InputError, match="row 112: the text is empty"):
        prepared(tmp_path, map_shards, **changes)
    assert len(read) > 2 and read[-1] < 112


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("changes", [{}, BY_USER], ids=["record", "user"])
def test_any_number_of_processes_reports_the_first_problem(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    rows = list(ROWS)
    two_bad_rows(rows)
    write(tmp_path / "corpus.csv", rows)
    for processes in (2, 5):
        with pytest.raises(InputError, match="row 113: the text is empty"):
            prepared(tmp_path, ProcessPool(processes), **changes)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("changes", [{}, BY_USER], ids=["record", "user"])
@pytest.mark.parametrize("engine", [None, reversed_shards])
def test_a_missing_column_is_reported_before_a_bad_row_of_a_later_file(
    tmp_path: Path, engine: Any, changes: dict[str, Any]
) -> None:
    (tmp_path / "corpus").mkdir()
    write(tmp_path / "corpus/a.jsonl", ROWS)
    path = tmp_path / "corpus/a.jsonl"
    path.write_text(path.read_text().replace('"topic"', '"topics"'))
    write(tmp_path / "corpus/b.jsonl", [("b", "", "a", "u")])
    with pytest.raises(InputError, match=r"a\.jsonl: has no column 'topic'"):
        prepared(tmp_path, engine, **changes)


@pytest.mark.usefixtures("small_shards")
def test_an_open_quote_is_named_with_its_row(tmp_path: Path) -> None:
    write(tmp_path / "corpus.csv", ROWS)
    path = tmp_path / "corpus.csv"
    path.write_bytes(path.read_bytes().replace(b'"Lettre 300', b'"Lettre" 300'))
    with pytest.raises(InputError, match=r"row 302: is not csv\. Look for an open quote"):
        prepared(tmp_path, reversed_shards)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b'"' + data, r"row 2: is not csv"),
        (lambda data: data.replace(b"Lettre 350", b"Lettre \xff"), r"line 702: is not UTF-8"),
        (lambda data: b"", "has no rows"),
        (lambda data: data[: data.index(b"\n") + 1], "has no rows"),
        (lambda data: data.replace(b"topic", b"topics"), "has no column 'topic'"),
    ],
)
def test_a_damaged_csv_file_is_refused_as_before(
    tmp_path: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    path = tmp_path / "corpus.csv"
    write(path, ROWS)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, reversed_shards)


@pytest.mark.usefixtures("small_shards")
def test_a_column_may_be_missing_in_a_shard_but_not_in_the_file(tmp_path: Path) -> None:
    """Each record of JSON lines names its own fields."""
    lines = [json.dumps({"id": f"r{i}", "text": f"Lettre {i}, " * 9}) for i in range(400)]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match="has no column 'topic', which attribute 't' names"):
        prepared(tmp_path, reversed_shards)
    path.write_text("\n".join([*lines, json.dumps({"id": "x", "text": "fin", "topic": "a"})]))
    assert len(prepared(tmp_path, reversed_shards)) > 12


@pytest.mark.usefixtures("small_shards")
def test_copies_of_a_text_in_several_shards_are_not_all_texts(tmp_path: Path) -> None:
    same = [(row[0], "one text " * 9, *row[2:]) for row in ROWS]
    write(tmp_path / "corpus.csv", same)
    with pytest.raises(InputError, match="all texts are identical"):
        prepared(tmp_path, reversed_shards)
    write(tmp_path / "corpus.csv", [*same, ("last", "another text", "a", "u")])
    assert prepared(tmp_path, reversed_shards)


def test_the_repr_of_a_shard_shows_no_number_of_records(tmp_path: Path) -> None:
    """The scheduler of a cluster logs it."""
    shown: list[str] = []

    def engine(function: Any, shards: Sequence[Any], combine: Any) -> Any:
        shown.extend(map(repr, shards))
        return map_shards(function, shards, combine)

    write(tmp_path / "corpus.csv", ROWS)
    prepared(tmp_path, engine, **BY_USER)
    assert shown and set(shown) <= {"0", "_NumberedShard(number=0)"}
