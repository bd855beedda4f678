"""`sugarbush.conversations`: messages of a frame become the records that `prepare` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sugarbush.data.formats.rows import ThreadColumns
from sugarbush.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def conversations(
    frame: Any,
    *,
    thread: str,
    speaker: str,
    text: str = "text",
    time: str | None = None,
    user: str | None = None,
) -> pd.DataFrame:
    """Return a frame with one row per thread: the column `messages`, and the other columns.

    Each row of `frame` is a message, with the column of its `thread`, its `speaker`, its `text` and
    its `time`. Without `time`, messages are in the order of the rows. Another column has the value
    of the first message that has one. The thread is the record: pass `record_id=thread` to
    `prepare`, and declare `roles` and `other_turns` in the schema. With `user`, all messages of a
    thread that name a user name the same one.

    Guarantee: a row of the result depends on the messages of its own thread alone. The result is
    private, as the frame is.

    Raises InputError for a row without a thread, a thread that may be a rounded number, a time that
    cannot be read, and a thread with several users. The message names the row, and quotes no value.

    >>> import pandas as pd
    >>> messages = pd.DataFrame({
    ...     "ticket": [7, 8, 7], "at": ["2026-01-05 10:00", "2026-01-05 09:00", "2026-01-05 09:30"],
    ...     "by": ["agent", "customer", "customer"], "text": ["Sorry.", "Hello?", "It is late."]})
    >>> own = conversations(messages, thread="ticket", speaker="by", time="at")
    >>> [[turn["role"] for turn in turns] for turns in own["messages"]], list(own["ticket"])
    ([['customer', 'agent'], ['customer']], ['7', '8'])
    """
    import pandas as pd

    from sugarbush.arguments import pandas_frame
    from sugarbush.data.reading import rows_of_frame
    from sugarbush.data.threads import MESSAGES, conversations

    own = pandas_frame("the frame", frame)
    named = {thread: "thread", speaker: "speaker", text: "text", time: "time", user: "user"}
    wanted = {column: argument for column, argument in named.items() if column is not None}
    columns = ThreadColumns(thread=thread, speaker=speaker, text=text, time=time, user=user)
    found = list(conversations(rows_of_frame(own, wanted=wanted), columns, source="the frame"))
    for row in found:
        if row.problem:
            raise InputError(f"the frame, row {row.number}: {row.problem}")
    turns = {speaker, text, time} - {user, thread}
    kept = [str(name) for name in own.columns if name not in turns and name != MESSAGES]
    return pd.DataFrame([row.fields for row in found], columns=[MESSAGES, *kept])
