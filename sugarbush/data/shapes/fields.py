"""A record with several text fields, such as the subject and the body of a ticket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sugarbush.data.shapes.interface import Shape, ShapeError, Span
from sugarbush.data.shapes.one_text import text_in
from sugarbush.data.shapes.sections import content_spans, joined, label_of, sections_of

if TYPE_CHECKING:
    import pyarrow as pa


class Fields(Shape):
    """Text columns in a fixed order. Only an `optional` column may be empty.

    >>> ticket = Fields(["subject", "body"])
    >>> ticket.text_of({"subject": "Lamp", "body": "It broke."})
    'Subject: Lamp\\nBody: It broke.'
    >>> ticket.parse("SUBJECT: Lamp\\n\\n**Body**: It broke.")
    {'subject': 'Lamp', 'body': 'It broke.'}
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        optional: Sequence[str] = (),
        requested: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self._names, self._optional = tuple(names), frozenset(optional)
        self._requested = dict(requested or {})

    @property
    def columns(self) -> Mapping[str, str]:
        return dict.fromkeys(self._names, "text.fields of the schema")

    @property
    def instruction(self) -> str:
        labels = [f'"{label_of(name)}:"' for name in self._names]
        missing = [f'"{label_of(name)}:"' for name in self._names if name in self._optional]
        empty = f" After {' and '.join(missing)} there may be no text." if missing else ""
        return (
            f"Each text has {len(labels)} sections in this order: {', '.join(labels)}. Begin each "
            f"section on a new line with its label.{empty}"
        )

    @property
    def description(self) -> str:
        return f"text fields {', '.join(self._names)}"

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return dict.fromkeys(self._names, pa.string())

    def text_of(self, fields: Mapping[str, Any]) -> str:
        from sugarbush.data.reading import is_missing  # slow import

        texts: dict[str, str] = {}
        for name in self._names:
            cell = fields.get(name)
            empty = name in self._optional and is_missing(cell)
            texts[name] = "" if empty else text_in(cell, name).strip()
        return joined(self._checked(texts).items(), self._names)

    def parse(self, text: str) -> dict[str, Any]:
        sections = sections_of(text, self._names)
        if tuple(name for name, _ in sections) != self._names:
            labels = ", ".join(f"'{label_of(name)}:'" for name in self._names)
            raise ShapeError(f"does not have each of {labels} once, in this order")
        return dict(self._checked(dict(sections)))

    def _checked(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        for name, content in texts.items():
            if not content and name not in self._optional:
                raise ShapeError(
                    f"has no text in column '{name}', which text.optional of the schema does not "
                    "list"
                )
        if not any(texts.values()):
            raise ShapeError("the text is empty")
        return texts

    @property
    def sections(self) -> tuple[str, ...]:
        return self._names

    def contents(self, text: str) -> Sequence[tuple[str, str]]:
        return sections_of(text, self._names)

    @property
    def requested(self) -> Mapping[str, tuple[int, ...]]:
        return self._requested

    def _shown(self, section: str) -> str:
        return f'"{label_of(section)}:"'

    def spans(self, text: str) -> Sequence[Span] | None:
        return content_spans(text, self._names)
