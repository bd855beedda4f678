"""Rows that are messages become conversations: one record for each thread.

A conversation depends on the rows of its own thread alone, so the record is the thread: its id is
the thread's, and one more thread adds one record and changes no other. A row without a thread is a
bad row, and so is a conversation with a time that cannot be read.

A thread with several users, or with an id that may be rounded, is an error, and never a bad row
that is dropped. Else the rows of one user would decide whether the record of another user is used.

All messages are in memory, because the rows of a thread may be anywhere in the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final

from sugarbush.data.cells import is_missing, is_number, may_be_rounded, text_of
from sugarbush.data.formats.rows import Reading, Row, ThreadColumns
from sugarbush.data.quantities import CellError, datetime_in
from sugarbush.errors import InputError
from sugarbush.privacy.users import normalised_user

MESSAGES: Final = "messages"
"""The column with the turns of a thread, each with `role` and `content`."""


def message_columns(wanted: Mapping[str, str], thread: ThreadColumns) -> dict[str, str]:
    """Return the columns of messages for the `wanted` columns of conversations, each with the
    setting that names it."""
    named = {name: setting for name, setting in wanted.items() if name != MESSAGES}
    for name, column in thread._asdict().items():
        if column is not None:
            named.setdefault(
                column, "prepare.text_column" if name == "text" else f"prepare.messages.{name}"
            )
    return named


def reading_of_messages(reading: Reading) -> Reading:
    """Return what to read of messages for conversations. Raises InputError if the schema declares
    no conversation."""
    thread = reading.options.thread
    assert thread is not None
    if MESSAGES not in reading.wanted:
        raise InputError(
            "prepare.messages: rows become conversations, but the schema declares none. Set "
            f"text: {{conversation: {{column: {MESSAGES}, roles: [...]}}}}"
        )
    wanted = message_columns(reading.wanted, thread)
    return replace(reading, wanted=wanted, options=replace(reading.options, thread=None))


@dataclass(frozen=True)
class _Message:
    number: int
    time: float
    turn: dict[str, Any]
    fields: Mapping[str, Any]


def conversations(rows: Iterable[Row], thread: ThreadColumns, *, source: object) -> Iterator[Row]:
    """Yield a row for each thread, in the order of their first rows. Its number is that of its
    first row.

    The turns are in the order of their time, and then of their rows. Another column has the value
    of the first message that has one. Bad rows come first. Raises InputError that names `source`
    for a thread with several users, and for an id that may be rounded.
    """
    threads: dict[str, list[_Message]] = {}
    wrong: dict[str, Row] = {}
    for row in rows:
        if row.problem:
            yield row
            continue
        if may_be_rounded(row.fields.get(thread.thread)):
            raise InputError(
                f"{source}, row {row.number}: column '{thread.thread}' has a number that is too "
                "large for its type. Save the column as text"
            )
        key = (text_of(row.fields.get(thread.thread)) or "").strip()
        if not key:
            yield Row(row.number, {}, f"has no thread in column '{thread.thread}'")
            continue
        try:
            time = 0.0 if thread.time is None else _moment(row.fields.get(thread.time))
        except CellError:
            wrong.setdefault(key, _bad_time(row.number, str(thread.time)))
            time = 0.0
        turn = {
            "role": text_of(row.fields.get(thread.speaker)),
            "content": row.fields.get(thread.text),
        }
        threads.setdefault(key, []).append(_Message(row.number, time, turn, row.fields))
    for key, messages in threads.items():
        _require_one_user(messages, thread.user, source)
        yield wrong.get(key) or _conversation(key, messages, thread)


def _conversation(key: str, messages: list[_Message], thread: ThreadColumns) -> Row:
    first = messages[0].number
    messages.sort(key=lambda message: message.time)  # rows of the same time keep their order
    fields: dict[str, Any] = {}
    for message in messages:
        for name, value in message.fields.items():
            if name not in fields or _is_empty(fields[name]):
                fields[name] = value
    turns = [message.turn for message in messages]
    return Row(first, {**fields, thread.thread: key, MESSAGES: turns})


def _require_one_user(messages: list[_Message], column: str | None, source: object) -> None:
    if column is None:
        return
    users = {normalised_user(text_of(each.fields.get(column)) or "") for each in messages}
    if len(users - {""}) > 1:
        raise InputError(
            f"{source}, row {messages[0].number}: is a thread with several users in column "
            f"'{column}'. A guarantee per user needs one user per thread: name another column, or "
            "none"
        )


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and not cell.strip())


def _bad_time(number: int, column: str) -> Row:
    return Row(
        number,
        {},
        f"column '{column}' has a time that cannot be read, or that may be read as two dates. "
        "Write times such as 2026-01-05 17:30:00, or leave out --time (prepare.messages.time): "
        "then turns are in the order of the rows",
    )


def _moment(cell: Any) -> float:
    """Return a time as seconds. A number is one already. Raises CellError."""
    if isinstance(cell, date):
        return _seconds(cell if isinstance(cell, datetime) else datetime(*cell.timetuple()[:3]))
    if is_number(cell):
        return float(cell)
    text = (text_of(cell) or "").strip()
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return _seconds(datetime.fromisoformat(text))
    except ValueError:
        return _seconds(datetime_in(text))


def _seconds(moment: datetime) -> float:
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() - (
        0.0 if (offset := moment.utcoffset()) is None else offset.total_seconds()
    )
