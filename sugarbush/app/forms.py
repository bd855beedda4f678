"""Reads the fields of a form, and assigns an error message to its field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import yaml

from sugarbush.errors import InputError
from sugarbush.project.assignments import changed_settings, write_settings

# The options of `sugarbush init` and the fields of the form that contain their values.
_FIELD_OF_OPTION = {
    "--from": "prepare.file",
    "--text": "prepare.text_column",
    "--id": "prepare.id_column",
    "--user": "prepare.user_column",
    "--donated": "prepare.donated",
    "--columns": "profile.columns",
    "--conversation": "text.conversation.column",
    "--roles": "text.conversation.roles",
    "--json-schema": "text.json_schema",
    "--table": "prepare.table",
    "--records": "prepare.table",
    "--header-rows": "prepare.header_rows",
    "--turn-keys": "text.conversation.format",
    "--other-turns": "text.conversation.other_turns",
    "--thread": "prepare.messages.thread",
    "--speaker": "prepare.messages.speaker",
    "--time": "prepare.messages.time",
}
_MOST_FIELDS = 500


class Form:
    """The fields of a submitted form. The names of settings are the names of their fields."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = fields

    @classmethod
    def of_body(cls, body: bytes) -> Form:
        """Parse the body of a POST. Raises InputError."""
        try:
            text = body.decode("utf-8")
            fields = parse_qs(
                text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
            )
        except ValueError:
            raise InputError("the form is not UTF-8, or too long") from None
        return cls(fields)

    def text(self, name: str) -> str:
        """Return a field without white space around it, or an empty text."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """Return a field as it is, with the line ends of Unix."""
        return self._fields.get(name, [""])[-1].replace("\r\n", "\n")

    def optional(self, name: str) -> str | None:
        """Return a field, or None if it is empty."""
        return self.text(name) or None

    def all(self, name: str) -> list[str]:
        """Return the chosen values of a field with several values."""
        return [text.strip() for text in self._fields.get(name, []) if text.strip()]

    def number(self, name: str) -> Any:
        """Return a field as a number, as None if it is empty, or as text if it is no number."""
        text = self.text(name)
        if "_" in text:  # Python would read 1_0 as 10
            return text
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return float(text)
        except ValueError:
            return text or None

    def lines(self, name: str) -> list[str]:
        """Return the lines of a field that are not empty."""
        return [line.strip() for line in self.raw(name).splitlines() if line.strip()]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return tuple(self._fields)


def save(base: Path, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Write settings to params.yaml, as `sugarbush run -S` does. Return their names.

    Comments are preserved. Raises ParamsError, and then nothing is written.
    """
    changed = changed_settings(base, changes=changes)
    write_settings(base, changed)
    return changed.names


def messages_by_field(message: str, fields: Sequence[str]) -> dict[str, str]:
    """Assign each line of an error to the field that it names. The key of other lines is ''.

    >>> messages_by_field("params.yaml: privacy.epsilon: too small.", ["privacy.epsilon"])
    {'privacy.epsilon': 'params.yaml: privacy.epsilon: too small.'}
    """
    messages: dict[str, str] = {}
    for line in message.splitlines():
        field = _field_of(line, fields)
        messages[field] = f"{messages[field]}\n{line}" if field in messages else line
    return messages


def _field_of(line: str, fields: Sequence[str]) -> str:
    named = [name for name in fields if _is_named(name, line)]
    named += [
        field for option, field in _FIELD_OF_OPTION.items() if option in line and field in fields
    ]
    return max(named, key=len, default="")


def as_yaml(value: Any) -> str:
    """Return a value for a field: a text as it is, and nothing for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else yaml.safe_dump(value).removesuffix("\n...\n")


def _is_named(field: str, line: str) -> bool:
    """Return whether a line names a field: a setting anywhere, or another field at its start."""
    if "." not in field:
        return line.startswith(f"{field}:")
    return re.search(rf"(?<![\w.]){re.escape(field)}(?!\w|\.\w)", line) is not None
