"""Exports with one row per message: the rows of a thread are one record."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import sugarbush as sb
from sugarbush.data.formats.rows import Reading, ReadOptions, Row, ThreadColumns
from sugarbush.data.reading import (
    column_names,
    digest_of_source,
    file_shards,
    read_rows,
    shard_batches,
)
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.threads import conversations
from sugarbush.errors import InputError
from sugarbush.privacy.shards import map_shards

COLUMNS = ThreadColumns(thread="ticket", speaker="from", text="body", time="at")
WANTED = {"messages": "the schema", "ticket": "prepare.id_column", "product": "attribute"}
ROWS = [
    {
        "ticket": "7",
        "at": "2026-01-05T10:00:00Z",
        "from": "agent",
        "body": "We send one.",
        "product": "lamp",
    },
    {
        "ticket": "8",
        "at": "2026-01-05T09:30:00Z",
        "from": "customer",
        "body": "Hello?",
        "product": "",
    },
    {
        "ticket": "7",
        "at": "2026-01-05T10:12:33+01:00",
        "from": "customer",
        "body": "It flickers.",
        "product": "lamp",
    },
    {
        "ticket": "8",
        "at": "2026-01-05T09:31:00Z",
        "from": "agent",
        "body": "Yes?",
        "product": "chair",
    },
]


def _row(number: int, **fields: Any) -> Row:
    return Row(number, {"ticket": "7", "at": "1", "from": "agent", "body": "x", **fields})


def _file(folder: Path, name: str, rows: list[dict[str, str]]) -> Path:
    with (folder / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / name


def _said(row: Row) -> list[tuple[str, str]]:
    return [(turn["role"], turn["content"]) for turn in row.fields["messages"]]


def test_the_rows_of_a_thread_are_one_record_in_the_order_of_their_times(tmp_path: Path) -> None:
    file = _file(tmp_path, "data.csv", ROWS)
    options = ReadOptions(thread=COLUMNS)
    first, second = read_rows(file, setting="prepare.file", wanted=WANTED, options=options)
    assert (first.number, first.fields["ticket"], first.fields["product"]) == (2, "7", "lamp")
    assert _said(first) == [("customer", "It flickers."), ("agent", "We send one.")]
    assert (second.number, second.fields["product"]) == (3, "chair")
    assert column_names(file, required=WANTED, setting="--from", options=options) == ("product",)
    reading = Reading("prepare.file", WANTED, options=options)
    (shard,) = file_shards(file, reading=reading, map_shards=map_shards)
    assert [row for batch in shard_batches(shard, reading) for row in batch] == [first, second]


def test_a_thread_may_be_in_several_files(tmp_path: Path) -> None:
    for number, row in enumerate(ROWS):
        _file(tmp_path, f"{number}.csv", [row])
    options = ReadOptions(thread=COLUMNS)
    rows = read_rows(tmp_path, setting="prepare.file", wanted=WANTED, options=options)
    assert [len(row.fields["messages"]) for row in rows] == [2, 2]
    digest = digest_of_source(tmp_path, setting="s", wanted=WANTED, options=options)
    assert digest == digest_of_source(tmp_path, setting="s", wanted=WANTED, options=options)


def test_a_schema_without_a_conversation_is_refused(tmp_path: Path) -> None:
    file = _file(tmp_path, "data.csv", ROWS)
    with pytest.raises(InputError, match="the schema declares none"):
        read_rows(file, setting="s", wanted={"body": "x"}, options=ReadOptions(thread=COLUMNS))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("1699999999.0002", "1699999999.0003"),
        ("2026-01-05 09:00:00.120", "2026-01-05 09:00:00.500"),
        ("25/12/2025, 17:30", "Jan 5, 2026 9:00 am"),
        (datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 5, 1)),
        (9, 10.5),
    ],
)
def test_times_of_many_forms_are_ordered(earlier: Any, later: Any) -> None:
    rows = [_row(1, at=later, body="late"), _row(2, at=earlier, body="early")]
    (row,) = conversations(rows, COLUMNS, source="f")
    assert [content for _, content in _said(row)] == ["early", "late"]


@pytest.mark.parametrize("wrong", ["secret", "03/04/2026 10:00", "", None])
def test_a_time_that_cannot_be_read_is_a_bad_row_of_its_thread_alone(wrong: Any) -> None:
    rows = [_row(1), _row(2, at=wrong), _row(3, ticket="8")]
    bad, good = conversations(rows, COLUMNS, source="f")
    assert bad.number == 2 and "column 'at' has a time that cannot be read" in bad.problem
    assert "secret" not in bad.problem and good.fields["ticket"] == "8"
    by_rows = list(conversations(rows, COLUMNS._replace(time=None), source="f"))
    assert [len(row.fields["messages"]) for row in by_rows] == [2, 1]


def test_a_row_without_a_thread_and_a_broken_row_are_bad_rows() -> None:
    rows = [_row(1), _row(2, ticket=" "), Row(3, {}, "has 3 cells")]
    problems = [row.problem for row in conversations(rows, COLUMNS, source="f")]
    assert problems == ["has no thread in column 'ticket'", "has 3 cells", ""]


def test_messages_without_a_user_belong_to_the_user_of_the_thread() -> None:
    by_user = COLUMNS._replace(user="customer")
    rows = [_row(1, customer=" "), _row(2, customer="Ana"), _row(3, customer="ana ")]
    (one,) = conversations([*rows, _row(4, customer=None)], by_user, source="f")
    assert one.fields["customer"] == "Ana" and not one.problem


@pytest.mark.parametrize("time", ["1", "no time"])
def test_a_thread_with_two_users_is_refused_and_never_dropped(time: str) -> None:
    """If it were dropped, the messages of one user would remove the record of another user."""
    by_user = COLUMNS._replace(user="customer")
    rows = [_row(1, customer="secret"), _row(2, customer="other", at=time)]
    with pytest.raises(InputError, match=r"^f, row 1: is a thread with several users") as error:
        list(conversations(rows, by_user, source="f"))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", [float(2**53), float(2**60)])
def test_a_thread_that_may_be_rounded_is_refused(name: float) -> None:
    with pytest.raises(InputError, match=r"^f, row 1: column 'ticket' has a number that is too"):
        list(conversations([_row(1, ticket=name)], COLUMNS, source="f"))
    (row,) = conversations([_row(1, ticket=7.0)], COLUMNS, source="f")
    assert row.fields["ticket"] == "7"


@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=12),
    more=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    at=st.integers(0, 12),
)
def test_one_more_thread_adds_one_record_and_changes_no_other(
    rows: list[tuple[str, int]], more: list[int], at: int
) -> None:
    """Sensitivity: a thread is one record, wherever its rows are."""

    def found(pairs: list[tuple[str, int]]) -> dict[str, Any]:
        made = [_row(n, ticket=t, at=time, body=f"{t}{time}") for n, (t, time) in enumerate(pairs)]
        rows = conversations(made, COLUMNS, source="f")
        return {row.fields["ticket"]: _said(row) for row in rows}

    before = found(rows)
    after = found(rows[:at] + [("new", time) for time in more] + rows[at:])
    assert after.pop("new") and after == before


def test_the_id_of_a_record_is_its_thread() -> None:
    messages = {"thread": "t", "speaker": "s"}
    with pytest.raises(ValidationError, match="Set id_column to the column of the thread"):
        PrepareSettings.model_validate({"messages": messages})
    own = PrepareSettings.model_validate({"messages": messages, "id_column": "t"})
    assert own.read_options.thread == ThreadColumns(thread="t", speaker="s", text="text")


def test_the_messages_of_a_frame_are_the_conversations_of_a_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)
    own = sb.conversations(frame, thread="ticket", speaker="from", text="body", time="at")
    options = ReadOptions(thread=COLUMNS)
    file = _file(tmp_path, "data.csv", ROWS)
    rows = read_rows(file, setting="prepare.file", wanted=WANTED, options=options)
    assert list(own.columns) == ["messages", "ticket", "product"]
    expected = [{name: row.fields[name] for name in own.columns} for row in rows]
    assert own.to_dict("records") == expected
    with pytest.raises(sb.InputError, match=r"the frame, row 1: is a thread with several users"):
        sb.conversations(frame, thread="ticket", speaker="from", text="body", user="from")
    with pytest.raises(sb.InputError, match=r"speaker: the frame has no column 'by'"):
        sb.conversations(frame, thread="ticket", speaker="by", text="body")
