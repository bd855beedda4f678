"""Mails in files of their own, as mail programs save them: `.eml`, one record each.

`text` is what the sender wrote: the plain text of the body, or else the text of its HTML, without
the quoted earlier mail. Attachments are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import getaddresses
from html.parser import HTMLParser
from typing import Any, ClassVar, cast

from sugarbush.errors import InputError
from sugarbush.extend import WHOLE, File, Format, Reading, Row, Span

_MARK = b"\xef\xbb\xbf"
_HEADERS = ("message-id", "date", "from", "to", "subject")
_EARLIER = re.compile(
    r"^(-{2,} ?(Original Message|Forwarded message|Ursprüngliche Nachricht) ?-{2,}"
    r"|(On|Am|Le) .{5,200}(wrote|schrieb.*|a écrit) ?:)[ \t]*$",
    re.MULTILINE,
)
_BLOCKS = {"br", "p", "div", "tr", "li", "h1", "h2", "h3"}
_NO_MAIL = "is no mail that can be read: it has no headers, or its encoding is wrong"


class Mail(Format[File]):
    """One record: some headers with names in lower case, and `text`."""

    has_conversations: ClassVar[bool] = False

    def names(self, source: File, reading: Reading) -> list[str]:
        """Return the names, which all mails have."""
        return [*_HEADERS, "text"]

    def rows(self, source: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the mail. Raises InputError for a file that is no mail."""
        self.require_columns(source, reading.wanted, self.names(source, reading))
        with source.open("rb") as file:
            content = file.read().removeprefix(_MARK)
        try:
            yield Row(1, _fields(content))
        except Exception:  # the parser raises many kinds, and their messages quote the mail
            if not reading.broken:
                raise InputError(
                    f"{source}, row 1: {_NO_MAIL} (setting {reading.setting})"
                ) from None
            yield Row(1, {}, _NO_MAIL)


def _fields(content: bytes) -> dict[str, Any]:
    mail = BytesParser(policy=policy.default).parsebytes(content)
    fields: dict[str, Any] = {name: mail[name] and str(mail[name]) for name in _HEADERS}
    if not any(fields.values()):
        raise ValueError("no headers")
    for name in ("from", "to"):
        people = getaddresses([fields[name] or ""])
        fields[name] = ", ".join(address.lower() for _, address in people if address) or None
    return fields | {"text": _written(mail)}


def _written(mail: EmailMessage) -> str | None:
    """Return the text without the quoted earlier mail.

    A line such as `On Monday, Vera wrote:` starts an earlier mail that goes to the end. Other lines
    of an earlier mail begin with `>`.
    """
    body = mail.get_body(("plain", "html"))
    if body is None:
        return None
    payload = cast(bytes, body.get_payload(decode=True))
    text = payload.decode(body.get_content_charset("utf-8"))
    if body.get_content_subtype() == "html":
        text = _text_of(text)
    text = re.sub(r"\r\n?", "\n", text)
    if (earlier := _EARLIER.search(text)) and earlier.start():
        text = text[: earlier.start()]
    return "\n".join(line for line in text.split("\n") if not line.startswith(">")).strip()


def _text_of(page: str) -> str:
    reader = _Html()
    reader.feed(page)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    return "\n".join(line for line in lines if line)


class _Html(HTMLParser):
    """Collects the text of a page, without styles, scripts and quotations."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in ("script", "style", "title", "blockquote")
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "title", "blockquote") and self._hidden > 0

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data.replace("\n", " "))
