"""A record that is one string, the shape without a declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sugarbush.data.shapes.interface import Shape, ShapeError, Span

if TYPE_CHECKING:
    import pyarrow as pa

TEXT = "text"  # the column of a release


class OneText(Shape):
    """One string in one column. The canonical text is the string.

    >>> OneText("message").text_of({"message": "Hello."})
    'Hello.'
    """

    def __init__(self, column: str) -> None:
        self._column = column

    @property
    def columns(self) -> Mapping[str, str]:
        return {self._column: "prepare.text_column"}

    @property
    def instruction(self) -> str:
        return ""

    @property
    def description(self) -> str:
        return "one text"

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {TEXT: pa.string()}

    def text_of(self, fields: Mapping[str, Any]) -> str:
        return text_in(fields.get(self._column), self._column)

    def parse(self, text: str) -> dict[str, Any]:
        return {TEXT: text}

    def canonical(self, answer: str) -> str:
        return answer

    @property
    def sections(self) -> tuple[str, ...]:
        return ()

    def contents(self, text: str) -> Sequence[tuple[str, str]]:
        return [(TEXT, text)]

    def spans(self, text: str) -> Sequence[Span] | None:
        return [(0, len(text))]


def text_in(cell: Any, column: str) -> str:
    """Return the text in a cell. Raises ShapeError."""
    from sugarbush.data.reading import is_missing  # slow import

    if is_missing(cell):
        raise ShapeError(f"has no text in column '{column}'")
    if not isinstance(cell, str):
        raise ShapeError(f"column '{column}' is not a text")
    return cell
