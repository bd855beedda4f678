"""What a check found, as values and as lines of text."""

from __future__ import annotations

from dataclasses import dataclass

_COLUMN = 11  # characters


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a passed check found, for example "ok: 3 attributes" about the subject "schema".

    Without a subject, it is a note on the checks before it. The text may have several lines.
    """

    subject: str = ""
    text: str

    @property
    def lines(self) -> str:
        """The subject and the text in two columns."""
        return f"{self.subject:<{_COLUMN}}{self.text}".replace("\n", "\n" + " " * _COLUMN)
