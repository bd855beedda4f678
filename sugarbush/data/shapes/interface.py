"""Defines the interface of a shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Span = tuple[int, int]


class ShapeError(ValueError):
    """A row or an answer does not have the shape. The message names the column or the turn, and
    never quotes a value."""


class Shape(ABC):
    """Converts between the columns of a row and one canonical text.

    Embeddings, prompts, votes and audits read the canonical text alone. Guarantee: the canonical
    text of a row is a function of this row and the public declaration in the schema. So one record
    still has one score vector, and its norm is still at most 1. Another record never changes the
    text of a record, and never decides whether a record is usable.
    """

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of a canonical text, or None if the text is no JSON."""
        return None

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """The columns of the text, each with the setting that names it."""

    @property
    @abstractmethod
    def instruction(self) -> str:
        """The sentences of a prompt that describe the form of a text."""

    @property
    @abstractmethod
    def description(self) -> str:
        """A few public words for the card, such as `conversations in column messages`."""

    @property
    @abstractmethod
    def types(self) -> Mapping[str, pa.DataType]:
        """The Arrow type of each released column."""

    @property
    def reads_all_columns(self) -> bool:
        """Whether a row may contain further columns of the text, which a file may lack."""
        return False

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns with free text. No attribute may have the name of one of them."""
        return frozenset(self.columns)

    @abstractmethod
    def text_of(self, fields: Mapping[str, Any]) -> str:
        """Return the canonical text of a row. Raises ShapeError."""

    @abstractmethod
    def parse(self, text: str) -> dict[str, Any]:
        """Return the released columns of a text, which may be an answer with small faults.

        Stray blank lines, a fence around the text and the spelling of labels are repaired. For a
        canonical text, `text_of(parse(text)) == text`. Raises ShapeError.
        """

    def canonical(self, answer: str) -> str:
        """Return the canonical text of an answer. Raises ShapeError."""
        return self.text_of(self.parse(answer))

    def expanded(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of a row, and the values inside its text at dotted paths."""
        return fields

    def value_in(self, text: str, column: str) -> Any:
        """Return the value of an attribute's column inside a canonical text.

        Raises KeyError if texts of this shape do not contain the column.
        """
        raise KeyError(column)

    def is_inside(self, column: str) -> bool:
        """Return whether a canonical text contains the values of a column of an attribute."""
        return False

    @abstractmethod
    def spans(self, text: str) -> Sequence[Span] | None:
        """Return the positions of the free text in a canonical text, without labels.

        None means that single words of the text cannot be replaced.
        """


def unfenced(text: str) -> str:
    """Remove a Markdown fence around a text, and white space at both ends.

    >>> unfenced("```json\\n{}\\n```")
    '{}'
    """
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        first_line, _, rest = text.partition("\n")
        if not first_line.strip("`").strip() or first_line.strip("`").strip().isalnum():
            return rest[:-3].strip()
    return text
