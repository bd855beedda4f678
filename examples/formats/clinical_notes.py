"""Clinical notes of FHIR: lines of `DocumentReference`, as a bulk export writes them.

A note is a row with `id`, `type`, `date`, `patient` and `text`. The text is the attachment that is
inside the record. A server may give its address instead; such a note is a bad row.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, ClassVar

from sugarbush.errors import InputError
from sugarbush.extend import WHOLE, File, Reading, Row, Span, TextFormat


class DocumentReferences(TextFormat):
    """One note per line. The number of a row is its line."""

    has_conversations: ClassVar[bool] = False

    def names(self, source: File, reading: Reading) -> list[str]:
        """Return the names, which all notes have."""
        return ["id", "type", "date", "patient", "text"]

    def rows(self, source: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the notes. Raises InputError for a line that is no note with a text."""
        self.require_columns(source, reading.wanted, self.names(source, reading))
        for number, line in enumerate(self.lines(source, reading), start=1):
            if not line.strip():
                continue
            try:
                row = Row(number, _fields(json.loads(line)))
            except _NoNote as error:
                row = Row(number, {}, str(error))
            except (ValueError, RecursionError, AttributeError, TypeError):
                row = Row(number, {}, "is no record of FHIR, or its text has a wrong encoding")
            if row.problem and not reading.broken:
                raise InputError(
                    f"{source}, row {number}: {row.problem} (setting {reading.setting})"
                )
            yield row


class _NoNote(Exception):
    """A record without a text. The message quotes no value."""


def _fields(record: dict[str, Any]) -> dict[str, Any]:
    if record.get("resourceType") != "DocumentReference":
        raise _NoNote("is no DocumentReference")
    kind = record.get("type") or {}
    names = [kind.get("text"), *(code.get("display") for code in kind.get("coding", ()))]
    return {
        "id": record.get("id"),
        "type": next((name for name in names if name), None),
        "date": record.get("date"),
        "patient": (record.get("subject") or {}).get("reference"),
        "text": _text(record),
    }


def _text(record: dict[str, Any]) -> str:
    attachments = [each.get("attachment") or {} for each in record.get("content", ())]
    for attachment in attachments:
        kind, _, parameters = attachment.get("contentType", "text/plain").partition(";")
        if attachment.get("data") and kind.strip().lower() == "text/plain":
            charset = parameters.strip().removeprefix("charset=").strip('"') or "utf-8"
            data = base64.b64decode(attachment["data"], validate=True)
            return data.decode(charset).removeprefix("\ufeff").replace("\r\n", "\n").strip()
    raise _NoNote("has no attachment with a plain text in it")
