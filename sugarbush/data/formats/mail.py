"""Reads mailboxes of the format mbox, as mail programs and Google Takeout export them.

A message is a row. Its headers are columns with names in lower case, such as `subject` and
`message-id`. A column of addresses, such as `from`, contains the addresses without the names of
people. `text` is the plain text of the body, or the text of its HTML. Attachments are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import getaddresses
from html.parser import HTMLParser
from typing import Any, ClassVar

from sugarbush.data.formats.interface import Format
from sugarbush.data.formats.rows import WHOLE, Reading, Row, Span
from sugarbush.data.remote import File
from sugarbush.errors import InputError

_ADDRESSES = {"from", "sender", "reply-to", "to", "cc", "bcc"}
_STRUCTURE = ("content-", "mime-version")  # these headers describe the encoding of the message
_START = re.compile(rb"From \S.*\d\d:\d\d")  # the sender and the time
_QUOTED_START = re.compile(rb">+From ")
_LINE_ENDS = re.compile(r"\r\n?")
_UNREADABLE = "is a message that cannot be read: its structure or encoding is wrong"


class Mbox(Format[File]):
    """Messages of a mailbox, counted from 1."""

    has_keys: ClassVar[bool] = True

    def names(self, source: File, reading: Reading) -> list[str]:
        """Return the headers of the first message, and `text`."""
        return next((list(row.fields) for row in self.rows(source, reading)), [])

    def rows(self, source: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the messages. Raises InputError for a file that does not start with `From `."""
        for number, content in enumerate(_messages(source, reading.setting), start=1):
            try:
                fields = _fields(content)
            except Exception:  # the parser raises many kinds, and their messages quote the mail
                if not reading.broken:
                    raise InputError(
                        f"{source}, row {number}: {_UNREADABLE} (setting {reading.setting})"
                    ) from None
                yield Row(number, {}, _UNREADABLE)
            else:
                yield Row(number, fields)


def _messages(source: File, setting: str) -> Iterator[bytes]:
    """Yield the messages of a mailbox. A line `From `, with a time, starts a message if it is the
    first line or follows an empty one. Programs write such a line of a text with `>` before it."""
    lines: list[bytes] | None = None
    after_empty = True
    with source.open("rb") as file:
        for line in file:
            if after_empty and _START.match(line):
                if lines is not None:
                    yield b"".join(lines)
                lines = []
            elif lines is not None:
                lines.append(line[1:] if _QUOTED_START.match(line) else line)
            elif line.strip():
                raise InputError(f"{source}: is not an mbox file (setting {setting})")
            after_empty = not line.strip()
    if lines is not None:
        yield b"".join(lines)


def _fields(content: bytes) -> dict[str, Any]:
    message: Any = BytesParser(policy=policy.default).parsebytes(content)
    fields: dict[str, Any] = {}
    for name, value in message.items():
        column, cell = name.lower(), str(value)
        if column in _ADDRESSES:
            cell = ", ".join(address.lower() for _, address in getaddresses([cell]))
        if not column.startswith(_STRUCTURE):
            fields.setdefault(column, cell)
    return fields | {"text": _text(message)}


def _text(message: EmailMessage) -> str | None:
    body: Any = message.get_body(("plain", "html"))
    if body is None:
        return None
    text = body.get_payload(decode=True).decode(body.get_content_charset("utf-8"))
    if body.get_content_subtype() == "html":
        text = _text_of_html(text)
    return _LINE_ENDS.sub("\n", text).removesuffix("\n")


def _text_of_html(page: str) -> str:
    """Return the text of an HTML page.

    >>> _text_of_html("<style>p {}</style><p>My lamp<br>is <b>late</b>.</p>")
    'My lamp\\nis late.'
    """
    reader = _HtmlText()
    reader.feed(page)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    return "\n".join(line for line in lines if line)


class _HtmlText(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in ("script", "style")
        if tag in ("br", "p", "div", "tr", "li", "blockquote"):
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style") and self._hidden > 0

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)
