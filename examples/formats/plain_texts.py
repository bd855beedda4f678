"""Texts in files of their own: a folder of `.txt` files, one record each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from sugarbush.extend import WHOLE, File, Reading, Row, Span, TextFormat


class PlainText(TextFormat):
    """One record: the whole file as `text`, and its `name`, which may be the id."""

    has_conversations: ClassVar[bool] = False

    def names(self, source: File, reading: Reading) -> list[str]:
        """Return the names, which all files have."""
        return ["name", "text"]

    def rows(self, source: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the one record. Line ends become those of Unix."""
        self.require_columns(source, reading.wanted, self.names(source, reading))
        lines = (line.rstrip("\r\n") for line in self.lines(source, reading))
        yield Row(1, {"name": source.name, "text": "\n".join(lines).strip()})
